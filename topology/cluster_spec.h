// What a cluster is, as values: the input of build_topology. Bandwidths are per direction; latencies are per
// link.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/units.h"

namespace paceline {

// `count` NVLinks between two GPUs of a node, each of NodeSpec::nvlink_bandwidth per direction.
struct NvlinkPair {
  int a = 0, b = 0, count = 1;
};

enum class NvlinkWiring : std::uint8_t { none, nvswitch, mesh };

// One server. GPU i hangs on PCIe switch i * pcie_switches / gpus, NIC i on PCIe switch i * pcie_switches /
// nics, and PCIe switch s on CPU socket s * sockets / pcie_switches.
struct NodeSpec {
  std::string name;
  std::string gpu;  // name of a GPU preset (kernels/gpu.h)
  int gpus = 8;
  NvlinkWiring wiring = NvlinkWiring::nvswitch;
  BytesPerSecond nvlink_bandwidth;  // nvswitch: of one GPU's whole port; mesh: of one link
  std::vector<NvlinkPair> mesh;     // only when wiring == mesh
  Seconds nvlink_latency;
  BytesPerSecond pcie_bandwidth;  // GPU-switch, NIC-switch, switch-CPU
  Seconds pcie_latency;
  int pcie_switches = 4;
  int sockets = 2;
  BytesPerSecond socket_bandwidth;  // CPU to CPU
  Seconds socket_latency;
  int nics = 8;
  BytesPerSecond nic_bandwidth;
  Seconds nic_latency;  // of the link NIC - first switch, the NIC's own share included
  // The ring orders of a node, one per channel, each a permutation of 0 .. gpus-1. Channel c enters and
  // leaves the node through NIC c % nics (Topology::route says which NICs count). Empty: channel c is the
  // rotation that starts at the first GPU of NIC c % nics, up (3 4 .. 1 2), or down (2 1 .. 4 3) if only then
  // it ends on the PCIe switch of that NIC, where it leaves the node.
  std::vector<std::vector<int>> rings;
};

enum class FabricKind : std::uint8_t { single_switch, leaf_spine, rail_optimized, fat_tree };
enum class Placement : std::uint8_t { packed, striped };

// The network between the nodes. All its links run at NodeSpec::nic_bandwidth, in parallel where several are
// needed.
struct FabricSpec {
  FabricKind kind = FabricKind::single_switch;
  // leaf_spine, fat_tree: nodes below one leaf; rail_optimized: nodes per pod, NIC i of each of them on the
  // pod's leaf i
  int nodes_per_leaf = 16;
  // leaf_spine, rail_optimized, fat_tree: bandwidth into a leaf, all its ports taken, over bandwidth out of
  // it. Above the first spines of a fat_tree nothing is oversubscribed: a spine has as much bandwidth up as
  // down.
  double oversubscription = 1;
  int leaves_per_pod = 8;                   // fat_tree
  Seconds switch_latency{0.13e-6};          // of a link between two switches, port to port (HDR QM8700)
  Placement placement = Placement::packed;  // striped: consecutive nodes sit on different leaves (pods)
};

// A link, or every link of a device, that is slower than it should be. Names as in Topology::device_name.
struct DegradedLink {
  std::string from;               // "node3/nic0"
  std::optional<std::string> to;  // absent: every link of `from`; both directions are degraded
  double bandwidth_factor = 1;    // multiplies the bandwidth; 0 < factor <= 1
  Seconds extra_latency;          // added to the latency
};

struct ClusterSpec {
  NodeSpec node;
  int nodes = 1;
  int gpus_per_node = 0;  // GPUs of each node that the job uses, the first ones; 0: all
  FabricSpec fabric;
  std::vector<DegradedLink> degraded;
};

}  // namespace paceline
