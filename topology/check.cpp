#include "topology/check.h"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/id.h"

namespace paceline {
namespace {

constexpr int kMostPerNode = 256;  // devices of one kind: routes inside a node are a table of pairs
constexpr int kMostPorts = 16;
constexpr int kMostNodes = 10'000'000;  // numbers of leaves and spines then fit 32 bits
constexpr int kMostParallelLinks = 1000;
constexpr double kFastest = 1e18;  // B/s; keeps sums of bandwidths finite
constexpr double kMostOversubscription = 1e9;
constexpr double kLongestLatency = 1e6;  // s

template <class T>
[[noreturn]] void fail(const std::string& place, const std::string& expected, const T& found) {
  std::ostringstream message;
  message << "expected " << expected << ", found " << found;
  throw InputError(message.str(), "/cluster" + place);
}

void check_count(const std::string& place, const std::string& what, int found, int least, int most) {
  if (found < least || found > most) {
    fail(place, std::to_string(least) + " to " + std::to_string(most) + " " + what, found);
  }
}

void check_bandwidth(const std::string& place, BytesPerSecond found) {
  if (!(found.value > 0 && found.value <= kFastest)) {
    fail(place, "a bandwidth above 0 B/s and up to 1e18 B/s", std::to_string(found.value) + " B/s");
  }
}

void check_latency(const std::string& place, Seconds found) {
  if (!(found.value >= 0 && found.value <= kLongestLatency)) {
    fail(place, "a latency of 0 s or more, up to 1e6 s", std::to_string(found.value) + " s");
  }
}

void check_mesh(const NodeSpec& node) {
  if (node.wiring != NvlinkWiring::mesh) {
    if (!node.mesh.empty()) {
      fail("/node/mesh", "no pairs, as the wiring is not a mesh", std::to_string(node.mesh.size()));
    }
    return;
  }
  if (node.mesh.empty()) {
    fail("/node/mesh", "at least one pair of GPUs, as the wiring is a mesh", "none");
  }
  std::set<std::pair<int, int>> seen;
  for (std::size_t i = 0; i < node.mesh.size(); ++i) {
    const NvlinkPair& pair = node.mesh[i];
    const std::string place = "/node/mesh/" + std::to_string(i);
    const std::string gpu = "a GPU of the node, 0 to " + std::to_string(node.gpus - 1);
    if (pair.a < 0 || pair.a >= node.gpus) {
      fail(place + "/a", gpu, pair.a);
    }
    if (pair.b < 0 || pair.b >= node.gpus) {
      fail(place + "/b", gpu, pair.b);
    }
    if (pair.a == pair.b) {
      fail(place, "two different GPUs", "GPU " + std::to_string(pair.a) + " twice");
    }
    check_count(place + "/count", "links", pair.count, 1, kMostParallelLinks);
    if (!seen.insert(std::minmax(pair.a, pair.b)).second) {
      fail(place, "each pair of GPUs once, with its count",
           std::to_string(pair.a) + "-" + std::to_string(pair.b) + " again");
    }
  }
}

void check_devices(const NodeSpec& node) {
  std::array<int, kNames<NodePart>.size()> counts{};
  for (std::size_t i = 0; i < node.devices.size(); ++i) {
    const NodeDevice& device = node.devices[i];
    ++counts[static_cast<std::size_t>(device.kind)];
    if (device.kind == NodePart::nic) {
      check_bandwidth("/node/devices/" + std::to_string(i) + "/bandwidth", device.bandwidth);
    }
  }
  for (const auto& [name, kind] : kPlurals) {
    check_count("/node/devices", std::string(name), counts[static_cast<std::size_t>(kind)],
                kind == NodePart::cpu ? 1 : 0, kind == NodePart::nvswitch ? 1 : kMostPerNode);
  }
  const auto agree = [&](const char* place, NodePart kind, int told) {
    const int listed = counts[static_cast<std::size_t>(kind)];
    if (told != listed) {
      fail(place, std::to_string(listed) + ", as the node's devices are listed", told);
    }
  };
  agree("/node/gpus", NodePart::gpu, node.gpus);
  agree("/node/nics", NodePart::nic, node.nics);
}

bool may_join(CableKind cable, NodePart a, NodePart b) {
  const auto either = [&](NodePart part) { return a == part || b == part; };
  const bool gpu = either(NodePart::gpu), cpu = either(NodePart::cpu), nvswitch = either(NodePart::nvswitch);
  switch (cable) {
    case CableKind::nvlink:
      return gpu && (a == b || nvswitch);
    case CableKind::pcie:
      return !nvswitch && (cpu || either(NodePart::pcie_switch));
    case CableKind::socket:
      return cpu && a == b;
    case CableKind::c2c:
      return gpu && cpu;
  }
  return false;
}

constexpr auto kJoins = names<CableKind>({{"GPUs, or a GPU and the NVSwitch", CableKind::nvlink},
                                          {"a PCIe switch or CPU and another device", CableKind::pcie},
                                          {"CPUs", CableKind::socket},
                                          {"a GPU and a CPU", CableKind::c2c}});

void check_cables(const NodeSpec& node) {
  const int devices = static_cast<int>(node.devices.size());
  std::set<std::pair<int, int>> seen;
  for (std::size_t i = 0; i < node.cables.size(); ++i) {
    const NodeCable& cable = node.cables[i];
    const std::string place = "/node/cables/" + std::to_string(i);
    check_count(place + "/a", "(a device of the list)", cable.a, 0, devices - 1);
    check_count(place + "/b", "(a device of the list)", cable.b, 0, devices - 1);
    const NodeDevice &a = node.devices[static_cast<std::size_t>(cable.a)],
                     &b = node.devices[static_cast<std::size_t>(cable.b)];
    if (cable.a == cable.b || !may_join(cable.kind, a.kind, b.kind)) {
      fail(place, "a cable of this kind between " + std::string(kJoins[cable.kind]),
           "\"" + a.name + "\" and \"" + b.name + "\"");
    }
    check_bandwidth(place + "/bandwidth", cable.bandwidth);
    if (!seen.insert(std::minmax(cable.a, cable.b)).second) {
      fail(place, "one cable between two devices", "\"" + a.name + "\" and \"" + b.name + "\" again");
    }
  }
}

void check_p2p_level(const NodeSpec& node) {
  const bool nvlink = node.wiring != NvlinkWiring::none && node.devices.empty();
  const bool listed = std::ranges::any_of(
      node.cables, [](const NodeCable& cable) { return cable.kind == CableKind::nvlink; });
  if ((nvlink || listed) && farthest_peers(node, 1) < PathType::pxb) {
    fail("/node/p2p_level", "by_cpu, pxb, phb or sys beside NVLink, where less is not simulated",
         "\"" + std::string(name_of(node.p2p_level)) + "\"");
  }
}

void check_listed_node(const NodeSpec& node) {
  check_count("/node/gpus", "GPUs", node.gpus, 1, kMostPerNode);
  check_count("/node/nics", "NICs", node.nics, 0, kMostPerNode);
  check_count("/node/nic_ports", "ports of a NIC", node.nic_ports, 1, kMostPorts);
  check_latency("/node/pcie_latency", node.pcie_latency);
  check_latency("/node/nvlink_latency", node.nvlink_latency);
  check_latency("/node/socket_latency", node.socket_latency);
  check_latency("/node/nic_latency", node.nic_latency);
  check_devices(node);
  check_cables(node);
}

void check_node(const NodeSpec& node) {
  check_p2p_level(node);
  if (!node.devices.empty()) {
    check_listed_node(node);
    return;
  }
  if (!node.cables.empty()) {
    fail("/node/cables", "no cables, as no devices are listed", node.cables.size());
  }
  check_count("/node/gpus", "GPUs", node.gpus, 1, kMostPerNode);
  check_count("/node/pcie_switches", "PCIe switches", node.pcie_switches, 1, kMostPerNode);
  check_count("/node/sockets", "CPU sockets", node.sockets, 1, kMostPerNode);
  check_count("/node/nics", "NICs", node.nics, 0, kMostPerNode);
  check_count("/node/nic_ports", "ports of a NIC", node.nic_ports, 1, kMostPorts);
  check_bandwidth("/node/pcie_bandwidth", node.pcie_bandwidth);
  check_latency("/node/pcie_latency", node.pcie_latency);
  if (node.wiring != NvlinkWiring::none) {
    if (node.nvlink_bandwidth.value == 0) {
      throw InputError("missing key \"nvlink_bandwidth\", as the wiring isn't none",
                       "/cluster/node/nvlink_bandwidth");
    }
    check_bandwidth("/node/nvlink_bandwidth", node.nvlink_bandwidth);
    check_latency("/node/nvlink_latency", node.nvlink_latency);
  }
  if (node.sockets > 1) {
    check_bandwidth("/node/socket_bandwidth", node.socket_bandwidth);
    check_latency("/node/socket_latency", node.socket_latency);
  }
  if (node.nics > 0) {
    check_bandwidth("/node/nic_bandwidth", node.nic_bandwidth);
    check_latency("/node/nic_latency", node.nic_latency);
  }
  check_mesh(node);
}

void check_fabric(const FabricSpec& fabric) {
  if (fabric.nodes_per_leaf < 1) {
    fail("/fabric/nodes_per_leaf", "at least 1", fabric.nodes_per_leaf);
  }
  if (fabric.leaves_per_pod < 1) {
    fail("/fabric/leaves_per_pod", "at least 1", fabric.leaves_per_pod);
  }
  if (!(fabric.oversubscription >= 1 && fabric.oversubscription <= kMostOversubscription)) {
    fail("/fabric/oversubscription", "a ratio of 1 or more, up to 1e9", fabric.oversubscription);
  }
  check_latency("/fabric/switch_latency", fabric.switch_latency);
}

// `least`: 0 where a graph may be absent.
void check_channels(const std::string& place, std::size_t found, int least) {
  check_count(place, "channels", static_cast<int>(std::min<std::size_t>(found, kMostChannels + 1)), least,
              kMostChannels);
}

// GB/s of one channel.
void check_speed(const std::string& place, double found, bool may_be_0) {
  constexpr double kGiga = 1e9;
  if (!(found >= 0 && found <= kFastest / kGiga) || (found == 0 && !may_be_0)) {
    fail(place,
         std::string("a bandwidth ") + (may_be_0 ? "of 0 GB/s or more" : "above 0 GB/s") +
             " and up to 1e9 GB/s",
         found);
  }
}

void check_order(const std::string& place, const std::vector<int>& gpus, int gpus_in_use) {
  std::vector<int> sorted = gpus;
  std::ranges::sort(sorted);
  bool permutation = sorted.size() == static_cast<std::size_t>(gpus_in_use);
  for (int g = 0; permutation && g < gpus_in_use; ++g) {
    permutation = sorted[static_cast<std::size_t>(g)] == g;
  }
  if (!permutation) {
    std::string found;
    for (const int gpu : gpus) {
      found += found.empty() ? "" : " ";
      found += std::to_string(gpu);
    }
    fail(place, "each GPU 0 to " + std::to_string(gpus_in_use - 1) + " once, as these are in use",
         found.empty() ? "none" : found);
  }
}

void check_graph(const std::string& place, const ChannelGraph& graph, const ClusterSpec& cluster) {
  const int gpus = cluster.gpus_per_node == 0 ? cluster.node.gpus : cluster.gpus_per_node;
  const bool several_nodes = cluster.nodes > 1;
  if (graph.channels.empty()) {
    return;
  }
  check_speed(place + "/bw_intra", graph.bw_intra, false);
  check_speed(place + "/bw_inter", graph.bw_inter, !several_nodes);
  if (!(graph.latency_inter >= 0 && graph.latency_inter <= kLongestLatency * 1e6)) {
    fail(place + "/latency_inter", "a latency of 0 us or more, up to 1e12 us", graph.latency_inter);
  }
  check_count(place + "/cross_nic", "(crossNic)", graph.cross_nic, 0, 2);
  for (std::size_t c = 0; c < graph.channels.size(); ++c) {
    const std::string channel = place + "/channels/" + std::to_string(c);
    check_order(channel + "/gpus", graph.channels[c].gpus, gpus);
    if (several_nodes) {
      const int last = cluster.node.nics - 1;
      check_count(channel + "/nic_in", "(a NIC of the node)", graph.channels[c].nic_in, 0, last);
      check_count(channel + "/nic_out", "(a NIC of the node)", graph.channels[c].nic_out, 0, last);
    }
  }
}

// Requires: the node and the counts are checked.
void check_graphs(const ChannelGraphs& graphs, const ClusterSpec& cluster) {
  const auto check = [&](const char* name, const ChannelGraph& graph, int least) {
    const std::string place = std::string("/graphs/") + name;
    check_channels(place + "/channels", graph.channels.size(), least);
    check_graph(place, graph, cluster);
  };
  check("ring", graphs.ring, 1);
  check("tree", graphs.tree, 0);
  check("collnet_chain", graphs.collnet_chain, 0);
  check("collnet_direct", graphs.collnet_direct, 0);
  check("nvls", graphs.nvls, 0);
  check_count("/graphs/channels", "channels", graphs.channels, 0, kMostChannels);
  if (graphs.channels == 0 && graphs.nvls_channels != 0) {
    fail("/graphs/nvls_channels", "0, as /graphs/channels is: both are counted", graphs.nvls_channels);
  }
  check_count("/graphs/nvls_channels", "channels", graphs.nvls_channels,
              graphs.channels == 0 || graphs.nvls.channels.empty() ? 0 : 1, kMostChannels);
}

void check_degraded(const std::vector<DegradedLink>& degraded) {
  for (std::size_t i = 0; i < degraded.size(); ++i) {
    const std::string place = "/degraded/" + std::to_string(i);
    if (!(degraded[i].bandwidth_factor > 0 && degraded[i].bandwidth_factor <= 1)) {
      fail(place + "/bandwidth_factor", "a factor above 0 and up to 1", degraded[i].bandwidth_factor);
    }
    check_latency(place + "/extra_latency", degraded[i].extra_latency.value_or(Seconds{}));
  }
}

std::string gpus_used(const ClusterSpec& cluster, const NodeSpec& node) {
  return std::to_string(cluster.gpus_per_node > 0 ? std::min(cluster.gpus_per_node, node.gpus) : node.gpus);
}

// What nodes of one job must have in common.
void check_runs(const ClusterSpec& cluster) {
  std::int64_t nodes = 0;
  for (std::size_t i = 0; i < cluster.runs.size(); ++i) {
    const NodeSpec& node = cluster.runs[i].node;
    const std::string place = "/gpus/" + std::to_string(i);
    check_count(place + "/nodes", "nodes", cluster.runs[i].nodes, 1, kMostNodes);
    nodes += cluster.runs[i].nodes;
    try {
      check_node(node);
    } catch (const InputError& error) {
      constexpr std::string_view kCluster = "/cluster";
      throw InputError(error.message(), "/cluster" + place + error.place().substr(kCluster.size()),
                       error.file());
    }
    if (gpus_used(cluster, node) != gpus_used(cluster, cluster.node)) {
      fail(place + "/node", "equally many GPUs in use in all nodes, " + gpus_used(cluster, cluster.node),
           gpus_used(cluster, node) + " in " + node.name);
    }
    if (node.network != cluster.node.network) {
      fail(place + "/node/network",
           "one kind of network for all nodes, " + std::string(name_of(cluster.node.network)),
           name_of(node.network));
    }
    if (cluster.nodes > 1 && node.nics == 0) {
      fail(place + "/node/nics", "at least 1 NIC, as there are " + std::to_string(cluster.nodes) + " nodes",
           0);
    }
  }
  if (!cluster.runs.empty() && nodes != nodes_of_job(cluster)) {
    fail("/gpus", "the GPUs of " + std::to_string(nodes_of_job(cluster)) + " nodes",
         "those of " + std::to_string(nodes));
  }
  if (!cluster.runs.empty() && cluster.graphs) {
    fail("/graphs", "no graphs where nodes or GPUs differ: each kind has its own", "some");
  }
}

}  // namespace

void check_cluster(const ClusterSpec& cluster) {
  check_node(cluster.node);
  check_count("/nodes", "nodes", cluster.nodes, 1, kMostNodes);
  check_count("/job_nodes", "nodes", cluster.job_nodes, 0, cluster.nodes);
  check_runs(cluster);
  if (cluster.nodes > 1 && cluster.node.nics == 0) {
    fail("/node/nics", "at least 1 NIC, as there are " + std::to_string(cluster.nodes) + " nodes", 0);
  }
  if (cluster.gpus_per_node < 0 || cluster.gpus_per_node > cluster.node.gpus) {
    fail("/gpus_per_node", "0 (all) to " + std::to_string(cluster.node.gpus) + " GPUs of each node",
         cluster.gpus_per_node);
  }
  check_fabric(cluster.fabric);
  check_degraded(cluster.degraded);
  if (cluster.graphs) {
    check_graphs(*cluster.graphs, cluster);
  }
}

}  // namespace paceline
