#include "topology/pci_devices.h"

#include <algorithm>
#include <array>

namespace paceline {
namespace {

struct KnownGpu {
  std::int64_t device;
  PciGpu gpu;
};
constexpr std::array<KnownGpu, 29> kGpus{{
    {0x15f8, {60, "P100", 0}},       {0x15f9, {60, "P100", 0}},        // PCIe, SXM2
    {0x1db1, {70, "V100-16GB", 0}},  {0x1db4, {70, "V100-16GB", 0}},   // SXM2, PCIe
    {0x1df5, {70, "V100-16GB", 0}},                                    // SXM2
    {0x1db5, {70, "V100-32GB", 0}},  {0x1db6, {70, "V100-32GB", 0}},   // SXM2, PCIe
    {0x1db8, {70, "V100-32GB", 0}},                                    // SXM3
    {0x20b0, {80, "A100-40GB", 12}}, {0x20b2, {80, "A100-80GB", 12}},  // SXM4
    {0x20b1, {80, "A100-40GB", 0}},  {0x20f1, {80, "A100-40GB", 0}},   // PCIe
    {0x20b5, {80, "A100-80GB", 0}},  {0x20b3, {80, "", 12}},           // PCIe; SXM 64 GB
    {0x2330, {90, "H100", 18}},      {0x2336, {90, "", 18}},           // SXM5 80 GB, others
    {0x2339, {90, "", 18}},          {0x2329, {90, "H20", 18}},        // H100 94 GB
    {0x2331, {90, "H100-PCIe", 0}},  {0x1eb8, {75, "T4", 0}},          //
    {0x2236, {86, "A10", 0}},        {0x2237, {86, "A10G", 0}},        //
    {0x27b8, {89, "L4", 0}},         {0x26b9, {89, "L40S", 0}},        //
    {0x2684, {89, "RTX-4090", 0}},                                     //
    {0x2335, {90, "H200", 18}},      {0x2901, {100, "B200", 18}},      //
    {0x2941, {100, "B200", 18}},     {0x3182, {103, "B300", 18}},      // GB200, B300
}};

struct Family {
  std::int64_t first, last;
  int compute_capability;
};
constexpr std::array<Family, 9> kFamilies{{{0x15f0, 0x15ff, 60},
                                           {0x1d80, 0x1dff, 70},
                                           {0x1e00, 0x1fff, 75},
                                           {0x2080, 0x20ff, 80},
                                           {0x2200, 0x25ff, 86},
                                           {0x2300, 0x237f, 90},
                                           {0x2680, 0x28ff, 89},
                                           {0x2900, 0x297f, 100},
                                           {0x3180, 0x31ff, 103}}};

struct KnownNic {
  std::int64_t vendor, device;
  double gigabits;
};
constexpr std::array<KnownNic, 16> kNics{{{kMellanox, 0x1013, 100},  // ConnectX-4 and its virtual function
                                          {kMellanox, 0x1014, 100},  //
                                          {kMellanox, 0x1017, 100},  // ConnectX-5
                                          {kMellanox, 0x1018, 100},  //
                                          {kMellanox, 0x1019, 100},  //
                                          {kMellanox, 0x101a, 100},  //
                                          {kMellanox, 0x101b, 200},  // ConnectX-6
                                          {kMellanox, 0x101c, 200},  //
                                          {kMellanox, 0x101d, 100},  // ConnectX-6 Dx
                                          {kMellanox, 0x1021, 400},  // ConnectX-7
                                          {kMellanox, 0x1023, 800},  // ConnectX-8
                                          {kMellanox, 0xa2d6, 200},  // BlueField-2
                                          {kMellanox, 0xa2dc, 400},  // BlueField-3
                                          {kAmazon, 0xefa0, 100},    // EFA
                                          {kAmazon, 0xefa1, 100},    //
                                          {kAmazon, 0xefa2, 200}}};  //

}  // namespace

PciGpu pci_gpu(std::int64_t device) {
  const auto known = std::ranges::find(kGpus, device, &KnownGpu::device);
  if (known != kGpus.end()) {
    return known->gpu;
  }
  // GA10x and Hopper interleave: the narrower range counts.
  PciGpu gpu;
  std::int64_t narrowest = INT64_MAX;
  for (const Family& family : kFamilies) {
    if (device >= family.first && device <= family.last && family.last - family.first < narrowest) {
      narrowest = family.last - family.first;
      gpu.compute_capability = family.compute_capability;
    }
  }
  return gpu;
}

BytesPerSecond pci_nic_rate(std::int64_t vendor, std::int64_t device) {
  const auto known = std::ranges::find_if(
      kNics, [&](const KnownNic& nic) { return nic.vendor == vendor && nic.device == device; });
  constexpr double kBytesPerGigabit = 1e9 / 8;
  return BytesPerSecond(known == kNics.end() ? 0 : known->gigabits * kBytesPerGigabit);
}

}  // namespace paceline
