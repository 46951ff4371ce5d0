#include "kernels/gpu.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "core/unknown_name.h"

namespace paceline {
namespace {

// Peaks are dense TFLOP/s, SXM boards unless the name says otherwise, by ascending fp16 (accumulated in fp32); K80: one
// of a board's two GPUs, at its highest clock. 0: no such mode.
struct Row {
  const char* name;
  int compute_capability;
  double fp32, tf32, fp16, bf16, fp8;
  double memory_terabytes_per_second;
  std::int64_t memory_gib;  // the data sheet's GB, which is GiB: an "80 GB" H100 shows 81559 MiB
};

// "read": github.com/stas00/ml-engineering at 744d01e18b, compute/accelerator/README.md, the line numbers of the peak
// and of the memory rate; "table": its table of memories at 007447327a. "recalled": from memory of NVIDIA's data
// sheet, not looked up; GeForce boards: of the architecture's white paper. "quoted": an eighth of what NVIDIA states
// of HGX B300, as NVIDIA/cosmos-framework pull request 114 and others have it. K80: half of what NVIDIA states of the
// board, as anandtech.com/show/8729 has it: 8.74 TFLOP/s at 875 MHz, the boost that its GPUs take by themselves where
// power allows (5.6 at 562 MHz); 2 x 384 bits of GDDR5 at 5 GHz.
constexpr Row kRows[] = {
    {"K80", 37, 4.37, 0, 0, 0, 0, 0.24, 12},
    {"P100", 60, 10.6, 0, 21.2, 0, 0, 0.732, 16},                   // recalled: Tesla P100 SXM2
    {"T4", 75, 8.1, 0, 65, 0, 0, 0.32, 16},                         // recalled
    {"A10G", 86, 35, 35, 70, 70, 0, 0.6, 24},                       // recalled: as AWS has it in G5
    {"RTX-3090", 86, 35.6, 35.6, 71, 71, 0, 0.936, 24},             // recalled
    {"L4", 89, 30.3, 60, 121, 121, 242, 0.3, 24},                   // recalled
    {"V100-16GB", 70, 15.7, 0, 125, 0, 0, 0.9, 16},                 // recalled: Tesla V100 SXM2
    {"V100-32GB", 70, 15.7, 0, 125, 0, 0, 0.9, 32},                 // recalled: Tesla V100 SXM2
    {"A10", 86, 31.2, 62.5, 125, 125, 0, 0.6, 24},                  // recalled
    {"H20", 90, 44, 74, 148, 148, 296, 4.0, 96},                    // recalled
    {"RTX-4090", 89, 82.6, 82.6, 165.2, 165.2, 330.3, 1.008, 24},   // recalled
    {"RTX-5090", 120, 104.8, 104.8, 209.5, 209.5, 419, 1.792, 32},  // recalled
    {"A100-40GB", 80, 19.5, 156, 312, 312, 0, 1.555, 40},           // read L275; memory rate recalled
    {"A100-80GB", 80, 19.5, 156, 312, 312, 0, 2.0, 80},             // read L275, L485
    {"L40S", 89, 91.6, 183, 362, 362, 733, 0.864, 48},              // recalled; memory: table
    {"H100-PCIe", 90, 51, 378, 756, 756, 1513, 2.0, 80},            // recalled; memory: table
    {"GH200", 90, 67, 494.5, 989, 989, 1979, 4.0, 96},              // as H100; memory: table
    {"H100", 90, 67, 494.5, 989, 989, 1979, 3.35, 80},              // read L265, L484
    {"H200", 90, 67, 494.5, 989, 989, 1979, 4.8, 141},              // read L264, L476
    {"B200", 100, 80, 1125, 2250, 2250, 4500, 8.0, 180},            // read L260, L474
    {"B300", 103, 75, 1125, 2250, 2250, 4500, 8.0, 268},  // quoted; memory: 275,040 MiB in nvidia-smi
};

// What large products reach of the peak, which power limits. H100: fitted to products of an H100 and an H200
// (docs/gpu-checks.md), which is 0.96 of the best that others publish. The others: 0.96 of the best of five square
// products of up to 10,240 (github.com/zzc0721/torch-performance-test-data, database.md at 078586871d, the median where
// several sent theirs in, and its issues 126, 140 and 180); fp8 of a B200: of the best in stas00/ml-engineering's table
// at 744d01e18b. GeForce boards run above the clock of their data sheet.
struct Products {
  const char* name;
  double fp32, half, fp8 = 0;  // half: in tf32, too
};
constexpr Products kProducts[] = {
    {"P100", 0.86, 0.40},        {"T4", 0.51, 0.62},         {"A10G", 0.64, 0.95},
    {"RTX-3090", 0.67, 1},       {"V100-16GB", 0.89, 0.75},  {"V100-32GB", 0.89, 0.75},
    {"H20", 0.70, 0.92},         {"RTX-4090", 0.64, 0.97},   {"RTX-5090", 0.62, 1},
    {"A100-40GB", 0.91, 0.81},   {"A100-80GB", 0.91, 0.81},  {"L40S", 0.49, 0.71},
    {"GH200", 0.76, 0.77, 0.68}, {"H100", 0.76, 0.77, 0.68}, {"H200", 0.76, 0.77, 0.68},
    {"B200", 0.79, 0.71, 0.73},  {"B300", 0.79, 0.71, 0.73},
};

// Chips as the driver calls them, and the variants of which there are presets.
struct Chip {
  const char* name;
  std::array<const char*, 2> variants{};
  const char* preset = name;
};
constexpr Chip kChips[] = {{"K80"},
                           {"P100"},
                           {"V100", {"16GB", "32GB"}},
                           {"A100", {"40GB", "80GB"}},
                           {"H100", {"PCIe"}},
                           {"H200"},
                           {"B200"},
                           {"GB200", {}, "B200"},
                           {"B300"},
                           {"GB300", {}, "B300"},
                           {"GH200"},
                           {"H20"},
                           {"T4"},
                           {"L4"},
                           {"A10"},
                           {"A10G"},
                           {"L40S"},
                           {"3090", {}, "RTX-3090"},
                           {"4090", {}, "RTX-4090"},
                           {"5090", {}, "RTX-5090"}};

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t stop = std::min(text.find_first_of(" -_/"), text.size());
    words.push_back(text.substr(0, stop));
    text.remove_prefix(std::min(stop + 1, text.size()));
  }
  return words;
}

GpuSpec spec_of(const Row& row) {
  constexpr double kTera = 1e12;
  const auto peak = [](double teraflops) { return FlopsPerSecond(teraflops * kTera); };
  GpuSpec gpu{.name = row.name,
              .compute_capability = row.compute_capability,
              .peak = {peak(row.fp32), peak(row.tf32), peak(row.fp16), peak(row.bf16), peak(row.fp8)},
              .memory_bandwidth = BytesPerSecond(row.memory_terabytes_per_second * kTera),
              .memory = Bytes(row.memory_gib << 30)};
  const auto* const measured = std::ranges::find(kProducts, gpu.name, &Products::name);
  if (measured != std::end(kProducts)) {
    const ByPrecision<double> reached{measured->fp32, measured->half, measured->half, measured->half,
                                      measured->fp8};
    for (std::size_t i = 0; i < reached.size(); ++i) {
      gpu.product_efficiency[i] = gpu.peak[i].value > 0 ? reached[i] : 0;
    }
  }
  return gpu;
}

}  // namespace

std::vector<std::string> gpu_preset_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) {
    names.emplace_back(row.name);
  }
  return names;
}

GpuSpec gpu_preset(const std::string& name) {
  const auto* row = std::ranges::find_if(kRows, [&](const Row& r) { return name == r.name; });
  if (row == std::end(kRows)) {
    throw InputError(unknown_name("GPU preset", name, gpu_preset_names()));
  }
  return spec_of(*row);
}

std::string gpu_called(std::string_view driver_name) {
  const std::string capitals = in_capitals(driver_name);  // a person may write "h100"
  const std::vector<std::string_view> words = words_of(capitals);
  const auto says = [&](std::string_view word) { return std::ranges::count(words, word) > 0; };
  const auto* chip = std::ranges::find_if(kChips, [&](const Chip& each) { return says(each.name); });
  // Boards of a chip that have other numbers than the preset.
  constexpr std::array kOthers{"LAPTOP", "TI", "SUPER", "D", "144G", "144GB", "3E"};
  if (chip == std::end(kChips) || std::ranges::any_of(kOthers, says)) {
    return {};
  }
  for (const char* const variant : chip->variants) {
    if (variant != nullptr && says(in_capitals(variant))) {
      return std::string(chip->name) + '-' + variant;
    }
  }
  return chip->preset;
}

bool may_be_gpu(std::string_view called, std::string_view preset) {
  return called.empty() || preset.empty() || called == preset ||
         (preset.starts_with(called) && preset[called.size()] == '-');
}

}  // namespace paceline
