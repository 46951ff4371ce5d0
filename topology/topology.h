// The cluster as an immutable directed graph, with routes that cost O(path length).
//
// Ranks: rank r is GPU r % gpus_per_node of node r / gpus_per_node; those of other jobs' nodes come after the
// job's own. A full-duplex cable is two directed links. Memory is O(devices + links); there is no table of
// pairs. Routes inside a node come from one table per kind of node; between nodes they are
// computed from the fabric's structure. Routes are static: a degraded link is slower, not avoided.
//
// Numbering: node n owns a block of devices (GPUs, NVSwitch, PCIe switches, CPUs, NICs), then come leaves,
// spines and cores; kinds and names follow from the number. Links are numbered by source device, so a LinkId
// is the edge's place in Boost's CSR graph and the links out of a device are consecutive.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/id.h"
#include "core/names.h"
#include "core/units.h"
#include "topology/cluster_spec.h"
#include "topology/fabric.h"
#include "topology/link.h"
#include "topology/node_layout.h"

namespace paceline {

// The directed links from one GPU to another, in order.
struct Route {
  static constexpr std::size_t kLongest = 32;
  std::array<LinkId, kLongest> links;
  std::size_t size = 0;
  const LinkId* begin() const { return links.data(); }
  const LinkId* end() const { return links.data() + size; }
  void push(LinkId link) {  // Requires: size < kLongest
    assert(size < kLongest);
    links[size++] = link;
  }
};

// Many routes, each no longer than it is: a million of Route would take 130 MB.
class RouteList {
 public:
  void reserve(std::size_t routes) { end_.reserve(routes); }
  void push_back(const Route& route) {
    links_.insert(links_.end(), route.begin(), route.end());
    end_.push_back(links_.size());
  }
  std::span<const LinkId> operator[](std::size_t i) const {
    const std::size_t first = i == 0 ? 0 : end_[i - 1];
    return std::span(links_).subspan(first, end_[i] - first);
  }

 private:
  std::vector<LinkId> links_;
  std::vector<std::size_t> end_;  // in links_, by route
};

// What a hop is made of, by its slowest class of link: it decides the protocol's cost per hop.
enum class HopKind : std::uint8_t { nvlink, pcie, network, inside };  // inside: no links
template <>
inline constexpr auto kNames<HopKind> = names<HopKind>({{"nvlink", HopKind::nvlink},
                                                        {"pcie", HopKind::pcie},
                                                        {"network", HopKind::network},
                                                        {"inside", HopKind::inside}});

struct BoostGraph;  // topology/boost_graph.h

// A node as a route sees it, by kind of node.
using NodeLayouts = std::span<const NodeLayout>;

class Topology {
 public:
  const ClusterSpec& spec() const { return spec_; }
  // The job's first node, which all others are like where there is one kind.
  const NodeLayout& node() const { return kinds_.front(); }
  // Kinds of node: equally many GPUs in use, of the same numbers; two of one kind have equal specs.
  NodeLayouts kinds() const { return kinds_; }
  const NodeSpec& spec_of_kind(std::uint32_t kind) const { return specs_[kind]; }
  std::uint32_t kind_of(std::uint32_t node) const { return run_of(node).kind; }
  const NodeLayout& node(std::uint32_t number) const { return kinds_[kind_of(number)]; }
  int gpus_per_node() const { return static_cast<int>(node().gpus_in_use.size()); }  // in use
  int job_nodes() const { return nodes_of_job(spec_); }
  std::size_t ranks() const {
    return static_cast<std::size_t>(job_nodes()) * node().gpus_in_use.size();
  }  // of the job
  std::size_t devices() const { return first_leaf() + fabric_.devices(); }
  std::size_t links() const { return links_.size(); }
  const Link& link(LinkId id) const { return links_[id.index()]; }
  const BoostGraph& graph() const { return *graph_; }

  DeviceKind device_kind(DeviceId) const;
  // "node3/gpu5" "node3/nvswitch" "node3/pcie1" "node3/cpu0" "node3/nic2" "leaf4" "spine0" "core1"
  std::string device_name(DeviceId) const;
  std::optional<DeviceId> find_device(const std::string& name) const;
  DeviceId device_named(const std::string& name) const;  // throws InputError
  std::string link_name(LinkId) const;                   // "node3/nic0 - leaf1"
  DeviceId gpu_of(Rank) const;
  std::uint32_t node_of(Rank rank) const { return rank.value / gpus_in_use(); }
  std::optional<std::uint32_t> node_of(DeviceId) const;  // nothing: of the fabric
  // Cost: O(links out of `from`).
  std::optional<LinkId> link_between(DeviceId from, DeviceId to) const;

  // Links of channel `channel` from one rank to another. Between nodes it uses NIC channel % nics at both
  // ends; a GPU that is not on that NIC's PCIe switch reaches it through NVLink and a GPU that is (as NCCL's
  // PXN) where it can. `nics`: all of a node when all its GPUs are in use; else those up to the last one that
  // is near a GPU in use, as NCCL takes the near ones. Only GPUs in use forward. Requires: from != to,
  // channel >= 0. Cost: O(links of the route).
  Route route(Rank from, Rank to, int channel) const;
  // The same with the NICs named, each of its own node; inside one node they don't count. `inside`: the kinds of node
  // with those GPUs in use that may forward, where these aren't the job's (a group's own).
  Route route_over_nics(Rank from, Rank to, int nic_out, int nic_in) const {
    return route_over_nics(from, to, nic_out, nic_in, kinds_);
  }
  Route route_over_nics(Rank from, Rank to, int nic_out, int nic_in, NodeLayouts inside) const {
    return route_between(gpu_of(from), gpu_of(to), nic_out, nic_in, inside);
  }
  // The same between any two devices that are GPUs or CPUs; empty where a node has no way between them.
  Route route_between(DeviceId from, DeviceId to, int nic_out, int nic_in) const {
    return route_between(from, to, nic_out, nic_in, kinds_);
  }
  Route route_between(DeviceId from, DeviceId to, int nic_out, int nic_in, NodeLayouts inside) const;
  // That of a message: between nodes it leaves and arrives by NIC (a device's place among the node's GPUs, or CPUs) of
  // the NICs in use.
  Route route_of_message(DeviceId from, DeviceId to) const {
    return route_between(from, to, nic_of(from), nic_of(to));
  }
  // Parts of routes: a rank and its node's NVSwitch (requires: it has a cable to one), a rank and the leaf
  // that NIC `nic` of its node hangs on.
  Route to_nvswitch(Rank) const;
  Route from_nvswitch(Rank) const;
  Route to_fabric(Rank rank, int nic) const { return to_fabric(rank, nic, kinds_); }
  Route from_fabric(Rank rank, int nic) const { return from_fabric(rank, nic, kinds_); }
  Route to_fabric(Rank, int nic, NodeLayouts inside) const;
  Route from_fabric(Rank, int nic, NodeLayouts inside) const;
  HopKind hop_kind(std::span<const LinkId> route) const;
  // Where the route leads through a CPU to a GPU that is no peer: the link from there, over which the GPU reads the
  // host's memory.
  std::optional<LinkId> read_from_host(std::span<const LinkId> route) const;
  // Where the route leads over NVLinks through a GPU, because its ends have none to each other (NVB): the link
  // from that GPU. The data lies in its memory, and the route's end reads it there.
  std::optional<LinkId> relayed_over(std::span<const LinkId> route) const;

 private:
  friend Topology build_topology(const ClusterSpec&);
  // Consecutive nodes of one kind.
  struct Run {
    std::uint32_t first = 0, kind = 0;
    std::uint32_t first_device = 0, first_link = 0;
  };
  const Run& run_of(std::uint32_t node) const;
  const Run& run_with(DeviceId in_node) const;
  // A device of a node, or a link that starts in it: where it stands.
  struct Place {
    std::uint32_t node = 0;
    DeviceId local;
    const NodeLayout& of;
  };
  Place place_of(DeviceId in_node) const;
  DeviceId device_at(std::uint32_t node, DeviceId local) const;
  LinkId link_at(std::uint32_t node, std::uint32_t local) const;
  std::size_t first_leaf() const { return first_leaf_; }
  DeviceId device_of(DeviceKind kind, std::size_t i) const;  // a switch of the fabric
  std::uint32_t count(DeviceKind kind) const;                // of the node that has most, or in the fabric
  LinkId first_link(DeviceId device) const;
  std::uint32_t gpus_in_use() const { return static_cast<std::uint32_t>(node().gpus_in_use.size()); }
  int nic_of(DeviceId gpu_or_cpu) const;
  std::uint32_t gpu_in_node(Rank rank) const { return rank.value % gpus_in_use(); }
  LinkId cable_between(DeviceId from, DeviceId to) const;  // requires: there is one
  DeviceId nvswitch_of(Rank) const;
  // From endpoint to endpoint of a node, as in NodeLayout::route.
  void append_in_node(Route&, std::uint32_t node, const NodeLayout& inside, std::uint32_t from,
                      std::uint32_t to) const;
  struct NodePort {
    std::uint32_t node, nic;
  };
  void append_to_leaf(Route&, const Place& from, std::uint32_t nic, NodeLayouts inside) const;
  void push_fabric_link(Route&, DeviceKind, std::uint32_t device, std::uint32_t out) const;
  void append_fabric(Route&, NodePort from, NodePort to) const;  // from a leaf to a NIC
  std::uint64_t way_of(NodePort from, NodePort to) const;

  ClusterSpec spec_;
  std::vector<NodeSpec> specs_;  // by kind
  std::vector<NodeLayout> kinds_;
  std::vector<Run> runs_;
  std::size_t first_leaf_ = 0;
  FabricLayout fabric_;
  std::vector<Link> links_;
  std::shared_ptr<const BoostGraph> graph_;
};

// Throws InputError (with a place below "/cluster") when the spec has no meaning: nodes < 1, several nodes
// without a NIC, a mesh edge to a GPU that does not exist, a degraded device that does not exist, ... Cost:
// O(devices + links).
Topology build_topology(const ClusterSpec& spec);

// Bandwidth from the GPUs of the first half of the nodes (the first floor(nodes / 2)) to those of the second,
// one direction; of one node: between the halves of its GPUs, over the links inside it. All GPUs count, used
// or not. Maximum flow (Boost.Graph) up to kMaxFlowDevices devices, the closed form above.
inline constexpr std::size_t kMaxFlowDevices = 5000;
BytesPerSecond bisection_bandwidth(const Topology&);
BytesPerSecond bisection_by_max_flow(const Topology&);
// Equal to the maximum flow when no link is degraded (`degraded` is ignored) and, on a rail_optimized fabric,
// when a node's GPUs can feed all its NICs alike, as those of the presets can. Cost: O(groups of nodes).
BytesPerSecond bisection_closed_form(const ClusterSpec&);

// An undirected graph, one edge per cable with its bandwidth, one cluster per node. Cost: O(devices + links).
void write_graphviz(const Topology&, std::ostream&);

// Node presets by name, sorted; node_preset throws InputError with the known names.
std::vector<std::string> node_preset_names();     // all of these:
std::vector<std::string> machine_preset_names();  // that one can buy, and pcie-a100
std::vector<std::string> cloud_preset_names();    // that one can rent
NodeSpec node_preset(const std::string& name);

}  // namespace paceline
