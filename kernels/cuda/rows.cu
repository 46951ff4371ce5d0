#include "kernels/cuda/device.cuh"

namespace paceline::cuda {
namespace {

// A row is read twice: the second time from the cache, where all but the very longest rows still are.
template <class T, int kCount>
__global__ void layer_norm_kernel(const T* __restrict__ x, const T* __restrict__ gamma,
                                  const T* __restrict__ beta, T* __restrict__ y, Rows shape, float epsilon) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < shape.rows;
       row += step) {
    const T* from = x + row * shape.columns;
    T* to = y + row * shape.columns;
    const std::int64_t vectors = shape.columns / kCount;
    Moments moments;
    for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
      float values[kCount];
      load_floats(from + i * kCount, values);
      moments = combine(moments, moments_of(values));
    }
    moments = combine_team(moments);
    const float inverse = rsqrtf(moments.squares / moments.count + epsilon);
    for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
      float values[kCount], factor[kCount], shift[kCount];
      load_floats(from + i * kCount, values);
      load_floats(gamma + i * kCount, factor);
      load_floats(beta + i * kCount, shift);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        values[j] = (values[j] - moments.mean) * inverse * factor[j] + shift[j];
      }
      store_floats(to + i * kCount, values);
    }
  }
}

template <class T, int kCount>
__global__ void softmax_kernel(const T* __restrict__ x, T* __restrict__ y, Rows shape) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < shape.rows;
       row += step) {
    const T* from = x + row * shape.columns;
    T* to = y + row * shape.columns;
    const std::int64_t vectors = shape.columns / kCount;
    ExpSum total;
    for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
      float values[kCount];
      load_floats(from + i * kCount, values);
      total = combine(total, exp_sum_of(values));
    }
    total = combine_team(total);
    const float inverse = 1.0f / total.sum;
    for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
      float values[kCount];
      load_floats(from + i * kCount, values);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        values[j] = expf(values[j] - total.largest) * inverse;
      }
      store_floats(to + i * kCount, values);
    }
  }
}

struct Largest {
  float value = 0;
};
__device__ Largest combine(Largest a, Largest b) { return {fmaxf(a.value, b.value)}; }

// A team to each block of values; the block's end is the array's end in the last one.
template <class T, int kCount>
__global__ void quantise_kernel(const T* __restrict__ x, std::int8_t* __restrict__ q,
                                float* __restrict__ scales, std::int64_t count, std::int64_t block) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
       index * block < count; index += step) {
    const std::int64_t begin = index * block;
    const std::int64_t length = min(block, count - begin);
    const std::int64_t vectors = length / kCount;
    const std::int64_t rest = vectors * kCount + threadIdx.x;  // fewer than a vector, so than a team
    Largest largest;
    for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
      float values[kCount];
      load_floats(x + begin + i * kCount, values);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        largest.value = fmaxf(largest.value, fabsf(values[j]));
      }
    }
    if (rest < length) {
      largest.value = fmaxf(largest.value, fabsf(to_float(x[begin + rest])));
    }
    const float scale = quantise_scale(combine_team(largest).value);
    for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
      float values[kCount];
      load_floats(x + begin + i * kCount, values);
      Vector<std::int8_t, kCount> quantised;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        quantised.at[j] = quantise(values[j], scale);
      }
      *reinterpret_cast<Vector<std::int8_t, kCount>*>(q + begin + i * kCount) = quantised;
    }
    if (rest < length) {
      q[begin + rest] = quantise(to_float(x[begin + rest]), scale);
    }
    if (threadIdx.x == 0) {
      scales[index] = scale;
    }
  }
}

template <class T, int kCount>
__global__ void dequantise_kernel(const std::int8_t* __restrict__ q, const float* __restrict__ scales,
                                  T* __restrict__ y, std::int64_t count, std::int64_t block) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
       index * block < count; index += step) {
    const std::int64_t begin = index * block;
    const std::int64_t length = min(block, count - begin);
    const std::int64_t vectors = length / kCount;
    const float scale = scales[index];
    for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
      const auto quantised = load<std::int8_t, kCount>(q + begin + i * kCount);
      float values[kCount];
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        values[j] = dequantise(quantised.at[j], scale);
      }
      store_floats(y + begin + i * kCount, values);
    }
    const std::int64_t rest = vectors * kCount + threadIdx.x;
    if (rest < length) {
      y[begin + rest] = from_float<T>(dequantise(q[begin + rest], scale));
    }
  }
}

// Calls `run` with the grid and with how wide the vectors are: rows (or blocks) of whole vectors, or scalars.
template <class T, class Run>
void by_rows(Rows shape, bool wide, Run run) {
  const int vector = wide ? kWide<T> : 1;
  run(row_grid(shape.rows, divide_up(shape.columns, vector), processor_count()));
}

}  // namespace

void launch_layer_norm(Element element, const void* x, const void* gamma, const void* beta, void* y,
                       Rows shape, float epsilon, cudaStream_t stream) {
  for_element(element, [&]<class T>(T*) {
    const bool wide = aligned(shape.columns * sizeof(T), x, gamma, beta, y);
    by_rows<T>(shape, wide, [&](Grid grid) {
      const auto kernel = wide ? layer_norm_kernel<T, kWide<T>> : layer_norm_kernel<T, 1>;
      launch(kernel, grid, stream, static_cast<const T*>(x), static_cast<const T*>(gamma),
             static_cast<const T*>(beta), static_cast<T*>(y), shape, epsilon);
    });
  });
  check(cudaGetLastError(), "launching layer_norm");
}

void launch_softmax(Element element, const void* x, void* y, Rows shape, cudaStream_t stream) {
  for_element(element, [&]<class T>(T*) {
    const bool wide = aligned(shape.columns * sizeof(T), x, y);
    by_rows<T>(shape, wide, [&](Grid grid) {
      const auto kernel = wide ? softmax_kernel<T, kWide<T>> : softmax_kernel<T, 1>;
      launch(kernel, grid, stream, static_cast<const T*>(x), static_cast<T*>(y), shape);
    });
  });
  check(cudaGetLastError(), "launching softmax");
}

void launch_quantise(Element element, const void* x, std::int8_t* q, float* scales, std::int64_t count,
                     std::int64_t block, cudaStream_t stream) {
  for_element(element, [&]<class T>(T*) {
    const bool wide = block % 16 == 0 && aligned(0, x, q);
    by_rows<T>({divide_up(count, block), block}, wide, [&](Grid grid) {
      const auto kernel = wide ? quantise_kernel<T, kWide<T>> : quantise_kernel<T, 1>;
      launch(kernel, grid, stream, static_cast<const T*>(x), q, scales, count, block);
    });
  });
  check(cudaGetLastError(), "launching quantise");
}

void launch_dequantise(Element element, const std::int8_t* q, const float* scales, void* y,
                       std::int64_t count, std::int64_t block, cudaStream_t stream) {
  for_element(element, [&]<class T>(T*) {
    const bool wide = block % 16 == 0 && aligned(0, q, y);
    by_rows<T>({divide_up(count, block), block}, wide, [&](Grid grid) {
      const auto kernel = wide ? dequantise_kernel<T, kWide<T>> : dequantise_kernel<T, 1>;
      launch(kernel, grid, stream, q, scales, static_cast<T*>(y), count, block);
    });
  });
  check(cudaGetLastError(), "launching dequantise");
}

}  // namespace paceline::cuda
