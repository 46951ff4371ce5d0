#include "kernels/cuda/device.cuh"

namespace paceline::cuda {
namespace {

// The loops below go over vectors with a grid stride; the elements behind the last whole vector go to the
// first threads of the grid, one each (there are fewer of them than a block has threads).
template <class T, int kCount>
__global__ void add_relu_kernel(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ y,
                                std::int64_t count) {
  const std::int64_t vectors = count / kCount;
#pragma unroll 2
  for (std::int64_t i = thread_index(); i < vectors; i += thread_count()) {
    float left[kCount], right[kCount];
    load_floats(a + i * kCount, left);
    load_floats(b + i * kCount, right);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      left[j] = add_relu(left[j], right[j]);
    }
    store_floats(y + i * kCount, left);
  }
  const std::int64_t rest = vectors * kCount + thread_index();
  if (rest < count) {
    y[rest] = from_float<T>(add_relu(to_float(a[rest]), to_float(b[rest])));
  }
}

template <class T, int kCount>
__global__ void scale_kernel(const T* __restrict__ x, T* __restrict__ y, float factor, std::int64_t count) {
  const std::int64_t vectors = count / kCount;
#pragma unroll 2
  for (std::int64_t i = thread_index(); i < vectors; i += thread_count()) {
    float values[kCount];
    load_floats(x + i * kCount, values);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      values[j] *= factor;
    }
    store_floats(y + i * kCount, values);
  }
  const std::int64_t rest = vectors * kCount + thread_index();
  if (rest < count) {
    y[rest] = from_float<T>(to_float(x[rest]) * factor);
  }
}

template <int kCount>
__global__ void copy_kernel(const char* __restrict__ x, char* __restrict__ y, std::int64_t bytes) {
  const std::int64_t vectors = bytes / kCount;
  if constexpr (kCount == 16) {
    const auto* from = reinterpret_cast<const uint4*>(x);
    auto* to = reinterpret_cast<uint4*>(y);
#pragma unroll 4
    for (std::int64_t i = thread_index(); i < vectors; i += thread_count()) {
      to[i] = from[i];
    }
  } else {
    for (std::int64_t i = thread_index(); i < vectors; i += thread_count()) {
      y[i] = x[i];
    }
  }
  const std::int64_t rest = vectors * kCount + thread_index();
  if (rest < bytes) {
    y[rest] = x[rest];
  }
}

template <class T, int kCount>
__global__ void adam_kernel(AdamStep step, const T* __restrict__ gradient, float* __restrict__ parameter,
                            float* __restrict__ first, float* __restrict__ second, std::int64_t count) {
  const std::int64_t vectors = count / kCount;
  for (std::int64_t i = thread_index(); i < vectors; i += thread_count()) {
    float g[kCount], p[kCount], m[kCount], v[kCount];
    load_floats(gradient + i * kCount, g);
    load_floats(parameter + i * kCount, p);
    load_floats(first + i * kCount, m);
    load_floats(second + i * kCount, v);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      adam(step, g[j], p[j], m[j], v[j]);
    }
    store_floats(parameter + i * kCount, p);
    store_floats(first + i * kCount, m);
    store_floats(second + i * kCount, v);
  }
  const std::int64_t rest = vectors * kCount + thread_index();
  if (rest < count) {
    adam(step, to_float(gradient[rest]), parameter[rest], first[rest], second[rest]);
  }
}

__global__ void empty_kernel() {}

__global__ void spin_kernel(std::int64_t nanoseconds) {
  const std::int64_t start = global_nanoseconds();
  while (global_nanoseconds() - start < nanoseconds) {
    __nanosleep(100);
  }
}

}  // namespace

void launch_add_relu(Element element, const void* a, const void* b, void* y, std::int64_t count,
                     cudaStream_t stream) {
  for_element(element, [&]<class T>(T*) {
    const auto run = [&](auto kernel, int vector) {
      const Grid grid = stride_grid(divide_up(count, vector), processor_count());
      launch(kernel, grid, stream, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y),
             count);
    };
    aligned(0, a, b, y) ? run(add_relu_kernel<T, kWide<T>>, kWide<T>) : run(add_relu_kernel<T, 1>, 1);
  });
  check(cudaGetLastError(), "launching elementwise");
}

void launch_scale(Element element, const void* x, void* y, float factor, std::int64_t count,
                  cudaStream_t stream) {
  for_element(element, [&]<class T>(T*) {
    const auto run = [&](auto kernel, int vector) {
      const Grid grid = stride_grid(divide_up(count, vector), processor_count());
      launch(kernel, grid, stream, static_cast<const T*>(x), static_cast<T*>(y), factor, count);
    };
    aligned(0, x, y) ? run(scale_kernel<T, kWide<T>>, kWide<T>) : run(scale_kernel<T, 1>, 1);
  });
  check(cudaGetLastError(), "launching copy_scale");
}

void launch_copy(const void* x, void* y, std::int64_t bytes, cudaStream_t stream) {
  const auto run = [&](auto kernel, int vector) {
    const Grid grid = stride_grid(divide_up(bytes, vector), processor_count());
    launch(kernel, grid, stream, static_cast<const char*>(x), static_cast<char*>(y), bytes);
  };
  aligned(0, x, y) ? run(copy_kernel<16>, 16) : run(copy_kernel<1>, 1);
  check(cudaGetLastError(), "launching copy");
}

void launch_adam(Element element, const AdamStep& step, const void* gradient, float* parameter, float* first,
                 float* second, std::int64_t count, cudaStream_t stream) {
  for_element(element, [&]<class T>(T*) {
    const auto run = [&](auto kernel, int vector) {
      const Grid grid = stride_grid(divide_up(count, vector), processor_count());
      launch(kernel, grid, stream, step, static_cast<const T*>(gradient), parameter, first, second, count);
    };
    // Vectors of four: the three fp32 arrays decide.
    aligned(0, gradient, parameter, first, second) ? run(adam_kernel<T, 4>, 4) : run(adam_kernel<T, 1>, 1);
  });
  check(cudaGetLastError(), "launching adam");
}

void launch_empty(cudaStream_t stream) {
  launch(empty_kernel, Grid{}, stream);
  check(cudaGetLastError(), "launching empty");
}

void launch_spin(std::int64_t nanoseconds, cudaStream_t stream) {
  launch(spin_kernel, Grid{}, stream, nanoseconds);
  check(cudaGetLastError(), "launching spin");
}

}  // namespace paceline::cuda
