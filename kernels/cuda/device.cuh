// Device-side pieces that several kernels share: storage types, 16-byte vectors, and reductions of a team
// (the threads of a block with the same threadIdx.y).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/device_language.cuh"
#include "kernels/cuda/geometry.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/resources.h"

namespace paceline::cuda {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Vector {
  T at[kCount];
};
template <class T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

template <class T, int kCount>
__device__ Vector<T, kCount> load(const T* from) {
  return *reinterpret_cast<const Vector<T, kCount>*>(from);
}
template <class T, int kCount>
__device__ void load_floats(const T* from, float (&to)[kCount]) {
  const auto vector = load<T, kCount>(from);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    to[i] = to_float(vector.at[i]);
  }
}
template <class T, int kCount>
__device__ void store_floats(T* to, const float (&from)[kCount]) {
  Vector<T, kCount> vector;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    vector.at[i] = from_float<T>(from[i]);
  }
  *reinterpret_cast<Vector<T, kCount>*>(to) = vector;
}

__device__ inline std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t thread_count() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

// What the other lane holds, word by word.
template <class State>
__device__ State from_lane(State state, int distance) {
  constexpr int kWords = sizeof(State) / sizeof(float);
  static_assert(sizeof(State) == kWords * sizeof(float));
  float words[kWords];
  memcpy(words, &state, sizeof state);
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    words[i] = __shfl_xor_sync(0xffffffffu, words[i], distance);
  }
  memcpy(&state, words, sizeof state);
  return state;
}

// The combination over the team, known to all its threads. A team is one warp of several in the block, or the
// whole block with a power of two of warps; only then it synchronises. Requires: all threads of the team
// come.
template <class State>
__device__ State combine_team(State state) {
  for (int distance = 16; distance > 0; distance /= 2) {
    state = combine(state, from_lane(state, distance));
  }
  if (blockDim.x > 32) {
    __shared__ State of_warp[32];
    __syncthreads();  // a former call's values have been read
    if (threadIdx.x % 32 == 0) {
      of_warp[threadIdx.x / 32] = state;
    }
    __syncthreads();
    state = of_warp[0];
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) {
      state = combine(state, of_warp[warp]);
    }
  }
  return state;
}

template <class... Pointers>
bool aligned(std::int64_t stride_bytes, Pointers... pointers) {
  return stride_bytes % 16 == 0 && ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

// Calls `with` with a null pointer to the storage type.
template <class With>
void for_element(Element element, With with) {
  switch (element) {
    case Element::fp32:
      return with(static_cast<float*>(nullptr));
    case Element::fp16:
      return with(static_cast<__half*>(nullptr));
    case Element::bf16:
      return with(static_cast<__nv_bfloat16*>(nullptr));
  }
}

}  // namespace paceline::cuda
