#include "topology/check.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "core/id.h"

namespace paceline {
namespace {

constexpr int kMostPerNode = 256;       // devices of one kind: routes inside a node are a table of pairs
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

void check_rings(const NodeSpec& node) {
  for (std::size_t i = 0; i < node.rings.size(); ++i) {
    std::vector<int> sorted = node.rings[i];
    std::ranges::sort(sorted);
    bool permutation = sorted.size() == static_cast<std::size_t>(node.gpus);
    for (int g = 0; permutation && g < node.gpus; ++g) {
      permutation = sorted[static_cast<std::size_t>(g)] == g;
    }
    if (!permutation) {
      std::string found;
      for (const int g : node.rings[i]) {
        found += (found.empty() ? "" : " ") + std::to_string(g);
      }
      fail("/node/rings/" + std::to_string(i), "each GPU 0 to " + std::to_string(node.gpus - 1) + " once",
           found.empty() ? "none" : found);
    }
  }
}

void check_node(const NodeSpec& node) {
  check_count("/node/gpus", "GPUs", node.gpus, 1, kMostPerNode);
  check_count("/node/pcie_switches", "PCIe switches", node.pcie_switches, 1, kMostPerNode);
  check_count("/node/sockets", "CPU sockets", node.sockets, 1, kMostPerNode);
  check_count("/node/nics", "NICs", node.nics, 0, kMostPerNode);
  check_bandwidth("/node/pcie_bandwidth", node.pcie_bandwidth);
  check_latency("/node/pcie_latency", node.pcie_latency);
  if (node.wiring != NvlinkWiring::none) {
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
  check_rings(node);
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

void check_degraded(const std::vector<DegradedLink>& degraded) {
  for (std::size_t i = 0; i < degraded.size(); ++i) {
    const std::string place = "/degraded/" + std::to_string(i);
    if (!(degraded[i].bandwidth_factor > 0 && degraded[i].bandwidth_factor <= 1)) {
      fail(place + "/bandwidth_factor", "a factor above 0 and up to 1", degraded[i].bandwidth_factor);
    }
    check_latency(place + "/extra_latency", degraded[i].extra_latency);
  }
}

}  // namespace

void check_cluster(const ClusterSpec& cluster) {
  check_node(cluster.node);
  check_count("/nodes", "nodes", cluster.nodes, 1, kMostNodes);
  if (cluster.nodes > 1 && cluster.node.nics == 0) {
    fail("/node/nics", "at least 1 NIC, as there are " + std::to_string(cluster.nodes) + " nodes", 0);
  }
  if (cluster.gpus_per_node < 0 || cluster.gpus_per_node > cluster.node.gpus) {
    fail("/gpus_per_node", "0 (all) to " + std::to_string(cluster.node.gpus) + " GPUs of each node",
         cluster.gpus_per_node);
  }
  check_fabric(cluster.fabric);
  check_degraded(cluster.degraded);
}

}  // namespace paceline
