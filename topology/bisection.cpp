#include <algorithm>
#include <bit>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <cmath>
#include <span>

#include "topology/check.h"
#include "topology/topology.h"

namespace paceline {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using FlowEdge =
    boost::property<boost::edge_capacity_t, std::int64_t,
                    boost::property<boost::edge_residual_capacity_t, std::int64_t,
                                    boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>;
using FlowGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, FlowEdge>;

void add_flow_edge(FlowGraph& graph, std::size_t from, std::size_t to, std::int64_t capacity) {
  const auto forth = boost::add_edge(from, to, graph).first;
  const auto back = boost::add_edge(to, from, graph).first;
  const auto reverse = boost::get(boost::edge_reverse, graph);
  boost::put(boost::edge_capacity, graph, forth, capacity);
  boost::put(boost::edge_capacity, graph, back, std::int64_t{0});
  boost::put(reverse, forth, back);
  boost::put(reverse, back, forth);
}

// Flows are counted in integers, so that the algorithm ends and its answer is exact for the capacities it
// sees: B/s times a power of two that gives the widest link as many bits as the sum of all has room for, up
// to 44.
class Units {
 public:
  explicit Units(std::span<const Link> links) {
    double widest = 0;
    for (const Link& link : links) {
      widest = std::max(widest, link.bandwidth.value);
    }
    const int bits = std::min(44, 61 - static_cast<int>(std::bit_width(links.size())));
    exponent_ = widest > 0 ? bits - 1 - std::ilogb(widest) : 0;
  }
  std::int64_t of(BytesPerSecond b) const { return std::llround(std::ldexp(b.value, exponent_)); }
  BytesPerSecond back(std::int64_t flow) const {
    return BytesPerSecond(std::ldexp(static_cast<double>(flow), -exponent_));
  }

 private:
  int exponent_ = 0;
};

// Devices are those of the links, below `devices`; a source gives and a sink takes all that its links carry.
BytesPerSecond max_flow(std::span<const Link> links, std::size_t devices, std::span<const DeviceId> sources,
                        std::span<const DeviceId> sinks) {
  const Units units(links);
  FlowGraph graph(devices + 2);
  const std::size_t source = devices, sink = devices + 1;
  std::vector<std::int64_t> out(devices), in(devices);
  for (const Link& link : links) {
    const std::int64_t capacity = units.of(link.bandwidth);
    add_flow_edge(graph, link.from.index(), link.to.index(), capacity);
    out[link.from.index()] += capacity;
    in[link.to.index()] += capacity;
  }
  for (const DeviceId d : sources) {
    add_flow_edge(graph, source, d.index(), out[d.index()]);
  }
  for (const DeviceId d : sinks) {
    add_flow_edge(graph, d.index(), sink, in[d.index()]);
  }
  return units.back(boost::push_relabel_max_flow(graph, source, sink));
}

BytesPerSecond between_halves_of_node(std::span<const Link> links, const NodeLayout& node) {
  std::vector<Link> inside;
  std::ranges::copy_if(links, std::back_inserter(inside),
                       [](const Link& link) { return link.kind != LinkKind::network; });
  std::vector<DeviceId> first, second;
  const std::uint32_t gpus = node.count(DeviceKind::gpu);
  for (std::uint32_t i = 0; i < gpus; ++i) {
    (i < gpus / 2 ? first : second).push_back(node.device(DeviceKind::gpu, i));
  }
  return max_flow(inside, node.devices(), first, second);
}

// From all GPUs of a node through all its NICs into the fabric; as much can come in.
BytesPerSecond egress(const NodeLayout& node) {
  const DeviceId outside(node.devices());
  std::vector<Link> links = node.links;
  for (Link& link : links) {
    link.to = link.to == kOutside ? outside : link.to;
  }
  std::vector<DeviceId> gpus;
  for (std::uint32_t i = 0; i < node.count(DeviceKind::gpu); ++i) {
    gpus.push_back(node.device(DeviceKind::gpu, i));
  }
  return max_flow(links, node.devices() + 1, gpus, std::span(&outside, 1));
}

}  // namespace

BytesPerSecond bisection_by_max_flow(const Topology& topology) {
  std::vector<Link> links;
  links.reserve(topology.links());
  for (std::uint32_t k = 0; k < topology.links(); ++k) {
    links.push_back(topology.link(LinkId(k)));
  }
  const auto nodes = static_cast<std::uint32_t>(topology.spec().nodes);
  if (nodes == 1) {
    const NodeSpec& spec = topology.spec_of_kind(0);
    return between_halves_of_node(links, make_node_layout(spec, static_cast<std::uint32_t>(spec.gpus)));
  }
  std::vector<DeviceId> first, second;
  for (std::uint32_t d = 0; d < topology.devices(); ++d) {
    const std::optional<std::uint32_t> node = topology.node_of(DeviceId(d));
    if (node && topology.device_kind(DeviceId(d)) == DeviceKind::gpu) {
      (*node < nodes / 2 ? first : second).push_back(DeviceId(d));
    }
  }
  return max_flow(links, topology.devices(), first, second);
}

// A group of nodes (below one leaf, or one set of rail leaves) with nodes of the first half and of the second
// exchanges below its leaves what the lesser of the two can. The rest of the first half's goes up through the
// leaves' cables to the spines, in all `out` wide, and comes down likewise to the second's. Spines and cores take
// what leaves send. No flow can do better (merging the leaves of a group, and all switches above, only helps), and
// spreading evenly over NICs and spines attains it.
BytesPerSecond bisection_closed_form(const ClusterSpec& spec) {
  check_cluster(spec);
  const auto whole = [](const NodeSpec& node) {
    return make_node_layout(node, static_cast<std::uint32_t>(node.gpus));
  };
  if (spec.nodes == 1) {
    const NodeLayout node = whole(spec.runs.empty() ? spec.node : spec.runs.front().node);
    return between_halves_of_node(node.links, node);
  }
  const FabricLayout f = make_fabric_layout(spec);
  struct Nodes {
    std::uint32_t first, end;
    BytesPerSecond each;
  };
  std::vector<Nodes> runs;
  for_each_node(spec, [&](const NodeSpec& node, std::uint32_t first, std::uint32_t count) {
    runs.push_back({first, first + count, egress(whole(node))});
  });
  // Of the nodes from..to-1.
  const auto of_nodes = [&](std::uint32_t group, std::uint32_t from, std::uint32_t to) {
    BytesPerSecond sum;
    for (const Nodes& run : runs) {
      const std::uint32_t first = std::clamp(run.first, from, to), end = std::clamp(run.end, from, to);
      sum = sum + run.each * (f.nodes_in(group, end) - f.nodes_in(group, first));
    }
    return sum;
  };
  const BytesPerSecond out = f.uplink * (1.0 * f.rails * f.spines_per_pod);
  BytesPerSecond below, up, down;
  for (std::uint32_t group = 0; group < f.groups; ++group) {
    const BytesPerSecond a = of_nodes(group, 0, f.nodes / 2), b = of_nodes(group, f.nodes / 2, f.nodes);
    below = below + std::min(a, b);
    up = up + std::min(a - std::min(a, b), out);
    down = down + std::min(b - std::min(a, b), out);
  }
  return below + std::min(up, down);
}

BytesPerSecond bisection_bandwidth(const Topology& topology) {
  return topology.devices() <= kMaxFlowDevices ? bisection_by_max_flow(topology)
                                               : bisection_closed_form(topology.spec());
}

}  // namespace paceline
