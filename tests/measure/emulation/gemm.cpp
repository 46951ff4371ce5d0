// Stands for kernels/cuda/gemm.cpp: the plain triple loop. It shows which array is which, not what cuBLASLt
// does.
#include "kernels/cuda/gemm.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace paceline::cuda {
namespace {

struct Shape {
  std::int64_t m, n, k;
};

float value(float x) { return x; }
float value(__half x) { return __half2float(x); }
float value(__nv_bfloat16 x) { return __bfloat162float(x); }
void put(float& to, float x) { to = x; }
void put(__half& to, float x) { to = __float2half_rn(x); }
void put(__nv_bfloat16& to, float x) { to = __float2bfloat16_rn(x); }

template <class T>
void multiply(const Shape& shape, const void* first, const void* second, void* result) {
  const T* a = static_cast<const T*>(first);
  const T* b = static_cast<const T*>(second);
  for (std::int64_t row = 0; row < shape.m; ++row) {
    for (std::int64_t column = 0; column < shape.n; ++column) {
      float sum = 0;
      for (std::int64_t i = 0; i < shape.k; ++i) {
        sum += value(a[row * shape.k + i]) * value(b[i * shape.n + column]);
      }
      put(static_cast<T*>(result)[row * shape.n + column], sum);
    }
  }
}

}  // namespace

struct Gemm::State {
  std::string precision;
  Shape shape;
};

Gemm::Gemm(const std::string& precision, std::int64_t m, std::int64_t n, std::int64_t k)
    : state_(std::make_unique<State>(State{precision, {m, n, k}})) {}
Gemm::~Gemm() = default;

void Gemm::launch(const void* a, const void* b, void* c, cudaStream_t) const {
  const std::string& precision = state_->precision;
  const auto run = precision == "fp16"   ? multiply<__half>
                   : precision == "bf16" ? multiply<__nv_bfloat16>
                                         : multiply<float>;
  run(state_->shape, a, b, c);
}

}  // namespace paceline::cuda
