// A kernel that can be run, checked and timed on this machine. What it computes is defined here, once for the
// CPU (kernels/cpu) and the GPU (kernels/cuda); kernels/reference.h computes the same in double precision.
//
// m, n, k of a KernelSpec, its inputs and outputs in order (row-major; "values" are elements of the
// precision; scales, Adam's states and parameters are fp32 always):
//
//   name        shape                 inputs                       outputs
//   gemm        C[m,n]=A[m,k]*B[k,n]  A, B                         C
//   conv_gemm   as gemm: the product that a convolution becomes once its patches lie in rows (m: pixels of
//               the batch, n: output channels, k: input channels * window)
//   elementwise m                     a, b                         max(0, a + b)
//   layer_norm  m rows of n           x[m,n], gamma[n], beta[n]    y[m,n]
//   softmax     m rows of n           x[m,n]                       y[m,n]
//   adam        m                     gradient (values), parameter, first and second moment (fp32)
//                                                                  the last three, in place
//   copy_scale  m                     x                            y = kScale * x
//   quantise    m in blocks of n      x                            q (int8), scale
//   dequantise  m in blocks of n      q (int8), scale              y (values)
//   top_k       the k of m largest    x                            value[k], index[k] (int32), any order
//   copy        m                     x                            y = x
//   empty       nothing: the cost of launching
//
// Traffic is every input and every output once. Work is 2mnk for the two products and 0 for the others, which
// memory bounds (as kernels/cost_model.h counts it). A layer norm uses kLayerNormEpsilon and the biased variance;
// products accumulate in fp32 or better.
// quantise: scale = max|x| of the block / 127 (1 where the block is all zero), q = x / scale to the nearest.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace paceline {

struct KernelSpec {
  std::string name;                // of the table above
  std::string precision = "fp32";  // "fp32", "tf32", "fp16", "bf16", "fp8", "int8"
  std::int64_t m = 0, n = 0, k = 0;

  friend bool operator==(const KernelSpec&, const KernelSpec&) = default;
};

inline constexpr float kScale = 0.3F;  // of copy_scale
inline constexpr float kLayerNormEpsilon = 1e-5F;
// Adam: step kAdamStep with m' = b1 m + (1 - b1) g, v' = b2 v + (1 - b2) g^2,
// p' = p - rate * (m' / (1 - b1^step)) / (sqrt(v' / (1 - b2^step)) + epsilon).
inline constexpr float kAdamRate = 1e-3F, kAdamBeta1 = 0.9F, kAdamBeta2 = 0.999F, kAdamEpsilon = 1e-8F;
inline constexpr int kAdamStep = 10;

enum class Kernel : std::uint8_t {  // in the table's order
  gemm,
  conv_gemm,
  elementwise,
  layer_norm,
  softmax,
  adam,
  copy_scale,
  quantise,
  dequantise,
  top_k,
  copy,
  empty
};

enum class ArrayType : std::uint8_t { value, fp32, int32, int8 };
struct ArraySpec {
  ArrayType type = ArrayType::value;
  std::int64_t count = 0;
};
struct KernelArraySpecs {  // in the table's order
  std::vector<ArraySpec> inputs, outputs;
  bool in_place = false;  // the outputs are the last inputs
};

// Throw InputError for a name that is not in the table or a shape below 1 where one is needed.
Kernel kernel_of(const KernelSpec&);
KernelArraySpecs kernel_arrays(const KernelSpec&);
double kernel_work(const KernelSpec&);           // FLOP
std::int64_t kernel_traffic(const KernelSpec&);  // bytes of memory that it must move at least
std::string kernel_kind(const KernelSpec&);      // the CSV's column: "kernel", "memory" (copy) or "launch"
const std::vector<std::string>& kernel_names();  // in the table's order
bool is_product(const KernelSpec&);
std::int64_t precision_bytes(const std::string& precision);

// A kernel with its buffers. Several sets of buffers rotate so that a launch does not find its input in the
// cache (two to eight sets, as memory allows), all loaded with the check's inputs.
struct RunnableKernel {
  KernelSpec spec;
  // Runs it once on the first set, reads the outputs back and returns kernel_error() of them
  // (kernels/reference.h). Right when at most kernel_tolerance(spec).
  std::function<double()> check;
  // Runs it once on the next set of buffers. CPU: returns when it is done. GPU: enqueued on the compute
  // stream, returns at once; Backend::synchronise() waits.
  std::function<void()> launch;
};

}  // namespace paceline
