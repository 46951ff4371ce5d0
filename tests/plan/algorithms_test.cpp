// Does every algorithm, for 2 to 33 ranks, leave every rank with exactly what it should, over FIFOs as short
// as NCCL's, and move as many bytes as it says? Executed symbolically.
#include "sim/collective/algorithms.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "right_data.h"
#include "symbolic.h"
#include "tests/dice.h"
#include "tests/random_graphs.h"
#include "ways.h"

namespace paceline {
namespace {

// Runs a graph to the end and looks at every channel, loop and slice.
std::string outcome(const CollectiveGraph& graph, CollectiveKind kind, SymbolicRun run, std::uint32_t blocks,
                    std::uint32_t root) {
  const Symbolic symbolic(graph, run);
  if (!symbolic.error().empty()) {
    return symbolic.error();
  }
  for (std::size_t channel = 0; channel < graph.channels; ++channel) {
    for (std::size_t part = 0; part < std::size_t{run.loops} * run.slices; ++part) {
      Outputs outputs;
      for (std::size_t rank = 0; rank < graph.ranks; ++rank) {
        outputs.push_back(symbolic.output(rank, channel, part / run.slices, part % run.slices));
      }
      if (!is_right(kind, outputs, blocks, root)) {
        return "wrong data in channel " + std::to_string(channel) + ", part " + std::to_string(part);
      }
    }
  }
  return {};
}

TEST_CASE("every algorithm leaves every rank with exactly what it should") {
  Dice dice(1);
  for (std::uint32_t n = 2; n <= most_tested(); ++n) {
    for (const RankLayout& layout : layouts(n)) {
      for_each_way(layout, [&](Algorithm algorithm, CollectiveKind kind) {
        for (const std::uint32_t channels : {1U, 2U, 5U}) {
          const ChannelGraphs found = random_graphs(dice, layout.gpus_per_node);
          const auto root = static_cast<std::uint32_t>(dice.below(n));
          const CollectiveGraph graph = make_graph(algorithm, kind, layout, found, channels, root);
          const std::uint32_t blocks = blocks_per_loop(algorithm, kind, layout);
          for (const std::uint32_t loops : {1U, 3U}) {
            INFO(name(algorithm, kind, layout) << ", " << channels << " channels, " << loops << " loops");
            REQUIRE(outcome(graph, kind, {loops}, blocks, root).empty());
          }
        }
      });
    }
  }
}

// As many channels of each graph on every node, in orders, patterns and through NICs of its own.
TEST_CASE("so does every algorithm where each node has orders of its own") {
  Dice dice(17);
  for (std::uint32_t n = 4; n <= most_tested(); ++n) {
    for (const RankLayout& layout : layouts(n)) {
      std::vector<ChannelGraphs> kinds;
      while (kinds.size() < 3) {
        kinds.push_back(random_graphs(dice, layout.gpus_per_node));
      }
      for (const auto graph : {&ChannelGraphs::ring, &ChannelGraphs::tree, &ChannelGraphs::collnet_chain}) {
        std::size_t fewest = 64;
        for (const ChannelGraphs& kind : kinds) {
          fewest = std::min(fewest, (kind.*graph).channels.size());
        }
        for (ChannelGraphs& kind : kinds) {
          (kind.*graph).channels.resize(fewest);
        }
      }
      std::vector<const ChannelGraphs*> by_node;
      for (std::uint32_t node = 0; node < layout.nodes; ++node) {
        by_node.push_back(&kinds[dice.below(3)]);
      }
      const GraphsOfNodes found(by_node);
      for_each_way(layout, [&](Algorithm algorithm, CollectiveKind kind) {
        const auto root = static_cast<std::uint32_t>(dice.below(n));
        const CollectiveGraph graph = make_graph(algorithm, kind, layout, found, 3, root);
        INFO(name(algorithm, kind, layout));
        REQUIRE(outcome(graph, kind, {2}, blocks_per_loop(algorithm, kind, layout), root).empty());
      });
    }
  }
}

// The fewest slots that keep an algorithm from deadlock, where a step has so many slices. A ring begins with
// a chunk of its own and then waits for room before it takes what has come: one slice more than a step has.
// Where steps of one thread block lead to different places, as in PAT, a whole step must fit. NVLS waits for a block of
// each head. The rest is free of cycles.
std::uint32_t enough_slots(Algorithm algorithm, CollectiveKind kind, const RankLayout& layout,
                           std::uint32_t slices) {
  const bool chain = kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
  switch (algorithm) {
    case Algorithm::ring:
      return chain ? 1 : slices + 1;
    case Algorithm::hierarchical:
      return slices + 1;
    case Algorithm::pat:
    case Algorithm::collnet_direct:
    case Algorithm::point_to_point:
      return slices;
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      return (layout.gpus_per_node - 1) * slices + 1;
    default:
      return 1;
  }
}

// Whether fewer deadlock, whatever the layout.
bool is_sharp(Algorithm algorithm, CollectiveKind kind, const RankLayout& layout) {
  return algorithm == Algorithm::hierarchical || algorithm == Algorithm::pat ||
         (algorithm == Algorithm::ring && (layout.ranks() > 2 || kind == CollectiveKind::all_reduce));
}

TEST_CASE("FIFOs may be as short as the algorithm allows, and no shorter") {
  Dice dice(2);
  for (std::uint32_t n = 2; n <= most_tested(); ++n) {
    for (const RankLayout& layout : layouts(n)) {
      const ChannelGraphs found = random_graphs(dice, layout.gpus_per_node);
      for_each_way(layout, [&](Algorithm algorithm, CollectiveKind kind) {
        const CollectiveGraph graph = make_graph(algorithm, kind, layout, found, 1);
        const std::uint32_t blocks = blocks_per_loop(algorithm, kind, layout);
        for (const std::uint32_t slices : {1U, 2U}) {
          const std::uint32_t enough = enough_slots(algorithm, kind, layout, slices);
          for (const std::uint32_t slots : {1U, 2U, 3U, 4U, 8U, enough}) {
            INFO(name(algorithm, kind, layout) << ", " << slices << " slices, " << slots << " slots");
            if (slots >= enough) {
              REQUIRE(outcome(graph, kind, {3, slices, slots}, blocks, 0).empty());
            } else if (is_sharp(algorithm, kind, layout)) {
              REQUIRE_FALSE(outcome(graph, kind, {3, slices, slots}, blocks, 0).empty());
            }
          }
        }
      });
    }
  }
}

TEST_CASE("the symbols notice a wrong graph") {
  Dice dice(10);
  const RankLayout layout{2, 3};
  const CollectiveGraph right =
      make_graph(Algorithm::ring, CollectiveKind::all_reduce, layout, random_graphs(dice, 3), 1);
  const auto notices = [](const CollectiveGraph& graph) {
    return !outcome(graph, CollectiveKind::all_reduce, {2, 1, 8}, 6, 0).empty();
  };
  REQUIRE_FALSE(notices(right));
  for (std::size_t step = 0; step < right.scripts[0].steps.size(); ++step) {
    INFO("step " << step);
    const auto with = [&](auto&& change) {
      CollectiveGraph wrong = right;
      change(wrong.scripts[0].steps[step]);
      return notices(wrong);
    };
    CHECK(with([](Step& s) { s.own = !s.own; }));
    CHECK((step == 0 || with([](Step& s) { s.times += 1; })));
    CHECK(with([](Step& s) { s.block += 1; }));
    CHECK((step < 2 || with([](Step& s) { s.keep = false; })));
  }
  CollectiveGraph wrong = right;
  wrong.thread_blocks[2].shift = 0;
  CHECK(notices(wrong));
}

}  // namespace
}  // namespace paceline
