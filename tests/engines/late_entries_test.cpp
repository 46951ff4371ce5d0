// Where few ranks decide when a collective ends: is that what all steps give, to the picosecond, and how often is it?
#include "sim/collective/late_entries.h"

#include <catch2/catch.hpp>

#include "random_job.h"
#include "sim/collective/collective_times.h"
#include "sim/collective/equal_thread_blocks.h"
#include "tests/dice.h"
#include "tests/engines/test_planner.h"

namespace paceline {
namespace {

// Most within a microsecond, some much later; or in a few groups that enter together.
std::vector<SimTime> random_entries(Dice& dice, std::size_t ranks) {
  std::vector<SimTime> entries;
  const bool groups = dice.maybe(0.3);
  const auto latest = dice.between(1, 2'000'000'000);
  for (std::size_t r = 0; r < ranks; ++r) {
    entries.push_back(SimTime{groups ? 1'000'000 * dice.between(0, 3) : dice.between(0, 1'000'000)});
  }
  for (std::int64_t late = dice.between(0, 3); late > 0; --late) {
    entries[static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(ranks) - 1))] =
        SimTime{dice.between(0, latest)};
  }
  return entries;
}

SimTime latest_of(const CollectiveGraph& graph, std::span<const SimTime> time, std::uint32_t rank) {
  SimTime latest;
  for (std::size_t w = 0; w < time.size(); ++w) {
    latest = graph.thread_blocks[w].rank == rank ? std::max(latest, time[w]) : latest;
  }
  return latest;
}

TEST_CASE("ends that the latest entries decide are those of all steps, and switches' bounds hold") {
  int known = 0, all = 0, bounds = 0;
  for (std::uint64_t seed = 1; seed <= rounds(1200); ++seed) {
    Dice dice(seed);
    const auto ranks = static_cast<std::size_t>(dice.between(2, 200));
    CollectivePlanner planner = random_planner(dice, ranks);
    const CollectivePlan plan =
        planner.plan(dice.maybe(0.7) ? CollectiveKind::all_reduce : CollectiveKind::broadcast,
                     Bytes(dice.between(1, 4'000'000)));
    const CollectiveGraph graph = find_equal_channels(planner.communicator().graphs[plan.graph]).graph;
    if (plan.slots == 0) {
      continue;  // RingSchedule's, as a rule
    }
    const EqualBegins equal(graph);
    LateEntries late(equal);
    Passes passes(graph);
    const StepTimes steps(graph, plan);
    for (int i = 0; i < 5; ++i) {
      const std::vector<SimTime> entries = random_entries(dice, graph.ranks);
      std::vector<SimTime> wanted;
      for (const ThreadBlock& block : graph.thread_blocks) {
        wanted.push_back(block.rank == ThreadBlock::kSwitch ? SimTime{} : entries[block.rank]);
      }
      std::vector<SimTime> time = wanted;
      const std::vector<SimTime> begin = wanted;
      passes.run(plan, steps, wanted);
      INFO("seed " << seed << ", collective " << i);
      ++all;
      if (!late.run(plan, time)) {
        CHECK(time == begin);
        continue;
      }
      ++known;
      SimTime first = kNever;
      for (std::uint32_t r = 0; r < graph.ranks; ++r) {
        const SimTime end = latest_of(graph, wanted, r);
        CHECK(latest_of(graph, time, r) == end);
        first = std::min(first, end);
      }
      for (std::size_t w = 0; w < time.size(); ++w) {
        if (graph.thread_blocks[w].rank == ThreadBlock::kSwitch && time[w] != wanted[w]) {
          ++bounds;
          CHECK(wanted[w] < time[w]);
          REQUIRE(late.unknown_until());
          CHECK(time[w] <= *late.unknown_until());
          CHECK(*late.unknown_until() <= first);
        }
      }
    }
  }
  INFO(known << " of " << all << " were known, with " << bounds << " bounds of switches");
  CHECK(known > all / 20);
  CHECK(known < all);
}

// 48 nodes of 8 GPUs with NVSwitches that reduce, where a rank alone is late: collectives that follow each other, or
// begin while switches may still be in the one before.
TEST_CASE("collectives that follow those whose switches nobody asked about are what steps give") {
  ClusterSpec cluster;
  cluster.node = node_preset("dgx-h100");
  cluster.nodes = 48;
  const Topology topology = build_topology(cluster);
  CollectiveSpec spec;
  spec.algorithm = "nvlstree";
  CollectivePlanner planner = nccl_planner(topology, spec, {});
  const std::vector<CollectivePlan> plans{planner.plan(CollectiveKind::all_reduce, Bytes(48'000'000)),
                                          planner.plan(CollectiveKind::all_reduce, Bytes(3'000'000))};
  const CollectiveGraph& whole = planner.communicator().graphs[plans[0].graph];
  REQUIRE(plans[0].graph == plans[1].graph);
  const EqualThreadBlocks merged = find_equal_channels(whole);
  Passes passes(merged.graph);
  const std::size_t ranks = whole.ranks;
  for (std::uint64_t seed = 1; seed <= rounds(12); ++seed) {
    Dice dice(seed);
    CollectiveTimes times(planner.communicator(), plans);
    std::vector<SimTime> state(merged.graph.thread_blocks.size()), launch(ranks), end(ranks), wanted(ranks);
    std::vector<std::vector<SimTime>> patterns;
    for (int i = 0; i < 2; ++i) {
      patterns.push_back(std::vector<SimTime>(ranks));
      for (SimTime& t : patterns.back()) {
        t = SimTime{dice.between(0, 3'000'000)};
      }
      patterns.back()[static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(ranks) - 1))] =
          SimTime{dice.between(1'000'000'000, 9'000'000'000)};
    }
    SimTime now;
    for (int i = 0; i < 8; ++i) {
      const auto number = static_cast<std::uint32_t>(dice.between(0, 1));
      const std::vector<SimTime>& pattern = patterns[static_cast<std::size_t>(dice.between(0, 1))];
      for (std::size_t r = 0; r < ranks; ++r) {
        launch[r] = now + pattern[r];
      }
      times.end(number, launch, now, end);
      for (std::size_t w = 0; w < state.size(); ++w) {
        const std::uint32_t rank = merged.graph.thread_blocks[w].rank;
        state[w] = rank == ThreadBlock::kSwitch ? state[w] : launch[rank] + plans[number].startup;
      }
      passes.run(plans[number], StepTimes(merged.graph, plans[number]), state);
      for (std::uint32_t r = 0; r < ranks; ++r) {
        wanted[r] = std::max(latest_of(merged.graph, state, r), launch[r] + plans[number].startup);
      }
      INFO("seed " << seed << ", collective " << i);
      CHECK(end == wanted);
      // After all have left; or while leaves of the tree have just begun to send.
      now = dice.maybe(0.5) ? std::ranges::max(end) : now + SimTime{dice.between(0, 60'000'000)};
    }
  }
}

}  // namespace
}  // namespace paceline
