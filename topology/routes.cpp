// Routes inside a node: for each GPU and CPU one run of Dijkstra's algorithm over (stage, device).
//
// A GPU forwards only where NCCL lets it: over NVLink to a GPU that is no neighbour (NVB), or from NVLink to
// a NIC that it reaches without crossing a CPU, or over its coherent link to one (PXN). What a route may do
// next thus depends on what it has done; that is its stage. The weights put the ways in NCCL's order: NVLink,
// NVSwitch or NVB, PCIe switches alone, the own CPU by the coherent link (P2C), PXN, the CPU by PCIe,
// several CPUs. Among ways of one kind fewer cables win, then the widest bottleneck, then the NIC's own GPU,
// then the lowest device id.
#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/property_map/property_map.hpp>
#include <boost/range/iterator_range.hpp>
#include <cassert>
#include <limits>
#include <optional>

#include "topology/node_layout.h"

namespace paceline {
namespace {

enum class Stage : std::uint8_t {
  source_side,  // the source itself, then PCIe switches and CPUs
  nvlinked,     // the NVSwitch, or a GPU reached by NVLink
  proxied,      // a PCIe switch above a GPU that forwards to a NIC, or its CPU over c2c
  arrived       // a NIC, or a GPU that does not forward: the end
};
constexpr std::size_t kStages = 4;

std::optional<Stage> next_stage(const NodeLayout& node, Stage stage, const Link& link) {
  if (link.to == kOutside) {
    return std::nullopt;
  }
  const DeviceKind from = node.kind_of(link.from), to = node.kind_of(link.to);
  const bool nvlink = link.kind == LinkKind::nvlink;
  const bool may_forward =
      from == DeviceKind::gpu && std::ranges::binary_search(node.gpus_in_use, link.from.value);
  switch (stage) {
    case Stage::source_side:
      if (nvlink) {
        return from == DeviceKind::gpu ? std::optional(Stage::nvlinked) : std::nullopt;
      }
      return to == DeviceKind::gpu || to == DeviceKind::nic ? Stage::arrived : Stage::source_side;
    case Stage::nvlinked:
      if (from == DeviceKind::nvswitch) {
        return Stage::nvlinked;
      }
      if (!may_forward || to == DeviceKind::nvswitch) {
        return std::nullopt;
      }
      if (nvlink) {
        return Stage::arrived;
      }
      return link.kind == LinkKind::c2c || to == DeviceKind::pcie_switch ? std::optional(Stage::proxied)
                                                                         : std::nullopt;
    case Stage::proxied:
      if (to == DeviceKind::nic) {
        return Stage::arrived;
      }
      return to == DeviceKind::pcie_switch ? std::optional(Stage::proxied) : std::nullopt;
    case Stage::arrived:
      break;
  }
  return std::nullopt;
}

struct Cost {
  int weight = 0;
  double bottleneck = std::numeric_limits<double>::infinity();  // B/s
  friend bool operator==(const Cost&, const Cost&) = default;
};
constexpr Cost kUnreached{std::numeric_limits<int>::max(), 0};

struct Cheaper {
  bool operator()(const Cost& a, const Cost& b) const {
    return a.weight < b.weight || (a.weight == b.weight && a.bottleneck > b.bottleneck);
  }
};
struct Joined {
  Cost operator()(const Cost& a, const Cost& b) const {
    return {a.weight + b.weight, std::min(a.bottleneck, b.bottleneck)};
  }
};

// Each more than all the smaller ones of a route together.
constexpr int kNvlink = 1, kPcie = 4, kCoherent = 1 << 11, kProxy = 1 << 12, kIntoCpu = 1 << 13,
              kBetweenCpus = 1 << 14;

Cost cost_of(const NodeLayout& node, Stage stage, const Link& link) {
  int weight = 0;
  switch (link.kind) {
    case LinkKind::nvlink:
      return {kNvlink, link.bandwidth.value};
    case LinkKind::socket:
      return {kBetweenCpus, link.bandwidth.value};
    case LinkKind::c2c:
      weight = kCoherent;
      break;
    case LinkKind::pcie:
    case LinkKind::network:
      weight = kPcie + (node.kind_of(link.to) == DeviceKind::cpu ? kIntoCpu : 0);
      break;
  }
  return {weight + (stage == Stage::nvlinked ? kProxy : 0), link.bandwidth.value};
}

struct Step {
  Cost cost;
  std::uint32_t link = 0;
};
using StageGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, boost::no_property, Step>;

std::size_t vertex_of(const NodeLayout& node, Stage stage, DeviceId device) {
  return static_cast<std::size_t>(stage) * node.devices() + device.index();
}

StageGraph make_stage_graph(const NodeLayout& node) {
  StageGraph graph(kStages * node.devices());
  for (std::size_t s = 0; s < kStages; ++s) {
    const auto stage = static_cast<Stage>(s);
    for (std::uint32_t k = 0; k < node.links.size(); ++k) {
      const Link& link = node.links[k];
      if (const std::optional<Stage> next = next_stage(node, stage, link)) {
        boost::add_edge(vertex_of(node, stage, link.from), vertex_of(node, *next, link.to),
                        Step{cost_of(node, stage, link), k}, graph);
      }
    }
  }
  return graph;
}

std::vector<Cost> costs_from(const StageGraph& graph, std::size_t source) {
  std::vector<Cost> costs(boost::num_vertices(graph), kUnreached);
  boost::dijkstra_shortest_paths(graph, source,
                                 boost::weight_map(boost::get(&Step::cost, graph))
                                     .distance_map(boost::make_iterator_property_map(
                                         costs.begin(), boost::get(boost::vertex_index, graph)))
                                     .distance_compare(Cheaper())
                                     .distance_combine(Joined())
                                     .distance_inf(kUnreached)
                                     .distance_zero(Cost{}));
  return costs;
}

// The cheapest route back from `target`, links in order; none where there is no way. `preferred` wins a tie.
std::vector<std::uint32_t> trace(const NodeLayout& node, const StageGraph& graph,
                                 const std::vector<Cost>& costs, std::size_t source, DeviceId target,
                                 DeviceId preferred) {
  const bool at_cpu = node.kind_of(target) == DeviceKind::cpu;
  const std::size_t by_nvlink = vertex_of(node, Stage::nvlinked, target);
  std::size_t at = vertex_of(node, at_cpu ? Stage::source_side : Stage::arrived, target);
  at = at_cpu || Cheaper()(costs[at], costs[by_nvlink]) ? at : by_nvlink;
  std::vector<std::uint32_t> links;
  if (costs[at] == kUnreached) {
    return links;
  }
  while (at != source) {
    std::optional<std::size_t> best;
    std::uint32_t best_link = 0;
    const auto order = [&](std::size_t v) {
      const std::size_t device = v % node.devices();
      return std::pair(device != preferred.index(), device);
    };
    for (const auto& edge : boost::make_iterator_range(boost::in_edges(at, graph))) {
      const std::size_t from = boost::source(edge, graph);
      const bool optimal = costs[from] != kUnreached && Joined()(costs[from], graph[edge].cost) == costs[at];
      if (optimal && (!best || order(from) < order(*best))) {
        best = from;
        best_link = graph[edge].link;
      }
    }
    assert(best);
    links.push_back(best_link);
    at = *best;
  }
  std::ranges::reverse(links);
  return links;
}

std::uint32_t reverse_of(const NodeLayout& node, std::uint32_t link) {
  const Link& forth = node.links[link];
  const auto first = std::ranges::lower_bound(node.links, forth.to, {}, &Link::from);
  const auto back = std::ranges::find(first, node.links.end(), forth.from, &Link::to);
  assert(back != node.links.end() && back->from == forth.to);
  return static_cast<std::uint32_t>(back - node.links.begin());
}

using RouteLinks = std::vector<std::uint32_t>;

RouteLinks turned(const RouteLinks& route, const std::vector<std::uint32_t>& reverse) {
  RouteLinks back;
  std::ranges::transform(route.rbegin(), route.rend(), std::back_inserter(back),
                         [&](std::uint32_t link) { return reverse[link]; });
  return back;
}

// The endpoint of the CPU to which the GPU has the fewest cables.
std::optional<std::uint32_t> nearest_cpu(const NodeLayout& node, const std::vector<RouteLinks>& routes,
                                         std::uint32_t gpu) {
  const auto to = [&](std::uint32_t cpu) -> const RouteLinks& {
    return routes[gpu * node.endpoints() + cpu];
  };
  std::optional<std::uint32_t> nearest;
  for (std::uint32_t c = 0; c < node.count(DeviceKind::cpu); ++c) {
    const std::uint32_t cpu = node.endpoint_of_cpu(c);
    if (!to(cpu).empty() && (!nearest || to(cpu).size() < to(*nearest).size())) {
      nearest = cpu;
    }
  }
  return nearest;
}

RouteLinks by_way_of(const NodeLayout& node, const std::vector<RouteLinks>& routes, std::uint32_t from,
                     std::uint32_t cpu, std::uint32_t to) {
  RouteLinks route = routes[from * node.endpoints() + cpu];
  const RouteLinks& onward = routes[cpu * node.endpoints() + to];
  route.insert(route.end(), onward.begin(), onward.end());
  return route;
}

// GPUs below one CPU that are no peers: into the memory of the CPU that is nearest to the receiver. Requires: no NVLink.
void part_near_gpus(const NodeSpec& spec, const NodeLayout& node, std::vector<RouteLinks>& routes) {
  const PathType farthest = farthest_peers(spec, node.gpus_in_use.size());
  for (std::uint32_t to = 0; to < node.count(DeviceKind::gpu); ++to) {
    const std::optional<std::uint32_t> cpu = nearest_cpu(node, routes, to);
    for (std::uint32_t from = 0; cpu && from < node.count(DeviceKind::gpu); ++from) {
      RouteLinks& route = routes[from * node.endpoints() + to];
      const bool past_cpu = std::ranges::any_of(
          route, [&](std::uint32_t link) { return node.kind_of(node.links[link].to) == DeviceKind::cpu; });
      const PathType path = route.size() > 2 ? PathType::pxb : PathType::pix;
      if (from != to && !past_cpu && path > farthest) {
        route = by_way_of(node, routes, from, *cpu, to);
      }
    }
  }
}

// Without GPUDirect: from a GPU into the memory of the CPU that is nearest to it, and from there to the NIC.
void pass_through_cpus(const NodeLayout& node, const std::vector<std::uint32_t>& reverse,
                       std::vector<RouteLinks>& routes) {
  const std::size_t endpoints = node.endpoints();
  for (std::uint32_t g = 0; g < node.count(DeviceKind::gpu); ++g) {
    const std::optional<std::uint32_t> cpu = nearest_cpu(node, routes, g);
    for (std::uint32_t n = 0; cpu && n < node.count(DeviceKind::nic); ++n) {
      const std::uint32_t nic = node.endpoint_of_nic(n);
      RouteLinks forth = by_way_of(node, routes, g, *cpu, nic);
      routes[nic * endpoints + g] = turned(forth, reverse);
      routes[g * endpoints + nic] = std::move(forth);
    }
  }
}

}  // namespace

void find_node_routes(const NodeSpec& spec, NodeLayout& node) {
  const std::uint32_t gpus = node.count(DeviceKind::gpu), nics = node.count(DeviceKind::nic);
  std::vector<std::uint32_t> reverse(node.links.size());
  for (std::uint32_t k = 0; k < node.links.size(); ++k) {
    reverse[k] = node.links[k].to == kOutside ? k : reverse_of(node, k);
  }
  const StageGraph graph = make_stage_graph(node);
  const std::size_t endpoints = node.endpoints();
  std::vector<RouteLinks> routes(endpoints * endpoints);
  for (std::uint32_t g = 0; g < gpus; ++g) {
    const DeviceId from = node.device(DeviceKind::gpu, g);
    const std::size_t source = vertex_of(node, Stage::source_side, from);
    const std::vector<Cost> costs = costs_from(graph, source);
    for (std::uint32_t h = 0; h < gpus; ++h) {
      if (h != g) {
        const DeviceId to = node.device(DeviceKind::gpu, h);
        routes[g * endpoints + h] = trace(node, graph, costs, source, to, kOutside);
      }
    }
    for (std::uint32_t n = 0; n < nics; ++n) {
      const DeviceId own = node.device(DeviceKind::gpu, node.first_gpu[n]);
      auto& forth = routes[g * endpoints + gpus + n];
      forth = trace(node, graph, costs, source, node.device(DeviceKind::nic, n), own);
      // The same way: every cable is as wide in both directions.
      routes[(gpus + n) * endpoints + g] = turned(forth, reverse);
    }
  }
  for (std::uint32_t c = 0; c < node.count(DeviceKind::cpu); ++c) {
    const std::uint32_t from = node.endpoint_of_cpu(c);
    const std::size_t source = vertex_of(node, Stage::source_side, node.device(DeviceKind::cpu, c));
    const std::vector<Cost> costs = costs_from(graph, source);
    for (std::uint32_t e = 0; e < endpoints; ++e) {
      if (e != from) {
        RouteLinks& forth = routes[from * endpoints + e];
        forth = trace(node, graph, costs, source, node.endpoint(e), kOutside);
        routes[e * endpoints + from] = turned(forth, reverse);
      }
    }
  }
  if (farthest_peers(spec, node.gpus_in_use.size()) < PathType::pxb) {
    part_near_gpus(spec, node, routes);
  }
  if (!spec.gpu_direct) {
    pass_through_cpus(node, reverse, routes);
  }
  node.route_begin.push_back(0);
  for (const auto& route : routes) {
    node.route_links.insert(node.route_links.end(), route.begin(), route.end());
    node.route_begin.push_back(static_cast<std::uint32_t>(node.route_links.size()));
  }
}

}  // namespace paceline
