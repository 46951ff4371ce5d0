// What a cluster is, as values: the input of build_topology. Bandwidths are per direction; latencies are per
// link.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/names.h"
#include "core/units.h"
#include "topology/channel_graph.h"

namespace paceline {

// `count` NVLinks between two GPUs of a node, each of NodeSpec::nvlink_bandwidth per direction.
struct NvlinkPair {
  int a = 0, b = 0, count = 1;
  friend bool operator==(const NvlinkPair&, const NvlinkPair&) = default;
};

enum class NvlinkWiring : std::uint8_t { none, nvswitch, mesh };
template <>
inline constexpr auto kNames<NvlinkWiring> = names<NvlinkWiring>(
    {{"none", NvlinkWiring::none}, {"nvswitch", NvlinkWiring::nvswitch}, {"mesh", NvlinkWiring::mesh}});

enum class CpuVendor : std::uint8_t { intel, amd, arm, power, zhaoxin };
template <>
inline constexpr auto kNames<CpuVendor> = names<CpuVendor>({{"intel", CpuVendor::intel},
                                                            {"amd", CpuVendor::amd},
                                                            {"arm", CpuVendor::arm},
                                                            {"power", CpuVendor::power},
                                                            {"zhaoxin", CpuVendor::zhaoxin}});

// A node device by device, as an imported file has it (topology/nccl_xml.h); any shape of PCIe tree.
enum class NodePart : std::uint8_t { gpu, nvswitch, pcie_switch, cpu, nic };
template <>
inline constexpr auto kNames<NodePart> = names<NodePart>({{"gpu", NodePart::gpu},
                                                          {"nvswitch", NodePart::nvswitch},
                                                          {"pcie_switch", NodePart::pcie_switch},
                                                          {"cpu", NodePart::cpu},
                                                          {"nic", NodePart::nic}});
inline constexpr auto kPlurals = names<NodePart>({{"GPUs", NodePart::gpu},
                                                  {"NVSwitches", NodePart::nvswitch},
                                                  {"PCIe switches", NodePart::pcie_switch},
                                                  {"CPUs", NodePart::cpu},
                                                  {"NICs", NodePart::nic}});
struct NodeDevice {
  NodePart kind = NodePart::gpu;
  std::string name;          // what the file calls it: a bus id, "mlx5_0", "numa0"
  BytesPerSecond bandwidth;  // nic: of its ports to the network, together
  std::int64_t number = -1;  // the file's own number of a GPU or NIC; -1: none
  friend bool operator==(const NodeDevice&, const NodeDevice&) = default;
};
enum class CableKind : std::uint8_t { nvlink, pcie, socket, c2c };
template <>
inline constexpr auto kNames<CableKind> = names<CableKind>({{"nvlink", CableKind::nvlink},
                                                            {"pcie", CableKind::pcie},
                                                            {"socket", CableKind::socket},
                                                            {"c2c", CableKind::c2c}});
struct NodeCable {
  int a = 0, b = 0;  // in NodeSpec::devices
  CableKind kind = CableKind::pcie;
  BytesPerSecond bandwidth;  // per direction
  friend bool operator==(const NodeCable&, const NodeCable&) = default;
};

// What carries messages between nodes, and with it NCCL's plugin: what a hop costs, which protocols may run,
// and what the tuner is told (sim/collective/networks.h).
enum class NetworkKind : std::uint8_t { infiniband, roce, efa, efa_v3, slingshot, tcpx, tcpxo, tcp };
template <>
inline constexpr auto kNames<NetworkKind> = names<NetworkKind>({{"infiniband", NetworkKind::infiniband},
                                                                {"roce", NetworkKind::roce},
                                                                {"efa", NetworkKind::efa},
                                                                {"efa_v3", NetworkKind::efa_v3},
                                                                {"slingshot", NetworkKind::slingshot},
                                                                {"tcpx", NetworkKind::tcpx},
                                                                {"tcpxo", NetworkKind::tcpxo},
                                                                {"tcp", NetworkKind::tcp}});

constexpr bool is_verbs(NetworkKind kind) {
  return kind == NetworkKind::infiniband || kind == NetworkKind::roce;
}

// NCCL_P2P_LEVEL; by_cpu: not set.
enum class P2pLevel : std::uint8_t { by_cpu, loc, pix, pxb, phb, sys };
template <>
inline constexpr auto kNames<P2pLevel> = names<P2pLevel>({{"by_cpu", P2pLevel::by_cpu},
                                                          {"loc", P2pLevel::loc},
                                                          {"pix", P2pLevel::pix},
                                                          {"pxb", P2pLevel::pxb},
                                                          {"phb", P2pLevel::phb},
                                                          {"sys", P2pLevel::sys}});

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
  int nics = 8;                  // as NCCL takes them for one: a card with its ports, or what a plugin groups
  int nic_ports = 1;             // of each NIC; alike
  BytesPerSecond nic_bandwidth;  // of a NIC, all its ports together
  Seconds nic_latency;           // of the link NIC - first switch, the NIC's own share included
  NetworkKind network = NetworkKind::infiniband;
  // NICs read and write the memory of GPUs (GPUDirect RDMA); false: all of the network passes through the
  // memory of the GPU's CPU, and no GPU lends another its way to a NIC.
  bool gpu_direct = true;

  // Up to which path GPUs are peers. Others talk through the host's memory. Below pxb only without NVLink.
  P2pLevel p2p_level = P2pLevel::by_cpu;

  // What NCCL's tuner and graph search ask for.
  int compute_capability = 0;  // 70, 80, 90, 100 ...; 0: not known
  CpuVendor cpu = CpuVendor::intel;

  // Not empty: the node's devices and cables one by one, in place of wiring, mesh, pcie_switches, sockets,
  // their bandwidths and even spreading above (the counts gpus and nics agree with it). GPUs in NCCL's order
  // of devices, NICs in theirs; gpu3 is the fourth GPU of the list, and so for each kind. At most one
  // NVSwitch, and one cable between two devices: nvlink between GPUs, or a GPU and the NVSwitch; c2c between
  // GPU and CPU; socket between CPUs; pcie with a switch or a CPU at one end. Latencies by kind of cable as
  // above; c2c: pcie_latency.
  std::vector<NodeDevice> devices;
  std::vector<NodeCable> cables;
  friend bool operator==(const NodeSpec&, const NodeSpec&) = default;
};

// The farthest path between peers: without a setting across PCIe switches, and between CPUs of AMD any of a pair in use
// (src/graph/paths.cc, ncclTopoCheckP2p).
constexpr PathType farthest_peers(const NodeSpec& node, std::size_t gpus_in_use) {
  switch (node.p2p_level) {
    case P2pLevel::by_cpu:
      return node.cpu == CpuVendor::amd && gpus_in_use <= 2 ? PathType::sys : PathType::pxb;
    case P2pLevel::loc:
      return PathType::loc;
    case P2pLevel::pix:
      return PathType::pix;
    case P2pLevel::pxb:
      return PathType::pxb;
    case P2pLevel::phb:
      return PathType::phb;
    case P2pLevel::sys:
      return PathType::sys;
  }
  return PathType::pxb;
}

// Between GPUs, or to an NVSwitch.
inline bool has_nvlink(const NodeSpec& node) {
  return node.devices.empty() ? node.wiring != NvlinkWiring::none
                              : std::ranges::count(node.cables, CableKind::nvlink, &NodeCable::kind) > 0;
}

enum class FabricKind : std::uint8_t { single_switch, leaf_spine, rail_optimized, fat_tree };
template <>
inline constexpr auto kNames<FabricKind> = names<FabricKind>({{"single_switch", FabricKind::single_switch},
                                                              {"leaf_spine", FabricKind::leaf_spine},
                                                              {"rail_optimized", FabricKind::rail_optimized},
                                                              {"fat_tree", FabricKind::fat_tree}});
enum class Placement : std::uint8_t { packed, striped };
template <>
inline constexpr auto kNames<Placement> =
    names<Placement>({{"packed", Placement::packed}, {"striped", Placement::striped}});

// The network between the nodes. All its links run at NodeSpec::nic_bandwidth, in parallel where several are
// needed (at the mean of the ports where a node's devices are listed).
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

  // Which spine, and which core, a route takes. static_by_destination: the destination's, as InfiniBand's
  // subnet manager programs it. ecmp: a hash of the two NIC ports and routing_seed chooses, as on Ethernet;
  // routes to different NICs may then meet on one cable.
  enum class Routing : std::uint8_t { static_by_destination, ecmp };
  Routing routing = Routing::static_by_destination;
  std::uint64_t routing_seed = 0;
  bool sharp = false;  // the switches reduce
  friend bool operator==(const FabricSpec&, const FabricSpec&) = default;
};
template <>
inline constexpr auto kNames<FabricSpec::Routing> = names<FabricSpec::Routing>(
    {{"static", FabricSpec::Routing::static_by_destination}, {"ecmp", FabricSpec::Routing::ecmp}});

// A link, or every link of a device, that is slower than it should be. Names as in Topology::device_name.
struct DegradedLink {
  std::string from;                        // "node3/nic0"
  std::optional<std::string> to;           // absent: every link of `from`; both directions are degraded
  double bandwidth_factor = 1;             // multiplies the bandwidth; 0 < factor <= 1
  std::optional<Seconds> extra_latency{};  // added to the latency
  friend bool operator==(const DegradedLink&, const DegradedLink&) = default;
};

// Consecutive nodes that are alike.
struct NodeRun {
  int nodes = 1;
  NodeSpec node;
  friend bool operator==(const NodeRun&, const NodeRun&) = default;
};

struct ClusterSpec {
  NodeSpec node;
  // Where nodes differ: those of the job, in order, with equally many GPUs in use and one kind of network. Nodes of
  // other jobs are `node`s. Empty: all are.
  std::vector<NodeRun> runs;
  int nodes = 1;
  int job_nodes = 0;      // nodes that this job has, the first ones; 0: all. The others run other jobs
  int gpus_per_node = 0;  // GPUs of each node that the job uses, the first ones; 0: all
  FabricSpec fabric;
  std::vector<DegradedLink> degraded;
  // Of the job, in place of the search (NCCL_GRAPH_FILE). Every channel lists all GPUs in use, heads first.
  // On one node NICs don't count, and bw_inter may be 0.
  std::optional<ChannelGraphs> graphs;
  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;
};

// Calls f(NodeSpec&) for each that the cluster has.
template <class Cluster, class F>
void for_each_node_spec(Cluster& cluster, const F& f) {
  f(cluster.node);
  for (auto& run : cluster.runs) {
    f(run.node);
  }
}

// What the job has.
inline int nodes_of_job(const ClusterSpec& c) { return c.job_nodes > 0 ? c.job_nodes : c.nodes; }
// Calls f(NodeSpec, first node, how many) for runs of nodes that are alike, in order.
template <class F>
void for_each_node(const ClusterSpec& c, const F& f) {
  int first = 0;
  for (const NodeRun& run : c.runs) {
    f(run.node, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(run.nodes));
    first += run.nodes;
  }
  if (first < c.nodes) {
    f(c.node, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(c.nodes - first));
  }
}
inline int gpus_of_node(const ClusterSpec& c) { return c.gpus_per_node > 0 ? c.gpus_per_node : c.node.gpus; }
inline std::int64_t gpus_of_job(const ClusterSpec& c) {
  return static_cast<std::int64_t>(nodes_of_job(c)) * gpus_of_node(c);
}

}  // namespace paceline
