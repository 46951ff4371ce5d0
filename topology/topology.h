// The cluster as an immutable directed graph, with routes that cost O(path length).
//
// Ranks: rank r is GPU r % gpus_per_node of node r / gpus_per_node. A full-duplex cable is two directed links.
// Memory is O(devices + links); there is no table of pairs. Routes inside a node come from one table per node
// type (all nodes are equal); between nodes they are computed from the fabric's structure.
#pragma once

#include <array>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "core/id.h"
#include "core/units.h"
#include "topology/cluster_spec.h"

namespace paceline {

enum class DeviceKind : std::uint8_t { gpu, nvswitch, pcie_switch, cpu, nic, leaf, spine, core };
enum class LinkKind : std::uint8_t { nvlink, pcie, socket, network };

struct Link {
  DeviceId from, to;
  LinkKind kind = LinkKind::nvlink;
  BytesPerSecond bandwidth;
  Seconds latency;
};

// The directed links from one GPU to another, in order.
struct Route {
  static constexpr std::size_t kLongest = 24;
  std::array<LinkId, kLongest> links;
  std::size_t size = 0;
  const LinkId* begin() const { return links.data(); }
  const LinkId* end() const { return links.data() + size; }
  void push(LinkId link);  // Requires: size < kLongest
};

// What a hop is made of, by its slowest class of link: it decides the protocol's cost per hop.
enum class HopKind : std::uint8_t { nvlink, pcie, network };

class Topology {
 public:
  // The Boost.Graph form: vertex = DeviceId, edge index = LinkId.
  using Graph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                                   boost::no_property, std::uint32_t, std::uint32_t>;

  const ClusterSpec& spec() const { return spec_; }
  std::size_t ranks() const;
  std::size_t devices() const;
  std::size_t links() const { return links_.size(); }
  const Link& link(LinkId id) const { return links_[id.index()]; }
  const Graph& graph() const { return graph_; }

  DeviceKind device_kind(DeviceId) const;
  // "node3/gpu5" "node3/nvswitch" "node3/pcie1" "node3/cpu0" "node3/nic2" "leaf4" "spine0" "core1"
  std::string device_name(DeviceId) const;
  DeviceId device_named(const std::string& name) const;  // throws InputError
  std::string link_name(LinkId) const;                   // "node3/nic0 - leaf1"
  DeviceId gpu_of(Rank) const;

  // Links of channel `channel` from one rank to another. Between nodes it uses NIC channel % nics at both ends; a GPU
  // that is not on that NIC's PCIe switch reaches it through NVLink and a GPU that is (as NCCL's PXN) where it can.
  // Requires: from != to. Cost: O(links of the route).
  Route route(Rank from, Rank to, int channel) const;
  HopKind hop_kind(const Route&) const;

  // Channels that a collective runs by default: NodeSpec::rings.size(), or one per NIC.
  int default_channels() const;
  // The ring of one channel over all ranks: node after node, inside a node the channel's order.
  std::vector<Rank> ring_order(int channel) const;

 private:
  friend Topology build_topology(const ClusterSpec&);
  ClusterSpec spec_;
  std::vector<Link> links_;
  Graph graph_;
};

// Throws InputError (with a place below "/cluster") when the spec has no meaning: nodes < 1, a NIC count that the
// GPUs can't share, a mesh edge to a GPU that does not exist, a degraded device that does not exist, ...
Topology build_topology(const ClusterSpec& spec);

// Bandwidth from the GPUs of the first half of the nodes to those of the second (of one node: of its GPUs), one
// direction. Maximum flow (Boost.Graph) up to kMaxFlowDevices devices, the fabric's closed form above.
inline constexpr std::size_t kMaxFlowDevices = 5000;
BytesPerSecond bisection_bandwidth(const Topology&);
BytesPerSecond bisection_by_max_flow(const Topology&);
BytesPerSecond bisection_closed_form(const ClusterSpec&);

void write_graphviz(const Topology&, std::ostream&);

// Node presets by name, sorted; node_preset throws InputError with the known names.
std::vector<std::string> node_preset_names();
NodeSpec node_preset(const std::string& name);

}  // namespace paceline
