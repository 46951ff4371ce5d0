// The CPU kernels as functions on arrays (kernels/runnable.h says what each computes), all threaded, fp32.
// Arrays do not overlap.
#pragma once

#include <cstdint>

#include "kernels/cpu/thread_team.h"

namespace paceline::cpu {

// C[m,n] = A[m,k] * B[k,n]. Packs blocks of A and B so that the inner loop runs from the cache and keeps a
// tile of C in registers.
void gemm(ThreadTeam&, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
          float* c);

void elementwise(ThreadTeam&, std::int64_t m, const float* a, const float* b, float* y);
void copy_scale(ThreadTeam&, std::int64_t m, const float* x, float* y);
void copy(ThreadTeam&, std::int64_t m, const float* x, float* y);
void adam(ThreadTeam&, std::int64_t m, const float* gradient, float* parameter, float* first, float* second);

void layer_norm(ThreadTeam&, std::int64_t m, std::int64_t n, const float* x, const float* gamma,
                const float* beta, float* y);
void softmax(ThreadTeam&, std::int64_t m, std::int64_t n, const float* x, float* y);

void quantise(ThreadTeam&, std::int64_t m, std::int64_t n, const float* x, std::int8_t* q, float* scale);
void dequantise(ThreadTeam&, std::int64_t m, std::int64_t n, const std::int8_t* q, const float* scale,
                float* y);
// Two passes over x: a histogram of the magnitudes finds the bin of the k-th, then what lies above it is
// taken and the bin itself sorted out. Requires: m below 2^31.
void top_k(ThreadTeam&, std::int64_t m, std::int64_t k, const float* x, float* value, std::int32_t* index);

}  // namespace paceline::cpu
