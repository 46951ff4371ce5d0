// Arrays of a kernel between the host's doubles and the device's types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/runnable.h"

namespace paceline::cuda {

enum class Storage : std::uint8_t { fp32, fp16, bf16, int8, int32 };
std::int64_t bytes_of(Storage);
Storage storage_of(ArrayType, const std::string& precision);  // Requires: fp32, tf32, fp16 or bf16

// Rounds to nearest.
std::vector<std::byte> to_device_form(std::span<const double>, Storage);
std::vector<double> from_device_form(std::span<const std::byte>, Storage);

// One array of a kernel: inputs as kernels/runnable.h lists them, then outputs that are not also inputs, then
// scratch.
struct ArrayPlan {
  Storage storage = Storage::fp32;
  std::int64_t count = 0;
};
struct KernelPlan {
  std::vector<ArrayPlan> arrays;
  std::size_t inputs = 0, outputs_begin = 0, outputs_end = 0;

  std::int64_t bytes() const;                 // of one set, each array on a boundary of 256 bytes
  std::vector<std::int64_t> offsets() const;  // of the arrays in the set
};
KernelPlan plan_kernel(const KernelSpec&, std::int64_t scratch_bytes);

}  // namespace paceline::cuda
