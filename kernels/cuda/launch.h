// The CUDA kernels behind kernels/runnable.h, each with one launcher. All are asynchronous on the stream and
// throw std::runtime_error when the launch is refused. Pointers are device memory, disjoint; sizes are 64-bit
// unless said otherwise. Loads and stores are of 16 bytes where pointers (and rows) are aligned to that.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/arithmetic.h"

namespace paceline::cuda {

enum class Element : std::uint8_t { fp32, fp16, bf16 };
constexpr std::int64_t bytes_of(Element element) { return element == Element::fp32 ? 4 : 2; }

struct Rows {
  std::int64_t rows = 0, columns = 0;
};

void launch_add_relu(Element, const void* a, const void* b, void* y, std::int64_t count, cudaStream_t);
void launch_scale(Element, const void* x, void* y, float factor, std::int64_t count, cudaStream_t);
void launch_copy(const void* x, void* y, std::int64_t bytes, cudaStream_t);

void launch_layer_norm(Element, const void* x, const void* gamma, const void* beta, void* y, Rows,
                       float epsilon, cudaStream_t);
void launch_softmax(Element, const void* x, void* y, Rows, cudaStream_t);

void launch_adam(Element, const AdamStep&, const void* gradient, float* parameter, float* first,
                 float* second, std::int64_t count, cudaStream_t);

// `scales` has one entry per block of `block` values; the last block may be shorter.
void launch_quantise(Element, const void* x, std::int8_t* q, float* scales, std::int64_t count,
                     std::int64_t block, cudaStream_t);
void launch_dequantise(Element, const std::int8_t* q, const float* scales, void* y, std::int64_t count,
                       std::int64_t block, cudaStream_t);

// The `keep` values of largest magnitude with their indices, in index order; of equal magnitudes the first.
// Radix select in three passes, then a compaction: five reads of x. Requires: 0 < keep <= count < 2^31;
// `scratch` has top_k_scratch(count) bytes, aligned to 16.
std::int64_t top_k_scratch(std::int64_t count);
void launch_top_k(Element, const void* x, std::int64_t count, std::int64_t keep, void* values,
                  std::int32_t* indices, void* scratch, cudaStream_t);

// Does nothing: what a launch costs.
void launch_empty(cudaStream_t);
// Holds the stream for so long, by the GPU's global timer. One thread: it takes no multiprocessor away from
// what runs beside it.
void launch_spin(std::int64_t nanoseconds, cudaStream_t);

}  // namespace paceline::cuda
