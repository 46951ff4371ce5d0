// Node presets. Bandwidths are payload rates of one direction, as large messages reach them, not signalling
// rates: those of NCCL's topology search (NVIDIA/nccl v2.30.7-1, src/graph/topo.h) unless a row says
// otherwise.
//
// Where the rest comes from:
// - Number of GPUs, NICs and NVLinks: NVIDIA's DGX data sheets; stas00/ml-engineering network/README.md
// (NVLink
//   generations, InfiniBand rates, NICs of DGX H100); NVIDIA/deepops docs (NICs of DGX-1 and DGX A100). The
//   grouping under PCIe switches, and everything about DGX B200, from memory of the data sheets.
// - NIC bandwidth is the nominal rate, as in NCCL (Mb/s / 8000).
// - InfiniBand adapters: 0.5 us (EDR), 0.6 us (HDR), stas00/ml-engineering network/README.md; no figure for
// NDR, which
//   takes HDR's. Switches, port to port: 0.09 us (Mellanox SB7800, EDR), 0.13 us (QM8700, HDR), data sheets
//   from memory. A route crosses one switch more than it has links between switches, so each end carries half
//   a switch.
// - NVLink: 936.25 ns from GPU to GPU through an NVSwitch, astra-sim examples/network/analytical/
//   HGX-H100-validated.yml: half per link. Taken for the direct links of the meshes too: an estimate.
// - PCIe and CPU-CPU: 0.3 us per link, an estimate.
#include <algorithm>
#include <array>

#include "core/error.h"
#include "topology/topology.h"

namespace paceline {
namespace {

using namespace units;

constexpr Seconds kNvlinkLatency = 0.468125_us;
constexpr Seconds kHostLatency = 0.3_us;
constexpr Seconds kEdrLatency = 0.545_us, kHdrLatency = 0.665_us;

constexpr BytesPerSecond kPcie3 = 12.0_GBps, kPcie4 = 24.0_GBps, kPcie5 = 48.0_GBps;  // x16; PCI_BW is Gen3's
constexpr BytesPerSecond kBroadwell = 6.0_GBps, kAmd = 16.0_GBps;                     // BDW_QPI_BW, AMD_BW
constexpr BytesPerSecond kSapphireRapids = 22.0_GBps, kEmeraldRapids = 40.0_GBps;  // SRP_QPI_BW, ERP_QPI_BW

// The 16 pairs of the hybrid cube mesh. P100 has one link on each; V100 two on eight of them, six links per
// GPU. NVIDIA's "DGX-1 with Tesla V100 system architecture" white paper and nvidia-smi topo -m of such
// machines.
std::vector<NvlinkPair> cube_mesh(bool v100) {
  const int two = v100 ? 2 : 1;
  return {{0, 1, 1}, {0, 2, 1}, {0, 3, two}, {0, 4, two}, {1, 2, two}, {1, 3, 1},   {1, 5, two}, {2, 3, two},
          {2, 6, 1}, {3, 7, 1}, {4, 5, 1},   {4, 6, 1},   {4, 7, two}, {5, 6, two}, {5, 7, 1},   {6, 7, two}};
}

// Hamiltonian cycles that together use every NVLink equally in each direction (P100 once, V100 twice, so that four
// NICs share its cycles evenly), cut open where they pass the two
// GPUs on the PCIe switch of the channel's NIC (c % 4: GPUs 0 1, 2 3, 4 5, 6 7). Channels 2 and 3 are one
// cycle, forth and back. P100: 0 and 1 another, on NICs 0 and 1. V100: 0 and 4 that one, both on NIC 0; 1 and
// 5 a third; 6 to 11 the same six again on other NICs (10 can't end beside its own).
std::vector<std::vector<int>> p100_rings() {
  return {
      {0, 4, 6, 5, 7, 3, 2, 1}, {3, 7, 5, 6, 4, 0, 1, 2}, {5, 1, 3, 0, 2, 6, 7, 4}, {6, 2, 0, 3, 1, 5, 4, 7}};
}
std::vector<std::vector<int>> v100_rings() {
  return {{0, 4, 6, 5, 7, 3, 2, 1}, {2, 1, 5, 6, 7, 4, 0, 3}, {5, 1, 3, 0, 2, 6, 7, 4},
          {6, 2, 0, 3, 1, 5, 4, 7}, {1, 2, 3, 7, 5, 6, 4, 0}, {3, 0, 4, 7, 6, 5, 1, 2},
          {5, 1, 3, 0, 2, 6, 7, 4}, {6, 2, 0, 3, 1, 5, 4, 7}, {0, 4, 6, 5, 7, 3, 2, 1},
          {3, 7, 5, 6, 4, 0, 1, 2}, {5, 6, 7, 4, 0, 3, 2, 1}, {6, 5, 1, 2, 3, 0, 4, 7}};
}

// What the eight-GPU, two-socket machines have in common.
NodeSpec eight_gpus() {
  NodeSpec node;
  node.gpus = 8;
  node.sockets = 2;
  node.nvlink_latency = kNvlinkLatency;
  node.pcie_latency = kHostLatency;
  node.socket_latency = kHostLatency;
  node.nic_latency = kHdrLatency;
  return node;
}

// Two Xeon E5-2698 v4, four PCIe 3 switches with two GPUs and one 100 Gb/s EDR NIC each.
NodeSpec dgx1() {
  NodeSpec node = eight_gpus();
  node.wiring = NvlinkWiring::mesh;
  node.pcie_bandwidth = kPcie3;
  node.socket_bandwidth = kBroadwell;
  node.pcie_switches = 4;
  node.nics = 4;
  node.nic_bandwidth = 100.0_Gbps;
  node.nic_latency = kEdrLatency;
  return node;
}

NodeSpec dgx1_p100() {
  NodeSpec node = dgx1();
  node.gpu = "P100";
  node.nvlink_bandwidth = 18.0_GBps;  // SM60_NVLINK_BW, of 20 nominal
  node.mesh = cube_mesh(false);
  node.rings = p100_rings();
  return node;
}

NodeSpec dgx1_v100() {
  NodeSpec node = dgx1();
  node.gpu = "V100-16GB";
  // Of 25 nominal. NCCL's SM70_NVLINK_BW was 22 up to v2.17, now 20; an all-reduce between two V100 on one
  // link measures 22.55 of bus bandwidth (VIA-Research/vTrain, trace/v100).
  node.nvlink_bandwidth = 22.0_GBps;
  node.mesh = cube_mesh(true);
  node.rings = v100_rings();
  return node;
}

// Two AMD EPYC 7742, four PCIe 4 switches with two GPUs and two 200 Gb/s HDR NICs each.
NodeSpec dgx_a100() {
  NodeSpec node = eight_gpus();
  node.gpu = "A100-80GB";
  node.wiring = NvlinkWiring::nvswitch;
  node.nvlink_bandwidth = 20.0_GBps * 12;  // SM80_NVLINK_BW, of 25 nominal; 12 links
  node.pcie_bandwidth = kPcie4;
  node.pcie_switches = 4;
  node.socket_bandwidth = kAmd;
  node.nics = 8;
  node.nic_bandwidth = 200.0_Gbps;
  return node;
}

NodeSpec dgx_a100_40gb() {
  NodeSpec node = dgx_a100();
  node.gpu = "A100-40GB";
  return node;
}

// Two Xeon 8480C, each GPU on a PCIe 5 switch with its own 400 Gb/s NDR NIC.
NodeSpec dgx_h100() {
  NodeSpec node = eight_gpus();
  node.gpu = "H100";
  node.wiring = NvlinkWiring::nvswitch;
  node.nvlink_bandwidth = 20.6_GBps * 18;  // SM90_NVLINK_BW, of 25 nominal; 18 links
  node.pcie_bandwidth = kPcie5;
  node.pcie_switches = 8;
  node.socket_bandwidth = kSapphireRapids;
  node.nics = 8;
  node.nic_bandwidth = 400.0_Gbps;
  return node;
}

NodeSpec dgx_h200() {
  NodeSpec node = dgx_h100();
  node.gpu = "H200";
  return node;
}

// Two Xeon 8570, else as DGX H100.
NodeSpec dgx_b200() {
  NodeSpec node = dgx_h100();
  node.gpu = "B200";
  node.nvlink_bandwidth = 40.1_GBps * 18;  // SM100_NVLINK_BW, of 50 nominal; 18 links
  node.socket_bandwidth = kEmeraldRapids;
  return node;
}

// No product: a server of two AMD sockets, two PCIe 4 switches each, eight A100 PCIe cards without NVLink
// bridges, one 200 Gb/s HDR NIC on the first switch.
NodeSpec pcie_a100() {
  NodeSpec node = eight_gpus();
  node.gpu = "A100-80GB";
  node.wiring = NvlinkWiring::none;
  node.pcie_bandwidth = kPcie4;
  node.pcie_switches = 4;
  node.socket_bandwidth = kAmd;
  node.nics = 1;
  node.nic_bandwidth = 200.0_Gbps;
  return node;
}

struct Preset {
  const char* name;
  NodeSpec (*make)();
};
constexpr std::array<Preset, 8> kPresets{{{"dgx-a100", dgx_a100},
                                          {"dgx-a100-40gb", dgx_a100_40gb},
                                          {"dgx-b200", dgx_b200},
                                          {"dgx-h100", dgx_h100},
                                          {"dgx-h200", dgx_h200},
                                          {"dgx1-p100", dgx1_p100},
                                          {"dgx1-v100", dgx1_v100},
                                          {"pcie-a100", pcie_a100}}};

}  // namespace

std::vector<std::string> node_preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) {
    names.emplace_back(preset.name);
  }
  return names;
}

NodeSpec node_preset(const std::string& name) {
  const auto preset = std::ranges::find_if(kPresets, [&](const Preset& p) { return p.name == name; });
  if (preset == kPresets.end()) {
    throw InputError(unknown_name("node preset", name, node_preset_names()));
  }
  NodeSpec node = preset->make();
  node.name = name;
  return node;
}

}  // namespace paceline
