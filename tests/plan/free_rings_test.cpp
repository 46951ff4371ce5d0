// Rings with endless FIFOs: does the closed form equal the steps to the picosecond, for every collective, protocol,
// number of loops and family of groups? Chunks move whole.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sim/collective/collective_times.h"
#include "sim/collective/nccl.h"
#include "tests/dice.h"

namespace paceline {
namespace {

struct Rings {
  Communicator communicator;
  std::vector<CollectivePlan> plans;  // the closed form's, and the same step by step
  bool in_groups = false;
};

// FIFOs that hold so much never fill: 40 MB in chunks of LL.
Rings random_rings(Dice& dice) {
  ClusterSpec cluster;
  cluster.node = node_preset("dgx-h100");
  cluster.node.gpus = cluster.node.nics = static_cast<int>(dice.one_of(std::vector{1, 2, 4, 8}));
  cluster.node.pcie_switches = cluster.node.sockets = 1;
  cluster.nodes = static_cast<int>(dice.between(cluster.node.gpus == 1 ? 2 : 1, 4));
  CollectiveSpec spec;
  spec.algorithm = "ring";
  spec.protocol = dice.one_of(std::vector<std::string>{"LL", "LL128", "Simple"});
  spec.max_channels = static_cast<int>(dice.between(1, 4));
  spec.limited_fifos = false;
  const Topology topology = build_topology(cluster);
  CollectivePlanner planner = nccl_planner(topology, spec, {});
  std::vector<GroupShape> shapes{kAllRanks};
  if (cluster.nodes > 1 && cluster.node.gpus > 1) {
    shapes.push_back(gpus_of_each_node(planner.layout()));
    shapes.push_back(same_gpu_of_every_node(planner.layout()));
    shapes.push_back(consecutive_ranks(2));
  }
  const CollectiveKind kind = dice.one_of(
      std::vector{CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter});
  const GroupShape shape = dice.one_of(shapes);
  CollectivePlan plan = planner.plan({kind, Bytes(dice.between(1, 40'000'000)), shape});
  for (Loops& loops : plan.loops) {
    loops.slice = {};
  }
  REQUIRE(is_free_ring(plan));
  if (dice.maybe(0.5)) {
    for (HopCost& hop : plan.hops) {
      hop = {BytesPerSecond(dice.real(1e9, 5e10)), SimTime{dice.between(0, 20'000'000)},
             SimTime{dice.between(0, 1) * dice.between(0, 1'000'000)}};
    }
    plan.loops = {{dice.between(0, 3), Bytes(dice.between(1, 1'000'000)), {}},
                  {dice.between(1, 2), Bytes(dice.between(1, 10'000)), {}}};
  }
  CollectivePlan stepped = plan;
  stepped.slots = 16'384;
  return {planner.communicator(), {plan, stepped}, shape != kAllRanks};
}

TEST_CASE("closed rings equal their steps, whatever the collective, its sizes and groups") {
  std::size_t families = 0, loops = 0;
  for (std::uint64_t seed = 1; seed <= rounds(150); ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const Rings rings = random_rings(dice);
    families += rings.in_groups ? 1 : 0;
    loops += rings.plans[0].loops.size() > 1 || rings.plans[0].loops[0].count > 1 ? 1 : 0;
    CollectiveTimes times(rings.communicator, rings.plans, false, 0);
    const std::size_t ranks = rings.communicator.ranks;
    std::vector<SimTime> begin(ranks), closed(ranks), stepped(ranks);
    for (int i = 0; i < 5; ++i) {
      const SimTime origin{dice.between(0, 1'000'000'000'000)};
      const std::int64_t apart = dice.one_of(std::vector<std::int64_t>{0, 1000, 1'000'000, 1'000'000'000});
      for (SimTime& t : begin) {
        t = origin + SimTime{dice.between(-apart, apart)};
      }
      times.end(0, begin, origin, closed);
      times.end(1, begin, origin, stepped);
      CHECK(closed == stepped);
    }
  }
  CHECK(loops > rounds(150) / 3);
  CHECK(families > rounds(150) / 10);
}

}  // namespace
}  // namespace paceline
