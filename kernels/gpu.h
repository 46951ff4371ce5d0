// GPU presets: peak rates from data sheets, what products reach of them as measured. Sources in gpu.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/names.h"
#include "core/units.h"

namespace paceline {

enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8 };
template <>
inline constexpr auto kNames<Precision> = names<Precision>({{"fp32", Precision::fp32},
                                                            {"tf32", Precision::tf32},
                                                            {"fp16", Precision::fp16},
                                                            {"bf16", Precision::bf16},
                                                            {"fp8", Precision::fp8}});

template <class T>
using ByPrecision = std::array<T, kNames<Precision>.size()>;

struct GpuSpec {
  std::string name;
  int compute_capability = 0;  // ten times CUDA's; 0: not known
  // Dense peak; 0 where the GPU has no such mode (asking for it is an InputError, not a guess).
  ByPrecision<FlopsPerSecond> peak{};
  // What large matrix products reach of it; 0: not known.
  ByPrecision<double> product_efficiency{};
  BytesPerSecond memory_bandwidth;
  Bytes memory;
};

std::vector<std::string> gpu_preset_names();
GpuSpec gpu_preset(const std::string& name);  // throws InputError with the known names

// The preset that the driver's name of a GPU means: "A100-80GB" of "NVIDIA A100-SXM4-80GB"; "A100" where it doesn't
// tell the memory; "B200" of "NVIDIA GB200"; empty where no preset has that chip, such as "NVIDIA A30".
std::string gpu_called(std::string_view driver_name);
// Whether a GPU that gpu_called names so may be that preset: one of the two unknown may be any.
bool may_be_gpu(std::string_view called, std::string_view preset);

}  // namespace paceline
