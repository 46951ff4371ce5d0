#include "kernels/cuda/gemm.h"

#include <cublasLt.h>

#include <stdexcept>

#include "kernels/cuda/resources.h"

namespace paceline::cuda {
namespace {

// Hopper's kernels want more than PyTorch's older default of 4 MiB; this is its default on Hopper.
constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;

void check_blas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error(std::string("cuBLASLt, ") + what + ": " + cublasLtGetStatusString(status));
  }
}

struct Types {
  cudaDataType_t element;
  cublasComputeType_t compute;
};

Types types_of(const std::string& precision) {
  if (precision == "tf32") {
    return {CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
  }
  return {precision == "fp16"   ? CUDA_R_16F
          : precision == "bf16" ? CUDA_R_16BF
                                : CUDA_R_32F,
          CUBLAS_COMPUTE_32F};
}

// A column-major matrix, dense.
class Layout {
 public:
  Layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
    check_blas(cublasLtMatrixLayoutCreate(&layout_, type, static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(columns), rows),
               "matrix layout");
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

class Library {
 public:
  Library() { check_blas(cublasLtCreate(&handle_), "start"); }
  ~Library() { cublasLtDestroy(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  cublasLtHandle_t get() const { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

class Description {
 public:
  explicit Description(cublasComputeType_t compute) {
    check_blas(cublasLtMatmulDescCreate(&description_, compute, CUDA_R_32F), "product description");
  }
  ~Description() { cublasLtMatmulDescDestroy(description_); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  cublasLtMatmulDesc_t get() const { return description_; }

 private:
  cublasLtMatmulDesc_t description_ = nullptr;
};

class Preference {
 public:
  Preference() {
    check_blas(cublasLtMatmulPreferenceCreate(&preference_), "preference");
    const auto bytes = static_cast<std::size_t>(kWorkspaceBytes);
    check_blas(cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                    &bytes, sizeof bytes),
               "workspace");
  }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace

// The library is column-major, where a row-major matrix is its transpose: it computes C^T = B^T A^T, with B^T
// (n by k) as its first matrix.
struct Gemm::State {
  State(Types types, std::int64_t m, std::int64_t n, std::int64_t k)
      : description(types.compute),
        first(types.element, n, k),
        second(types.element, k, m),
        result(types.element, n, m),
        workspace(kWorkspaceBytes) {
    const Preference preference;
    int found = 0;
    check_blas(
        cublasLtMatmulAlgoGetHeuristic(library.get(), description.get(), first.get(), second.get(),
                                       result.get(), result.get(), preference.get(), 1, &choice, &found),
        "choice of an algorithm");
    if (found == 0) {
      throw std::runtime_error("cuBLASLt has no algorithm for this product");
    }
  }

  Library library;
  Description description;
  Layout first, second, result;
  DeviceBuffer workspace;
  cublasLtMatmulHeuristicResult_t choice{};
};

Gemm::Gemm(const std::string& precision, std::int64_t m, std::int64_t n, std::int64_t k)
    : state_(std::make_unique<State>(types_of(precision), m, n, k)) {}
Gemm::~Gemm() = default;

void Gemm::launch(const void* a, const void* b, void* c, cudaStream_t stream) const {
  const float one = 1, zero = 0;
  check_blas(cublasLtMatmul(state_->library.get(), state_->description.get(), &one, b, state_->first.get(), a,
                            state_->second.get(), &zero, c, state_->result.get(), c, state_->result.get(),
                            &state_->choice.algo, state_->workspace.get(),
                            static_cast<std::size_t>(state_->workspace.bytes()), stream),
             "product");
}

}  // namespace paceline::cuda
