// What a PCI vendor's number says about a GPU or a NIC (the PCI ID database; Blackwell's from memory).
#pragma once

#include <cstdint>

#include "core/units.h"

namespace paceline {

inline constexpr std::int64_t kNvidia = 0x10de, kMellanox = 0x15b3, kAmazon = 0x1d0f, kBroadcom = 0x1000;

struct PciGpu {
  int compute_capability = 0;  // 0: not known
  const char* preset = "";     // name of a GPU preset (kernels/gpu.h)
  int nvswitch_links = 0;      // of a module that is only sold on a board of NVSwitches
};
PciGpu pci_gpu(std::int64_t device);

// Nominal rate of the adapter; 0: not known.
BytesPerSecond pci_nic_rate(std::int64_t vendor, std::int64_t device);

}  // namespace paceline
