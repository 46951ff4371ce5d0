// Does a channel that stands for others leave every FIFO the price that it has when each is looked at?
#include <catch2/catch.hpp>

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
  std::vector<Route> routes;
  for (const Fifo& fifo : apart.fifos) {
    routes.push_back(fifo.wire == Wire::inside ? Route{} : route_of(apart, fifo, topology, topology.kinds()));
  }
  price_graph(apart, std::move(routes), topology, SharedLinks(topology, {}));
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

}  // namespace
}  // namespace paceline
