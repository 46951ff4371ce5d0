// Stands for kernels/cuda/device_language.cuh in the tests: CUDA's built-ins on the host. Blocks run one
// after the other. The threads of a block are fibers: a warp drawn at random runs, its lanes in random order,
// to their next shuffle or __syncthreads, so that a missing __syncthreads shows. What it cannot show: races
// between blocks, memory ordering, speed.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#include "kernels/cuda/geometry.h"

#undef __shared__
#define __shared__ static  // one block at a time

namespace emulation {
extern uint3 thread, block;
extern dim3 threads_of_block, blocks_of_grid;

void run(paceline::cuda::Grid, const std::function<void()>& kernel);
void meet_in_block();
float from_lane(float value, int distance);
}  // namespace emulation

#define threadIdx emulation::thread
#define blockIdx emulation::block
#define blockDim emulation::threads_of_block
#define gridDim emulation::blocks_of_grid

inline void __syncthreads() { emulation::meet_in_block(); }
inline float __shfl_xor_sync(unsigned, float value, int distance) {
  return emulation::from_lane(value, distance);
}
inline void __nanosleep(unsigned) {}
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline std::uint32_t atomicAdd(std::uint32_t* to, std::uint32_t value) {
  const std::uint32_t before = *to;
  *to += value;
  return before;
}

namespace paceline::cuda {

using std::max;
using std::min;

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), Grid grid, cudaStream_t, Arguments... arguments) {
  emulation::run(grid, [&] { kernel(arguments...); });
}

std::int64_t global_nanoseconds();

}  // namespace paceline::cuda
