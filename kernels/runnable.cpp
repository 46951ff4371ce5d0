#include "kernels/runnable.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "core/error.h"
#include "core/unknown_name.h"
#include "kernels/model.h"

namespace paceline {
namespace {

bool has_columns(const std::string& name) {
  return name == "layer_norm" || name == "softmax" || name == "quantise" || name == "dequantise";
}

void require_shape(const KernelSpec& kernel) {
  const std::vector<std::string>& names = kernel_names();
  if (std::find(names.begin(), names.end(), kernel.name) == names.end()) {
    throw InputError(unknown_name("kernel", kernel.name, std::span(names)));
  }
  const bool needs_m = kernel.name != "empty";
  const bool needs_n = is_product(kernel) || has_columns(kernel.name);
  const bool needs_k = is_product(kernel) || kernel.name == "top_k";
  if ((needs_m && kernel.m < 1) || (needs_n && kernel.n < 1) || (needs_k && kernel.k < 1)) {
    throw InputError("kernel " + kernel.name + " needs dimensions of at least 1");
  }
  if (kernel.name == "top_k" && kernel.k > kernel.m) {
    throw InputError("kernel top_k cannot select more elements (k) than there are (m)");
  }
}

}  // namespace

bool is_product(const KernelSpec& kernel) { return kernel.name == "gemm" || kernel.name == "conv_gemm"; }

const std::vector<std::string>& kernel_names() {
  static const std::vector<std::string> kNames{"gemm",       "conv_gemm", "elementwise", "layer_norm",
                                               "softmax",    "adam",      "copy_scale",  "quantise",
                                               "dequantise", "top_k",     "copy",        "empty"};
  return kNames;
}

std::int64_t precision_bytes(const std::string& precision) {
  if (precision == "fp32" || precision == "tf32") {
    return 4;
  }
  if (precision == "fp16" || precision == "bf16") {
    return 2;
  }
  if (precision == "fp8" || precision == "int8") {
    return 1;
  }
  const std::vector<std::string> known{"fp32", "tf32", "fp16", "bf16", "fp8", "int8"};
  throw InputError(unknown_name("precision", precision, std::span(known)));
}

double kernel_work(const KernelSpec& kernel) {
  require_shape(kernel);
  return is_product(kernel) ? kFlopsPerMac * static_cast<double>(kernel.m) * static_cast<double>(kernel.n) *
                                  static_cast<double>(kernel.k)
                            : 0.0;
}

std::int64_t kernel_traffic(const KernelSpec& kernel) {
  require_shape(kernel);
  const std::int64_t p = precision_bytes(kernel.precision);
  const auto [m, n, k] = std::tuple(kernel.m, kernel.n, kernel.k);
  if (is_product(kernel)) {
    return p * (m * k + k * n + m * n);
  }
  if (kernel.name == "elementwise") {
    return 3 * p * m;
  }
  if (kernel.name == "layer_norm") {
    return p * (2 * m * n + 2 * n);
  }
  if (kernel.name == "softmax") {
    return 2 * p * m * n;
  }
  if (kernel.name == "adam") {
    return (24 + p) * m;
  }
  if (kernel.name == "quantise" || kernel.name == "dequantise") {
    return p * m + m + 4 * ((m + n - 1) / n);
  }
  if (kernel.name == "top_k") {
    return p * m + (p + 4) * k;
  }
  return kernel.name == "empty" ? 0 : 2 * p * m;  // copy, copy_scale
}

std::string kernel_kind(const KernelSpec& kernel) {
  require_shape(kernel);
  return kernel.name == "copy" ? "memory" : kernel.name == "empty" ? "launch" : "kernel";
}

}  // namespace paceline
