#include "kernels/cuda/buffers.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/cuda/geometry.h"

namespace paceline::cuda {
namespace {

template <class T, class Convert>
std::vector<std::byte> converted(std::span<const double> values, Convert convert) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value = convert(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

template <class T, class Convert>
std::vector<double> read_back(std::span<const std::byte> bytes, Convert convert) {
  std::vector<double> values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = convert(value);
  }
  return values;
}

constexpr std::int64_t kBoundary = 256;  // as cudaMalloc aligns
std::int64_t padded(const ArrayPlan& array) {
  return divide_up(array.count * bytes_of(array.storage), kBoundary) * kBoundary;
}

}  // namespace

std::int64_t bytes_of(Storage storage) {
  switch (storage) {
    case Storage::fp32:
    case Storage::int32:
      return 4;
    case Storage::fp16:
    case Storage::bf16:
      return 2;
    case Storage::int8:
      return 1;
  }
  return 0;
}

Storage storage_of(ArrayType type, const std::string& precision) {
  switch (type) {
    case ArrayType::value:
      return precision == "fp16" ? Storage::fp16 : precision == "bf16" ? Storage::bf16 : Storage::fp32;
    case ArrayType::fp32:
      return Storage::fp32;
    case ArrayType::int32:
      return Storage::int32;
    case ArrayType::int8:
      return Storage::int8;
  }
  return Storage::fp32;
}

std::vector<std::byte> to_device_form(std::span<const double> values, Storage storage) {
  switch (storage) {
    case Storage::fp32:
      return converted<float>(values, [](double x) { return static_cast<float>(x); });
    case Storage::fp16:
      return converted<__half>(values, [](double x) { return __double2half(x); });
    case Storage::bf16:
      return converted<__nv_bfloat16>(values, [](double x) { return __double2bfloat16(x); });
    case Storage::int8:
      return converted<std::int8_t>(values, [](double x) { return static_cast<std::int8_t>(std::lrint(x)); });
    case Storage::int32:
      return converted<std::int32_t>(values,
                                     [](double x) { return static_cast<std::int32_t>(std::lrint(x)); });
  }
  return {};
}

std::vector<double> from_device_form(std::span<const std::byte> bytes, Storage storage) {
  const auto plain = [](auto x) { return static_cast<double>(x); };
  switch (storage) {
    case Storage::fp32:
      return read_back<float>(bytes, plain);
    case Storage::fp16:
      return read_back<__half>(bytes, [](__half x) { return static_cast<double>(__half2float(x)); });
    case Storage::bf16:
      return read_back<__nv_bfloat16>(
          bytes, [](__nv_bfloat16 x) { return static_cast<double>(__bfloat162float(x)); });
    case Storage::int8:
      return read_back<std::int8_t>(bytes, plain);
    case Storage::int32:
      return read_back<std::int32_t>(bytes, plain);
  }
  return {};
}

std::int64_t KernelPlan::bytes() const {
  std::int64_t sum = 0;
  for (const ArrayPlan& array : arrays) {
    sum += padded(array);
  }
  return sum;
}

std::vector<std::int64_t> KernelPlan::offsets() const {
  std::vector<std::int64_t> offsets;
  std::int64_t next = 0;
  for (const ArrayPlan& array : arrays) {
    offsets.push_back(next);
    next += padded(array);
  }
  return offsets;
}

KernelPlan plan_kernel(const KernelSpec& spec, std::int64_t scratch_bytes) {
  const KernelArraySpecs specs = kernel_arrays(spec);
  KernelPlan plan;
  const auto add = [&](const ArraySpec& array) {
    plan.arrays.push_back({storage_of(array.type, spec.precision), array.count});
  };
  std::ranges::for_each(specs.inputs, add);
  plan.inputs = plan.arrays.size();
  if (!specs.in_place) {
    std::ranges::for_each(specs.outputs, add);
  }
  plan.outputs_end = plan.arrays.size();
  plan.outputs_begin = plan.outputs_end - specs.outputs.size();
  if (scratch_bytes > 0) {
    plan.arrays.push_back({Storage::int8, scratch_bytes});
  }
  return plan;
}

}  // namespace paceline::cuda
