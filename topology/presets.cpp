// Node presets, those that are sold or made up; clouds' own in cloud_presets.cpp. Bandwidths are payload rates of
// one direction, as large messages reach them, not signalling rates: those of NCCL's topology search (NVIDIA/nccl
// v2.30.7-1, src/graph/topo.h) unless a row says otherwise.
//
// Where the rest comes from:
// - Number of GPUs, NICs and NVLinks: NVIDIA's DGX data sheets; stas00/ml-engineering network/README.md
//   (NVLink generations, InfiniBand rates, NICs of DGX H100); NVIDIA/deepops docs (NICs of DGX-1 and DGX
//   A100). The grouping under PCIe switches, and everything about DGX-2, DGX B200 and B300, GB200 and GB300 NVL72 but
//   the coherent link of Grace, from memory of the data sheets, which also have 800 Gb/s on PCIe 6 for B300.
// - NIC bandwidth is the nominal rate, as in NCCL (Mb/s / 8000).
// - Latencies: rates.h.
#include <algorithm>
#include <array>
#include <iterator>

#include "core/error.h"
#include "core/unknown_name.h"
#include "topology/node_presets.h"
#include "topology/rates.h"
#include "topology/topology.h"

namespace paceline {
namespace {

using namespace units;

std::string name_in(const NodePreset& preset) { return preset.name; }

// The 16 pairs of the hybrid cube mesh. P100 has one link on each; V100 two on eight of them, six links per
// GPU. NVIDIA's "DGX-1 with Tesla V100 system architecture" white paper and nvidia-smi topo -m of such
// machines.
std::vector<NvlinkPair> cube_mesh(bool v100) {
  const int two = v100 ? 2 : 1;
  return {{0, 1, 1}, {0, 2, 1}, {0, 3, two}, {0, 4, two}, {1, 2, two}, {1, 3, 1},   {1, 5, two}, {2, 3, two},
          {2, 6, 1}, {3, 7, 1}, {4, 5, 1},   {4, 6, 1},   {4, 7, two}, {5, 6, two}, {5, 7, 1},   {6, 7, two}};
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
  node.compute_capability = 60;
  node.nvlink_bandwidth = 18.0_GBps;  // SM60_NVLINK_BW, of 20 nominal
  node.mesh = cube_mesh(false);
  return node;
}

NodeSpec dgx1_v100() {
  NodeSpec node = dgx1();
  node.gpu = "V100-16GB";
  node.compute_capability = 70;
  // Of 25 nominal. NCCL's SM70_NVLINK_BW was 22 up to v2.17, now 20; an all-reduce between two V100 on one
  // link measures 22.55 of bus bandwidth (VIA-Research/vTrain, trace/v100).
  node.nvlink_bandwidth = 22.0_GBps;
  node.mesh = cube_mesh(true);
  return node;
}

// Sixteen V100 on NVSwitches, two Xeon 8168, eight PCIe 3 switches with two GPUs and one 100 Gb/s EDR NIC
// each.
NodeSpec dgx2_v100() {
  NodeSpec node = eight_gpus();
  node.gpu = "V100-32GB";
  node.compute_capability = 70;
  node.gpus = 16;
  node.wiring = NvlinkWiring::nvswitch;
  node.nvlink_bandwidth = 22.0_GBps * 6;  // as dgx1-v100
  node.pcie_bandwidth = kPcie3;
  node.pcie_switches = 8;
  node.socket_bandwidth = kSkylake;
  node.nics = 8;
  node.nic_bandwidth = 100.0_Gbps;
  node.nic_latency = kEdrLatency;
  return node;
}

// Two AMD EPYC 7742, four PCIe 4 switches with two GPUs and two 200 Gb/s HDR NICs each.
NodeSpec dgx_a100() {
  NodeSpec node = eight_gpus();
  node.gpu = "A100-80GB";
  node.compute_capability = 80;
  node.cpu = CpuVendor::amd;
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
  node.compute_capability = 90;
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
  node.compute_capability = 100;
  node.nvlink_bandwidth = 40.1_GBps * 18;  // SM100_NVLINK_BW, of 50 nominal; 18 links
  node.socket_bandwidth = kEmeraldRapids;
  return node;
}

// Two Xeon 6776P, whose sockets are taken for those of DGX B200, eight ConnectX-8 of 800 Gb/s on PCIe 6.
NodeSpec dgx_b300() {
  NodeSpec node = dgx_b200();
  node.gpu = "B300";
  node.compute_capability = 103;
  node.pcie_bandwidth = kPcie6;
  node.nic_bandwidth = 800.0_Gbps;
  return node;
}

// No product: a server of two AMD sockets, two PCIe 4 switches each, eight A100 PCIe cards without NVLink
// bridges, one 200 Gb/s HDR NIC on the first switch.
NodeSpec pcie_a100() {
  NodeSpec node = eight_gpus();
  node.gpu = "A100-80GB";
  node.compute_capability = 80;
  node.cpu = CpuVendor::amd;
  node.wiring = NvlinkWiring::none;
  node.pcie_bandwidth = kPcie4;
  node.pcie_switches = 4;
  node.socket_bandwidth = kAmd;
  node.nics = 1;
  node.nic_bandwidth = 200.0_Gbps;
  return node;
}

// 18 trays of two boards, each a Grace CPU, two GPUs and two NICs; all 72 GPUs on NVSwitches. The NICs hang on
// the CPU, the GPUs on its coherent link: 5 links of 44.712 GB/s, as NCCL's topology dump of a GB300 has them (a public
// report of such a machine).
NodeSpec rack_of_72(const char* gpu, int compute_capability, BytesPerSecond pcie, BytesPerSecond nic) {
  constexpr int kBoards = 36;
  NodeSpec node = eight_gpus();
  node.gpu = gpu;
  node.compute_capability = compute_capability;
  node.cpu = CpuVendor::arm;
  node.gpus = node.nics = 2 * kBoards;
  node.pcie_switches = 0;
  node.sockets = kBoards;
  node.pcie_bandwidth = pcie;
  node.socket_bandwidth = kArm;
  node.nic_bandwidth = nic;
  const auto append = [&](NodePart kind, int count, const char* word, BytesPerSecond bandwidth) {
    for (int i = 0; i < count; ++i) {
      node.devices.push_back({kind, word + std::to_string(i), bandwidth, i});
    }
  };
  append(NodePart::gpu, node.gpus, "gpu", {});
  append(NodePart::nic, node.nics, "nic", node.nic_bandwidth);
  append(NodePart::cpu, kBoards, "cpu", {});
  for (int board = 0; board < kBoards; ++board) {
    const int cpu = node.gpus + node.nics + board;
    for (const int i : {2 * board, 2 * board + 1}) {
      node.cables.push_back({i, cpu, CableKind::c2c, 44.712_GBps * 5});
      node.cables.push_back({node.gpus + i, cpu, CableKind::pcie, pcie});
    }
    if (board % 2 == 0) {
      node.cables.push_back({cpu, cpu + 1, CableKind::socket, kArm});
    }
  }
  add_nvswitch(node, 40.1_GBps * 18);  // SM100_NVLINK_BW
  return node;
}

NodeSpec gb200_nvl72() { return rack_of_72("B200", 100, kPcie5, 400.0_Gbps); }
// Its GPUs count as HGX B300's; a rack's may be a tenth faster in fp8.
NodeSpec gb300_nvl72() { return rack_of_72("B300", 103, kPcie6, 800.0_Gbps); }

constexpr std::array<NodePreset, 12> kPresets{{{"dgx-a100", dgx_a100},
                                               {"dgx-a100-40gb", dgx_a100_40gb},
                                               {"dgx-b200", dgx_b200},
                                               {"dgx-b300", dgx_b300},
                                               {"dgx-h100", dgx_h100},
                                               {"dgx-h200", dgx_h200},
                                               {"dgx1-p100", dgx1_p100},
                                               {"dgx1-v100", dgx1_v100},
                                               {"dgx2-v100", dgx2_v100},
                                               {"gb200-nvl72", gb200_nvl72},
                                               {"gb300-nvl72", gb300_nvl72},
                                               {"pcie-a100", pcie_a100}}};

std::vector<NodePreset> all_presets() {
  std::vector<NodePreset> all;
  std::ranges::merge(machine_presets(), cloud_presets(), std::back_inserter(all), {}, name_in, name_in);
  return all;
}

std::vector<std::string> names_of(std::span<const NodePreset> presets) {
  std::vector<std::string> names;
  std::ranges::transform(presets, std::back_inserter(names), name_in);
  return names;
}

}  // namespace

std::span<const NodePreset> machine_presets() { return kPresets; }

std::vector<std::string> node_preset_names() { return names_of(all_presets()); }
std::vector<std::string> machine_preset_names() { return names_of(machine_presets()); }
std::vector<std::string> cloud_preset_names() { return names_of(cloud_presets()); }

NodeSpec node_preset(const std::string& name) {
  const std::vector<NodePreset> all = all_presets();
  const auto preset = std::ranges::find(all, name, name_in);
  if (preset == all.end()) {
    throw InputError(unknown_name("node preset", name, node_preset_names()));
  }
  NodeSpec node = preset->make();
  node.name = name;
  return node;
}

}  // namespace paceline
