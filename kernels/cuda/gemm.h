// Row-major matrix products by cuBLASLt, with the algorithm that its heuristic puts first, as PyTorch does.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

namespace paceline::cuda {

// C[m, n] = A[m, k] * B[k, n], accumulated in fp32. fp32 uses no tensor cores, tf32 does.
class Gemm {
 public:
  // `precision`: "fp32", "tf32", "fp16" or "bf16". Throws std::runtime_error where the library has no
  // algorithm for the shape.
  Gemm(const std::string& precision, std::int64_t m, std::int64_t n, std::int64_t k);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  void launch(const void* a, const void* b, void* c, cudaStream_t) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline::cuda
