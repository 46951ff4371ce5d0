// The two things that C++ has no words for: a launch and the GPU's clock. Everything else in the kernels is
// plain C++ and CUDA's built-in functions, so that tests/measure/emulation can run them on the host in place
// of this header.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/geometry.h"

namespace paceline::cuda {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), Grid grid, cudaStream_t stream, Arguments... arguments) {
  kernel<<<grid.blocks, dim3(grid.columns, grid.rows), 0, stream>>>(arguments...);
}

__device__ inline std::int64_t global_nanoseconds() {
  std::int64_t time = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}

}  // namespace paceline::cuda
