// Does Passes find what Wavefront finds, to the picosecond, whatever the graph, the sizes and the beginnings?
#include "sim/collective/passes.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <span>
#include <stdexcept>

#include "sim/collective/channels.h"
#include "sim/collective/equal_thread_blocks.h"
#include "sim/collective/host_collectives.h"
#include "tests/dice.h"
#include "tests/random_graphs.h"
#include "tests/wavefront.h"
#include "ways.h"

namespace paceline {
namespace {

using Times = std::vector<SimTime>;

SimTime draw_time(Dice& dice, std::size_t below) {
  return SimTime{static_cast<std::int64_t>(dice.below(below))};
}

// Hops as pricing might give them: by what a FIFO is in its channel, so that channels are alike, or by
// chance.
void draw_hops(Dice& dice, CollectiveGraph& graph) {
  graph.hops.resize(1 + dice.below(4));
  const bool alike = dice.below(3) > 0;
  const std::size_t in_channel = std::max<std::size_t>(1, graph.fifos.size() / graph.channels);
  for (std::size_t f = 0; f < graph.fifos.size(); ++f) {
    const std::size_t hop = alike ? f % in_channel * 7 / 3 : random();
    graph.fifos[f].hop = static_cast<std::uint32_t>(hop % graph.hops.size());
  }
}

CollectivePlan draw_plan(Dice& dice, const CollectiveGraph& graph, std::int64_t most) {
  CollectivePlan plan;
  plan.slots = dice.below(4) == 0 ? 0 : static_cast<std::uint32_t>(1 + dice.below(20));
  const std::size_t phases = 1 + dice.below(3);
  for (std::size_t i = 0; i < phases; ++i) {  // a phase may have no loop
    const auto chunk = static_cast<std::int64_t>(1 + random() % 100'000);
    const std::int64_t part = chunk / (1 + dice.below(3)) + dice.below(2) * (chunk / 7);
    const std::int64_t slice =
        dice.below(4) == 0 ? 0 : std::min(part, chunk);  // 0: whole; chunk: and an empty one
    plan.loops.push_back({static_cast<std::int64_t>(random() % most), Bytes(chunk), Bytes(slice)});
  }
  for (std::size_t h = 0; h < graph.hops.size(); ++h) {
    plan.hops.push_back({BytesPerSecond(1e9 * static_cast<double>(1 + dice.below(100))),
                         draw_time(dice, 3'000'000), draw_time(dice, 500'000)});
    plan.hops.back().overhead = draw_time(dice, 300'000) * dice.below(2);
    plan.hops.back().eager = Bytes(static_cast<std::int64_t>(random() % 100'000));
    plan.hops.back().hidden = plan.slots > 0 ? plan.hops.back().latency * dice.below(2) : SimTime{};
  }
  plan.copy_rate = BytesPerSecond(1e11);
  plan.copy_shown = static_cast<double>(dice.below(5)) / 4;
  return plan;
}

Times draw_begin(Dice& dice, const CollectiveGraph& graph) {
  const std::size_t spread = std::size_t{1} << dice.below(40);
  Times begin;
  for (std::size_t w = 0; w < graph.thread_blocks.size(); ++w) {
    begin.push_back(draw_time(dice, spread));
  }
  return begin;
}

// Empty: FIFOs too short for the plan.
template <class Engine>
Times end_of(Engine& engine, const CollectiveGraph& graph, const CollectivePlan& plan, Times time) {
  try {
    engine.run(plan, StepTimes(graph, plan), time);
  } catch (const std::logic_error&) {
    return {};
  }
  return time;
}

struct Seen {
  int ended = 0, stuck = 0, lanes = 0, repeated = 0;
};

std::int64_t few_loops(const CollectiveGraph& graph) { return graph.thread_blocks.size() > 1000 ? 4 : 20; }

void compare(Dice& dice, CollectiveGraph graph, const std::string& way, Seen& seen, std::int64_t most_loops) {
  draw_hops(dice, graph);
  Passes passes(graph);  // used again for the next plan
  Wavefront wavefront(graph);
  for (int i = 0; i < 3; ++i) {
    const CollectivePlan plan = draw_plan(dice, graph, most_loops);
    const Times begin = draw_begin(dice, graph);
    const Times expected = end_of(wavefront, graph, plan, begin);
    const std::uint64_t left_out = passes.left_out();
    const bool same = end_of(passes, graph, plan, begin) == expected;
    INFO(way << ", slots " << plan.slots);
    REQUIRE(same);
    if (!expected.empty()) {
      Times again = begin, other = draw_begin(dice, graph);
      const Times expected_other = end_of(wavefront, graph, plan, other);
      const std::array<std::span<SimTime>, 2> both{again, other};
      passes.run(plan, StepTimes(graph, plan), both);
      REQUIRE((again == expected && other == expected_other));
    }
    seen.repeated += passes.left_out() > left_out ? 1 : 0;
    ++(expected.empty() ? seen.stuck : seen.ended);
  }
  const std::vector<Channel> channels = channels_of(graph);
  seen.lanes += channels.size() > 1 && same_channel(graph, channels[0], channels[1], Ranks::any) ? 1 : 0;
}

TEST_CASE("the last slice of a chunk may be shorter than the others") {
  // One rank sends 40 us of data to another in slices of 32 and 8 us, which arrive 5 us later. That one
  // copies twice as fast: from 37 to 53 us, and from there to 57.
  Dice dice(5);
  CollectiveGraph graph =
      make_graph(Algorithm::ring, CollectiveKind::broadcast, {1, 2}, random_graphs(dice, 2), 1);
  graph.hops.resize(1);
  CollectivePlan plan;
  plan.loops = {{1, Bytes(40'000), Bytes(32'000)}};
  plan.slots = 4;
  plan.hops = {{BytesPerSecond(1e9), SimTime{5'000'000}, {}}};
  plan.copy_rate = BytesPerSecond(2e9);
  Passes passes(graph);
  Wavefront wavefront(graph);
  Times begin(2), wanted(2);
  for (std::size_t w = 0; w < 2; ++w) {
    wanted[w] = SimTime{graph.thread_blocks[w].rank == 0 ? 40'000'000 : 57'000'000};
  }
  CHECK(end_of(passes, graph, plan, begin) == wanted);
  CHECK(end_of(wavefront, graph, plan, begin) == wanted);
  const StepTimes times(graph, plan);
  for (const ThreadBlock& thread_block : graph.thread_blocks) {
    CHECK(times.occupancy(graph, thread_block) == SimTime{thread_block.rank == 0 ? 40'000'000 : 20'000'000});
  }
}

TEST_CASE("an empty second slice takes a message's time, and a slot") {
  // 10 us of data in one slice and an empty one, each of which takes the proxy 15 us beside its bytes and arrives 5 us
  // later: sent until 25 and 40 us. The receiver copies the first from 30 to 40 us, and the second is there at 45.
  Dice dice(5);
  CollectiveGraph graph =
      make_graph(Algorithm::ring, CollectiveKind::broadcast, {1, 2}, random_graphs(dice, 2), 1);
  graph.hops.resize(1);
  CollectivePlan plan;
  plan.loops = {{1, Bytes(10'000), Bytes(10'000)}};
  plan.hops = {{.rate = BytesPerSecond(1e9), .latency = SimTime{5'000'000}, .least = {}}};
  plan.copy_rate = BytesPerSecond(1e9);
  Passes passes(graph);
  Wavefront wavefront(graph);
  const auto ends = [&](std::int64_t slice, std::uint32_t slots, HopCost cost) {
    plan.loops.front().slice = Bytes(slice);
    plan.slots = slots;
    plan.hops.front().overhead = cost.overhead;
    plan.hops.front().least = cost.least;
    const Times begin(2), end = end_of(passes, graph, plan, begin);
    CHECK(end_of(wavefront, graph, plan, begin) == end);
    const std::size_t root = graph.thread_blocks[0].rank == 0 ? 0 : 1;
    return std::pair(end[root].ps / 1'000'000, end[1 - root].ps / 1'000'000);
  };
  const HopCost serial{.rate = {}, .latency = {}, .least = {}, .overhead = SimTime{15'000'000}};
  CHECK(ends(10'000, 4, serial) == std::pair<std::int64_t, std::int64_t>(40, 45));
  CHECK(ends(0, 4, serial) == std::pair<std::int64_t, std::int64_t>(25, 40));
  // One slot: the empty slice begins when the first is copied, at 40 us.
  CHECK(ends(10'000, 1, serial) == std::pair<std::int64_t, std::int64_t>(55, 60));
  const HopCost least{.rate = {}, .latency = {}, .least = SimTime{15'000'000}};
  CHECK(ends(10'000, 4, least) == std::pair<std::int64_t, std::int64_t>(30, 35));
}

TEST_CASE("passes equal the wavefront for every algorithm, collective, size and beginning") {
  Dice dice(21);
  Seen seen;
  for (const std::uint32_t n : {2U, 3U, 4U, 6U, 8U, 12U, 16U, 24U, 33U}) {
    if (n > (kSanitized ? 4 : thorough() ? 33 : 12)) {
      break;
    }
    for (const RankLayout& layout : layouts(n)) {
      for_each_way(layout, [&](Algorithm algorithm, CollectiveKind kind) {
        for (int i = 0; i < 2; ++i) {
          const ChannelGraphs found = random_graphs(dice, layout.gpus_per_node);
          const auto channels = static_cast<std::uint32_t>(1 + dice.below(10));
          const CollectiveGraph graph = make_graph(algorithm, kind, layout, found, channels);
          compare(dice, graph, name(algorithm, kind, layout), seen, few_loops(graph));
        }
      });
    }
  }
  CHECK(seen.ended > static_cast<int>(rounds(1000)));
  CHECK(seen.stuck > 0);
  CHECK(seen.lanes > static_cast<int>(rounds(100)));
}

TEST_CASE("passes that are left out as they repeat change nothing") {
  Dice dice(24);
  Seen seen;
  for (const std::uint32_t n : {2U, 3U, 4U, 8U}) {
    if (kSanitized && n > 4) {
      break;
    }
    for (const RankLayout& layout : layouts(n)) {
      for_each_way(layout, [&](Algorithm algorithm, CollectiveKind kind) {
        const ChannelGraphs found = random_graphs(dice, layout.gpus_per_node);
        const auto channels = static_cast<std::uint32_t>(1 + dice.below(5));
        compare(dice, make_graph(algorithm, kind, layout, found, channels), name(algorithm, kind, layout),
                seen, kSanitized ? 100 : 400);
      });
    }
  }
  INFO(seen.repeated << " of " << seen.ended << " repeated passes");
  CHECK(seen.repeated > seen.ended / 3);
  CHECK(seen.repeated < seen.ended);
}

TEST_CASE("passes equal the wavefront for MPI's rings and recursive doubling") {
  Dice dice(22);
  Seen seen;
  const std::vector<int> one_nic{0};
  for (std::uint32_t n = 2; n <= (kSanitized ? 12 : 33); ++n) {
    const RankLayout layout{n, 1};
    for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                      CollectiveKind::reduce_scatter, CollectiveKind::broadcast}) {
      compare(dice, mpi_ring_graph(kind, layout, one_nic).graph, "MPI ring " + std::to_string(n), seen, 20);
    }
    compare(dice, recursive_doubling_graph(layout, one_nic).graph, "recursive doubling", seen, 20);
  }
  CHECK(seen.ended > (kSanitized ? 30 : 100));
}

// By thread block of the whole graph, from when each rank begins.
Times end_of_classes(const EqualThreadBlocks& classes, const CollectivePlan& plan,
                     const Times& begin_of_rank) {
  Times begin;
  for (const ThreadBlock& thread_block : classes.graph.thread_blocks) {
    begin.push_back(thread_block.rank == ThreadBlock::kSwitch ? SimTime{} : begin_of_rank[thread_block.rank]);
  }
  Passes passes(classes.graph);
  const Times end = end_of(passes, classes.graph, plan, begin);
  Times all;
  for (const std::uint32_t c : classes.class_of) {
    all.push_back(end.empty() ? SimTime{} : end[c]);
  }
  return all;
}

std::size_t most_class(const EqualThreadBlocks& classes) { return std::ranges::max(classes.class_of); }

TEST_CASE("merged channels have the times of the classes found by refinement, and of the whole") {
  Dice dice(23);
  std::size_t merged = 0;
  for (const std::uint32_t n : {2U, 4U, 8U, 16U, 24U}) {
    if (kSanitized && n > 8) {
      break;
    }
    for (const RankLayout& layout : layouts(n)) {
      for_each_way(layout, [&](Algorithm algorithm, CollectiveKind kind) {
        const ChannelGraphs found = random_graphs(dice, layout.gpus_per_node);
        CollectiveGraph graph =
            make_graph(algorithm, kind, layout, found, static_cast<std::uint32_t>(1 + dice.below(12)));
        draw_hops(dice, graph);
        const CollectivePlan plan = draw_plan(dice, graph, few_loops(graph));
        Times begin;
        for (std::uint32_t r = 0; r < graph.ranks; ++r) {
          begin.push_back(draw_time(dice, 100'000'000));
        }
        const EqualThreadBlocks alike = find_equal_channels(graph);
        EqualThreadBlocks whole{graph, {}};
        for (std::uint32_t w = 0; w < graph.thread_blocks.size(); ++w) {
          whole.class_of.push_back(w);
        }
        const Times expected = end_of_classes(whole, plan, begin);
        INFO(name(algorithm, kind, layout));
        const bool same = end_of_classes(alike, plan, begin) == expected;
        REQUIRE(same);
        const EqualThreadBlocks refined = find_equal_thread_blocks(graph, Begin::by_rank);
        const bool same_refined = end_of_classes(refined, plan, begin) == expected;
        REQUIRE(same_refined);
        REQUIRE(most_class(refined) <= most_class(alike));
        merged += most_class(alike) + 1 < graph.thread_blocks.size() ? 1 : 0;
      });
    }
  }
  CHECK(merged > (kSanitized ? 20 : 100));
}

}  // namespace
}  // namespace paceline
