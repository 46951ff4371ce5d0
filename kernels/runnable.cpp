#include "kernels/runnable.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "core/error.h"
#include "core/unknown_name.h"
#include "kernels/model.h"

namespace paceline {
namespace {

constexpr ArrayType kValue = ArrayType::value, kFp32 = ArrayType::fp32;

struct TableRow {
  Kernel kernel;
  std::string_view name, dimensions;  // those of m, n and k that it needs
  KernelArraySpecs (*arrays)(std::int64_t m, std::int64_t n, std::int64_t k);
};

using Size = std::int64_t;
KernelArraySpecs product(Size m, Size n, Size k) {
  return {{{kValue, m * k}, {kValue, k * n}}, {{kValue, m * n}}};
}
KernelArraySpecs stream(Size m, Size, Size) { return {{{kValue, m}}, {{kValue, m}}}; }
KernelArraySpecs two_streams(Size m, Size, Size) { return {{{kValue, m}, {kValue, m}}, {{kValue, m}}}; }
KernelArraySpecs rows(Size m, Size n, Size) { return {{{kValue, m * n}}, {{kValue, m * n}}}; }
KernelArraySpecs scaled_rows(Size m, Size n, Size) {
  return {{{kValue, m * n}, {kValue, n}, {kValue, n}}, {{kValue, m * n}}};
}
KernelArraySpecs states(Size m, Size, Size) {
  return {{{kValue, m}, {kFp32, m}, {kFp32, m}, {kFp32, m}}, {{kFp32, m}, {kFp32, m}, {kFp32, m}}, true};
}
KernelArraySpecs blocks_made(Size m, Size n, Size) {
  return {{{kValue, m}}, {{ArrayType::int8, m}, {kFp32, (m + n - 1) / n}}};
}
KernelArraySpecs blocks_read(Size m, Size n, Size) {
  return {{{ArrayType::int8, m}, {kFp32, (m + n - 1) / n}}, {{kValue, m}}};
}
KernelArraySpecs selection(Size m, Size, Size k) {
  return {{{kValue, m}}, {{kValue, k}, {ArrayType::int32, k}}};
}
KernelArraySpecs nothing(Size, Size, Size) { return {}; }

constexpr std::array kTable{
    TableRow{Kernel::gemm, "gemm", "mnk", product},
    TableRow{Kernel::conv_gemm, "conv_gemm", "mnk", product},
    TableRow{Kernel::elementwise, "elementwise", "m", two_streams},
    TableRow{Kernel::layer_norm, "layer_norm", "mn", scaled_rows},
    TableRow{Kernel::softmax, "softmax", "mn", rows},
    TableRow{Kernel::adam, "adam", "m", states},
    TableRow{Kernel::copy_scale, "copy_scale", "m", stream},
    TableRow{Kernel::quantise, "quantise", "mn", blocks_made},
    TableRow{Kernel::dequantise, "dequantise", "mn", blocks_read},
    TableRow{Kernel::top_k, "top_k", "mk", selection},
    TableRow{Kernel::copy, "copy", "m", stream},
    TableRow{Kernel::empty, "empty", "", nothing},
};

const TableRow& row_of(const KernelSpec& kernel) {
  const auto* row = std::ranges::find(kTable, std::string_view(kernel.name), &TableRow::name);
  if (row == kTable.end()) {
    throw InputError(unknown_name("kernel", kernel.name, std::span(kernel_names())));
  }
  const auto lacks = [&](char dimension, std::int64_t size) {
    return size < 1 && row->dimensions.find(dimension) != std::string_view::npos;
  };
  if (lacks('m', kernel.m) || lacks('n', kernel.n) || lacks('k', kernel.k)) {
    throw InputError("kernel " + kernel.name + " needs dimensions of at least 1");
  }
  if (row->kernel == Kernel::top_k && kernel.k > kernel.m) {
    throw InputError("kernel top_k cannot select more elements (k) than there are (m)");
  }
  return *row;
}

std::int64_t bytes_of(ArrayType type, std::int64_t value_bytes) {
  return type == ArrayType::value ? value_bytes : type == ArrayType::int8 ? 1 : 4;
}

}  // namespace

bool is_product(const KernelSpec& kernel) { return kernel.name == "gemm" || kernel.name == "conv_gemm"; }

const std::vector<std::string>& kernel_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const TableRow& row : kTable) {
      names.emplace_back(row.name);
    }
    return names;
  }();
  return kNames;
}

Kernel kernel_of(const KernelSpec& kernel) { return row_of(kernel).kernel; }

KernelArraySpecs kernel_arrays(const KernelSpec& kernel) {
  return row_of(kernel).arrays(kernel.m, kernel.n, kernel.k);
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
  (void)row_of(kernel);  // name and shape
  return is_product(kernel) ? kFlopsPerMac * static_cast<double>(kernel.m) * static_cast<double>(kernel.n) *
                                  static_cast<double>(kernel.k)
                            : 0.0;
}

std::int64_t kernel_traffic(const KernelSpec& kernel) {
  const auto [inputs, outputs, in_place] = kernel_arrays(kernel);
  const std::int64_t value_bytes = precision_bytes(kernel.precision);
  std::int64_t sum = 0;
  for (const std::vector<ArraySpec>& arrays : {inputs, outputs}) {
    for (const ArraySpec& array : arrays) {
      sum += array.count * bytes_of(array.type, value_bytes);
    }
  }
  return sum;
}

std::string kernel_kind(const KernelSpec& kernel) {
  const Kernel kind = kernel_of(kernel);
  return kind == Kernel::copy ? "memory" : kind == Kernel::empty ? "launch" : "kernel";
}

}  // namespace paceline
