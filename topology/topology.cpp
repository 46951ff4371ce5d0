#include "topology/topology.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "core/error.h"
#include "core/fingerprint.h"
#include "core/text.h"
#include "topology/boost_graph.h"

namespace paceline {
namespace {

// A node has at most one NVSwitch, without a number.
std::string numbered(DeviceKind kind, std::size_t number) {
  std::string name(name_of(kind));
  return kind == DeviceKind::nvswitch ? name : name + std::to_string(number);
}

struct NameParts {
  std::string_view word;
  std::uint32_t number = 0;
};

// "pcie1" -> {"pcie", 1}; "nvswitch" -> {"nvswitch", 0}. Lenient: what it accepts wrongly has another name.
NameParts parts_of(std::string_view name) {
  NameParts parts;
  parts.word = name.substr(0, name.find_first_of("0123456789"));
  std::from_chars(name.data() + parts.word.size(), name.data() + name.size(), parts.number);
  return parts;
}

}  // namespace

std::uint32_t Topology::count(DeviceKind kind) const {
  switch (kind) {
    case DeviceKind::leaf:
      return fabric_.leaves();
    case DeviceKind::spine:
      return fabric_.spines();
    case DeviceKind::core:
      return fabric_.cores();
    default:
      break;
  }
  std::uint32_t most = 0;
  for (const NodeLayout& node : kinds_) {
    most = std::max(most, node.count(kind));
  }
  return most;
}

const Topology::Run& Topology::run_of(std::uint32_t node) const {
  return runs_.size() == 1 ? runs_.front() : *--std::ranges::upper_bound(runs_, node, {}, &Run::first);
}

const Topology::Run& Topology::run_with(DeviceId in_node) const {
  return runs_.size() == 1 ? runs_.front()
                           : *--std::ranges::upper_bound(runs_, in_node.value, {}, &Run::first_device);
}

Topology::Place Topology::place_of(DeviceId in_node) const {
  const Run& run = run_with(in_node);
  const NodeLayout& node = kinds_[run.kind];
  const std::uint32_t at = in_node.value - run.first_device;
  return {run.first + at / node.devices(), DeviceId(at % node.devices()), node};
}

std::optional<std::uint32_t> Topology::node_of(DeviceId device) const {
  return device.index() < first_leaf_ ? std::optional(place_of(device).node) : std::nullopt;
}

DeviceId Topology::device_at(std::uint32_t node, DeviceId local) const {
  const Run& run = run_of(node);
  return DeviceId(run.first_device + (node - run.first) * kinds_[run.kind].devices() + local.value);
}

LinkId Topology::link_at(std::uint32_t node, std::uint32_t local) const {
  const Run& run = run_of(node);
  const std::size_t links = kinds_[run.kind].links.size();
  return LinkId(run.first_link + (node - run.first) * links + local);
}

DeviceId Topology::device_of(DeviceKind kind, std::size_t i) const {
  assert(kind >= DeviceKind::leaf && i < count(kind));
  const std::size_t leaves = kind > DeviceKind::leaf ? fabric_.leaves() : 0;
  const std::size_t spines = kind > DeviceKind::spine ? fabric_.spines() : 0;
  return DeviceId(first_leaf() + leaves + spines + i);
}

DeviceKind Topology::device_kind(DeviceId device) const {
  assert(device.index() < devices());
  if (device.index() < first_leaf()) {
    const Place place = place_of(device);
    return place.of.kind_of(place.local);
  }
  const std::size_t i = device.index() - first_leaf();
  return i < fabric_.leaves()                      ? DeviceKind::leaf
         : i < fabric_.leaves() + fabric_.spines() ? DeviceKind::spine
                                                   : DeviceKind::core;
}

std::string Topology::device_name(DeviceId device) const {
  const DeviceKind kind = device_kind(device);
  if (kind >= DeviceKind::leaf) {
    return numbered(kind, device.index() - device_of(kind, 0).index());
  }
  const Place place = place_of(device);
  return "node" + std::to_string(place.node) + "/" +
         numbered(kind, place.local.value - place.of.device(kind, 0).value);
}

std::optional<DeviceId> Topology::find_device(const std::string& name) const {
  const std::size_t slash = name.find('/');
  const bool in_node = slash != std::string::npos;
  const NameParts last = parts_of(std::string_view(name).substr(in_node ? slash + 1 : 0));
  const std::optional<DeviceKind> kind = find_named<DeviceKind>(last.word);
  if (!kind || last.number >= count(*kind) || in_node != (*kind < DeviceKind::leaf)) {
    return std::nullopt;
  }
  DeviceId device;
  if (in_node) {
    const std::uint32_t node = parts_of(std::string_view(name).substr(0, slash)).number;
    if (node >= static_cast<std::uint32_t>(spec_.nodes) || last.number >= this->node(node).count(*kind)) {
      return std::nullopt;
    }
    device = device_at(node, this->node(node).device(*kind, last.number));
  } else {
    device = device_of(*kind, last.number);
  }
  return device_name(device) == name ? std::optional(device) : std::nullopt;
}

DeviceId Topology::device_named(const std::string& name) const {
  if (const std::optional<DeviceId> device = find_device(name)) {
    return *device;
  }
  const auto range = [](std::string_view word, std::size_t count) {
    const std::string first = std::string(word) + "0";
    return count == 1 ? first : first + " to " + std::string(word) + std::to_string(count - 1);
  };
  std::vector<std::string> inside, fabric;
  for (const auto& [word, kind] : kNames<DeviceKind>) {
    if (count(kind) > 0) {
      std::vector<std::string>& list = kind < DeviceKind::leaf ? inside : fabric;
      list.push_back(kind == DeviceKind::nvswitch ? std::string(word) : range(word, count(kind)));
    }
  }
  throw InputError("expected a device of the cluster, " +
                   range("node", static_cast<std::size_t>(spec_.nodes)) + " / " + joined(inside, ", ") +
                   (fabric.empty() ? "" : "; or " + joined(fabric, ", ")) + "; found \"" + name + "\"");
}

std::string Topology::link_name(LinkId id) const {
  return device_name(link(id).from) + " - " + device_name(link(id).to);
}

DeviceId Topology::gpu_of(Rank rank) const {
  assert(rank.index() < static_cast<std::size_t>(spec_.nodes) * gpus_in_use());
  return device_at(node_of(rank), DeviceId(gpu_in_node(rank)));
}

LinkId Topology::first_link(DeviceId device) const {
  return LinkId((*boost::out_edges(device.value, *graph_).first).idx);
}

std::optional<LinkId> Topology::link_between(DeviceId from, DeviceId to) const {
  const std::uint32_t first = first_link(from).value;
  const std::uint32_t end = first + static_cast<std::uint32_t>(boost::out_degree(from.value, *graph_));
  for (std::uint32_t k = first; k < end; ++k) {
    if (links_[k].to == to) {
      return LinkId(k);
    }
  }
  return std::nullopt;
}

void Topology::append_in_node(Route& route, std::uint32_t node, const NodeLayout& inside, std::uint32_t from,
                              std::uint32_t to) const {
  const std::uint32_t base = link_at(node, 0).value;
  for (const std::uint32_t link : inside.route(from, to)) {
    route.push(LinkId(base + link));
  }
}

// The links out of a leaf are its ports, then its spines in order; out of a spine its leaves, then its cores;
// out of a core the pods (build.cpp).
void Topology::push_fabric_link(Route& route, DeviceKind kind, std::uint32_t device,
                                std::uint32_t out) const {
  route.push(LinkId(first_link(device_of(kind, device)).value + out));
}

// The number that picks the spine and the core of a route.
std::uint64_t Topology::way_of(NodePort from, NodePort to) const {
  const FabricLayout& f = fabric_;
  const auto index = [&](NodePort p) {
    return f.nic_index(f.leaf_of(p.node, p.nic), f.port_of(p.node, p.nic));
  };
  if (spec_.fabric.routing == FabricSpec::Routing::static_by_destination) {
    return index(to);
  }
  return mix64(mix64(mix64(spec_.fabric.routing_seed + 1) + index(from)) + index(to));
}

void Topology::append_fabric(Route& route, NodePort from, NodePort to) const {
  const FabricLayout& f = fabric_;
  const std::uint32_t from_leaf = f.leaf_of(from.node, from.nic), to_leaf = f.leaf_of(to.node, to.nic);
  if (from_leaf != to_leaf) {
    const std::uint64_t way = way_of(from, to);
    const auto plane = static_cast<std::uint32_t>(way % f.spines_per_pod);
    const std::uint32_t from_pod = from_leaf / f.leaves_per_pod, to_pod = to_leaf / f.leaves_per_pod;
    push_fabric_link(route, DeviceKind::leaf, from_leaf, f.ports_in_use(from_leaf) + plane);
    if (from_pod != to_pod) {
      const auto core = static_cast<std::uint32_t>(way / f.spines_per_pod % f.cores_per_plane);
      push_fabric_link(route, DeviceKind::spine, from_pod * f.spines_per_pod + plane,
                       f.leaves_in(from_pod) + core);
      push_fabric_link(route, DeviceKind::core, plane * f.cores_per_plane + core, to_pod);
    }
    push_fabric_link(route, DeviceKind::spine, to_pod * f.spines_per_pod + plane, to_leaf % f.leaves_per_pod);
  }
  push_fabric_link(route, DeviceKind::leaf, to_leaf, f.port_of(to.node, to.nic));
}

Route Topology::route(Rank from, Rank to, int channel) const {
  assert(channel >= 0);
  const auto nic = [&](Rank rank) {
    const std::uint32_t nics = node(node_of(rank)).nics_in_use;
    return nics == 0 ? 0 : channel % static_cast<int>(nics);
  };
  return route_over_nics(from, to, nic(from), nic(to));
}

int Topology::nic_of(DeviceId gpu_or_cpu) const {
  const Place at = place_of(gpu_or_cpu);
  const std::uint32_t number = at.local.value - at.of.device(at.of.kind_of(at.local), 0).value;
  return at.of.nics_in_use == 0 ? 0 : static_cast<int>(number % at.of.nics_in_use);
}

Route Topology::route_between(DeviceId from, DeviceId to, int nic_out, int nic_in, NodeLayouts inside) const {
  assert(from != to);
  Route route;
  const Place a = place_of(from), b = place_of(to);
  const NodeLayout &at_a = inside[kind_of(a.node)], &at_b = inside[kind_of(b.node)];
  const std::uint32_t start = at_a.endpoint_of(a.local), end = at_b.endpoint_of(b.local);
  if (a.node == b.node) {
    append_in_node(route, a.node, at_a, start, end);
    return route;
  }
  const auto out = static_cast<std::uint32_t>(nic_out), in = static_cast<std::uint32_t>(nic_in);
  if (at_a.route(start, at_a.endpoint_of_nic(out)).empty() ||
      at_b.route(at_b.endpoint_of_nic(in), end).empty()) {
    return route;
  }
  append_to_leaf(route, a, out, inside);
  append_fabric(route, {a.node, out}, {b.node, in});
  append_in_node(route, b.node, at_b, at_b.endpoint_of_nic(in), end);
  return route;
}

void Topology::append_to_leaf(Route& route, const Place& from, std::uint32_t nic, NodeLayouts inside) const {
  assert(nic < from.of.count(DeviceKind::nic));
  append_in_node(route, from.node, inside[kind_of(from.node)], from.of.endpoint_of(from.local),
                 from.of.endpoint_of_nic(nic));
  route.push(link_at(from.node, from.of.uplink[nic]));
}

Route Topology::to_fabric(Rank rank, int nic, NodeLayouts inside) const {
  Route route;
  append_to_leaf(route, place_of(gpu_of(rank)), static_cast<std::uint32_t>(nic), inside);
  return route;
}

Route Topology::from_fabric(Rank rank, int nic, NodeLayouts inside) const {
  const auto n = static_cast<std::uint32_t>(nic);
  const std::uint32_t at = node_of(rank);
  const NodeLayout& of = inside[kind_of(at)];
  assert(n < of.count(DeviceKind::nic));
  Route route;
  push_fabric_link(route, DeviceKind::leaf, fabric_.leaf_of(at, n), fabric_.port_of(at, n));
  append_in_node(route, at, of, of.endpoint_of_nic(n), gpu_in_node(rank));
  return route;
}

DeviceId Topology::nvswitch_of(Rank rank) const {
  const NodeLayout& of = node(node_of(rank));
  assert(of.count(DeviceKind::nvswitch) > 0);
  return device_at(node_of(rank), of.device(DeviceKind::nvswitch, 0));
}

LinkId Topology::cable_between(DeviceId from, DeviceId to) const {
  const std::optional<LinkId> link = link_between(from, to);
  assert(link);
  return link.value();
}

Route Topology::to_nvswitch(Rank rank) const {
  Route route;
  route.push(cable_between(gpu_of(rank), nvswitch_of(rank)));
  return route;
}

Route Topology::from_nvswitch(Rank rank) const {
  Route route;
  route.push(cable_between(nvswitch_of(rank), gpu_of(rank)));
  return route;
}

HopKind Topology::hop_kind(std::span<const LinkId> route) const {
  HopKind kind = HopKind::nvlink;
  for (const LinkId id : route) {
    switch (link(id).kind) {
      case LinkKind::network:
        return HopKind::network;
      case LinkKind::pcie:
      case LinkKind::socket:
      case LinkKind::c2c:
        kind = HopKind::pcie;
        break;
      case LinkKind::nvlink:
        break;
    }
  }
  return kind;
}

std::optional<LinkId> Topology::read_from_host(std::span<const LinkId> route) const {
  const bool sockets =
      std::ranges::any_of(route, [&](LinkId id) { return link(id).kind == LinkKind::socket; });
  for (std::size_t i = 1; i < route.size(); ++i) {
    const Link& from_cpu = link(route[i]);
    if (device_kind(from_cpu.from) == DeviceKind::cpu && from_cpu.kind == LinkKind::pcie) {
      const std::uint32_t kind = kind_of(node_of(from_cpu.from).value());
      const PathType farthest = farthest_peers(specs_[kind], kinds_[kind].gpus_in_use.size());
      return (sockets ? PathType::sys : PathType::phb) <= farthest ? std::nullopt : std::optional(route[i]);
    }
  }
  return std::nullopt;
}

std::optional<LinkId> Topology::relayed_over(std::span<const LinkId> route) const {
  for (std::size_t i = 1; i < route.size(); ++i) {
    const Link& before = link(route[i - 1]);
    if (before.kind == LinkKind::nvlink && link(route[i]).kind == LinkKind::nvlink &&
        device_kind(before.to) == DeviceKind::gpu) {
      return route[i];
    }
  }
  return std::nullopt;
}

}  // namespace paceline
