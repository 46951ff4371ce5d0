// Rates and latencies that node presets and imported machines share. The rates are those of NCCL's topology
// search (NVIDIA/nccl v2.30.7-1, src/graph/topo.h): payload of one direction, as large messages reach it. PCIe alone
// carries more from its fifth generation on, see there.
//
// Where the latencies come from:
// - InfiniBand adapters: 0.5 us (EDR), 0.6 us (HDR), stas00/ml-engineering network/README.md; no figure for
//   NDR and XDR, which take HDR's. Switches, port to port: 0.09 us (Mellanox SB7800, EDR), 0.13 us (QM8700, HDR),
//   data sheets from memory. A route crosses one switch more than it has links between switches, so each end
//   carries half a switch.
// - NVLink: 936.25 ns from GPU to GPU through an NVSwitch, astra-sim examples/network/analytical/
//   HGX-H100-validated.yml: half per link. Taken for the direct links of the meshes too: an estimate.
// - PCIe and CPU-CPU: 0.3 us per link, an estimate.
#pragma once

#include "core/units.h"

namespace paceline {

inline constexpr Seconds kNvlinkLatency{0.468125e-6}, kHostLatency{0.3e-6};
inline constexpr Seconds kEdrLatency{0.545e-6}, kHdrLatency{0.665e-6};
inline constexpr BytesPerSecond kEdrRate{12.5e9};  // up to this a NIC has EDR's latency

// PCIe x16; PCI_BW is the third generation's. Of the fifth NCCL counts 48 GB/s, but adapters of 400 Gb/s are measured
// with 49.2 (NVIDIA/nccl issue 1801): an estimate of what limits no NIC, and of the sixth likewise. What GPUs read of a
// host's memory is counted on top of 48 (host.efficiency), as the files of such machines state it.
inline constexpr BytesPerSecond kPcie3{12e9}, kPcie4{24e9}, kPcie5{53e9}, kPcie6{106e9};
inline constexpr double kPcieCarries =
    kPcie5.value / 48e9;  // of what NCCL counts, from the fifth generation on
// CPU to CPU.
inline constexpr BytesPerSecond kBroadwell{6e9}, kSkylake{10e9}, kSapphireRapids{22e9}, kEmeraldRapids{40e9};
inline constexpr BytesPerSecond kAmd{16e9}, kArm{6e9}, kPower9{32e9}, kZhaoxin{6e9}, kYongfeng{9e9};
// What nothing is known of, and nothing is limited by: LOC_BW.
inline constexpr BytesPerSecond kUnlimited{5000e9};

}  // namespace paceline
