// Does a channel that stands for others leave every FIFO the price, and every thread block the class, that it has when
// each is looked at?
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <tuple>

#include "sim/collective/communicator.h"
#include "sim/collective/pricing.h"
#include "topology/topology.h"

namespace paceline {
namespace {

// The same graph, in which no two channels are alike: each has scripts of its own, with the same steps.
CollectiveGraph told_apart(CollectiveGraph graph) {
  const std::vector<Script> scripts = graph.scripts;
  for (std::uint32_t c = 1; c < graph.channels; ++c) {
    graph.scripts.insert(graph.scripts.end(), scripts.begin(), scripts.end());
  }
  for (ThreadBlock& block : graph.thread_blocks) {
    block.script += block.channel * static_cast<std::uint32_t>(scripts.size());
  }
  graph.hops.clear();
  for (Fifo& fifo : graph.fifos) {
    fifo.hop = 0;
  }
  return graph;
}

TEST_CASE("channels that are alike have the prices of channels that are told apart") {
  const auto [node, algorithm, nodes] =
      GENERATE(table<std::string, std::string, int>({{"dgx-a100", "ring", 3},
                                                     {"dgx-a100", "tree", 6},
                                                     {"dgx-h100", "ring", 2},
                                                     {"dgx-h100", "tree", 5},
                                                     {"dgx-h100", "nvlstree", 7},
                                                     {"dgx1-v100", "ring", 4},
                                                     {"dgx1-v100", "tree", 4}}));
  ClusterSpec cluster;
  cluster.node = node_preset(node);
  cluster.nodes = nodes;
  const Topology topology = build_topology(cluster);
  CollectiveSpec spec;
  spec.algorithm = algorithm;
  CollectivePlanner planner = nccl_planner(topology, spec, {});
  const CollectivePlan plan = planner.plan(CollectiveKind::all_reduce, Bytes(100'000'000));
  const CollectiveGraph& graph = planner.communicator().graphs[plan.graph];
  REQUIRE(graph.channels > 1);
  CollectiveGraph apart = told_apart(graph);
  RouteList routes;
  for (const Fifo& fifo : apart.fifos) {
    routes.push_back(fifo.wire == Wire::inside ? Route{} : route_of(apart, fifo, topology, topology.kinds()));
  }
  price_graph(apart, routes, topology, SharedLinks(topology, {}));
  INFO(algorithm << " on " << nodes << " nodes of " << node);
  bool same = true;
  for (std::size_t f = 0; f < graph.fifos.size(); ++f) {
    const Hop &with = graph.hops[graph.fifos[f].hop], &without = apart.hops[apart.fifos[f].hop];
    same = same && with.rate == without.rate && with.latency == without.latency &&
           with.kind == without.kind && with.alone == without.alone &&
           with.of_one_proxy == without.of_one_proxy && with.links.size() == without.links.size();
  }
  CHECK(same);
  CHECK(graph.hops.size() <= apart.hops.size());
}

// The classes of all that begin together, of every thread block at once: those of one class have one script, and ports
// that lead over equal hops to equal ports of one class; which steps use a port tells it from others.
std::vector<std::uint32_t> refined(const CollectiveGraph& graph) {
  using Uses = std::set<std::size_t>;  // steps of its script
  struct Port {
    std::uint32_t thread_block;
    Uses uses;
  };
  std::vector<Port> sender(graph.fifos.size()), receiver(graph.fifos.size());
  for (std::uint32_t w = 0; w < graph.thread_blocks.size(); ++w) {
    const ThreadBlock& block = graph.thread_blocks[w];
    const std::vector<Step>& steps = graph.scripts[block.script].steps;
    const auto add = [&](Ports Step::* ports, const std::vector<std::uint32_t>& fifos, std::uint32_t first,
                         std::vector<Port>& ends) {
      for (std::size_t s = 0; s < steps.size(); ++s) {
        for (std::uint32_t p = 0; p < (steps[s].*ports).count; ++p) {
          Port& end = ends[fifos[first + (steps[s].*ports).first + p]];
          end.thread_block = w;
          end.uses.insert(s);
        }
      }
    };
    add(&Step::send, graph.out, block.first_out, sender);
    add(&Step::receive, graph.in, block.first_in, receiver);
  }
  std::vector<std::uint32_t> class_of;
  for (const ThreadBlock& block : graph.thread_blocks) {
    class_of.push_back(block.script);
  }
  for (std::size_t before = 0;;) {
    using Seen = std::tuple<bool, Uses, std::uint32_t, Uses, std::uint32_t>;
    std::vector<std::multiset<Seen>> seen(class_of.size());
    for (std::uint32_t f = 0; f < graph.fifos.size(); ++f) {
      const Port &from = sender[f], &to = receiver[f];
      seen[from.thread_block].emplace(true, from.uses, graph.fifos[f].hop, to.uses,
                                      class_of[to.thread_block]);
      seen[to.thread_block].emplace(false, to.uses, graph.fifos[f].hop, from.uses,
                                    class_of[from.thread_block]);
    }
    std::map<std::pair<std::uint32_t, std::multiset<Seen>>, std::uint32_t> known;
    std::vector<std::uint32_t> next;
    for (std::size_t w = 0; w < class_of.size(); ++w) {
      const auto number = static_cast<std::uint32_t>(known.size());
      next.push_back(known.try_emplace({class_of[w], std::move(seen[w])}, number).first->second);
    }
    class_of = std::move(next);
    if (known.size() == before) {
      return class_of;
    }
    before = known.size();
  }
}

TEST_CASE("of channels that are the same one has the classes of all") {
  ClusterSpec cluster;
  cluster.node = node_preset(GENERATE("dgx-a100", "dgx-h100", "dgx1-v100"));
  cluster.nodes = GENERATE(2, 5);
  if (GENERATE(false, true)) {
    cluster.degraded.push_back({"node1/nic0", "leaf0", 0.5, {}});
  }
  const Topology topology = build_topology(cluster);
  const RankLayout layout{static_cast<std::uint32_t>(cluster.nodes), 8};
  for (const std::string algorithm : {"ring", "tree", "nvlstree"}) {
    if (algorithm == "nvlstree" && cluster.node.compute_capability < 90) {
      continue;
    }
    CollectiveSpec spec;
    spec.algorithm = algorithm;
    CollectivePlanner planner = nccl_planner(topology, spec, {});
    for (const GroupShape& groups : {kAllRanks, same_gpu_of_every_node(layout)}) {
      if (groups == same_gpu_of_every_node(layout) && algorithm == "nvlstree") {
        continue;
      }
      const CollectivePlan plan = planner.plan({CollectiveKind::all_reduce, Bytes(100'000'000), groups});
      const CollectiveGraph& graph = planner.communicator().graphs[plan.graph];
      CAPTURE(cluster.node.gpu, cluster.nodes, cluster.degraded.size(), algorithm, groups.stride);
      const bool same = find_equal_thread_blocks(graph, Begin::together).class_of == refined(graph);
      CHECK(same);
    }
  }
}

}  // namespace
}  // namespace paceline
