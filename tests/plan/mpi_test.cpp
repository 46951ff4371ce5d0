// Do OpenMPI's ring and recursive doubling leave every rank with what they should, for 2 to 33 ranks, and
// move what they say? Executed symbolically.
#include "sim/collective/mpi.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "symbolic.h"
#include "ways.h"

namespace paceline {
namespace {

const std::vector<int> kOneNic{0};  // of the one GPU of a node

std::vector<int> one_nic(const RankLayout& layout) { return std::vector<int>(layout.gpus_per_node, 0); }

constexpr SymbolicRun kEndless{.loops = 1, .slices = 1, .slots = 0};

bool has_all(const Symbolic::Output& kept, std::uint32_t blocks, const Value& sum) {
  return kept.size() == blocks &&
         std::ranges::all_of(kept, [&](const auto& block) { return block.second == sum; });
}

std::int64_t most_sent(const Symbolic& run, std::size_t fifos) {
  std::int64_t most = 0;
  for (std::size_t f = 0; f < fifos; ++f) {
    most = std::max(most, run.sent(f));
  }
  return most;
}

TEST_CASE("OpenMPI's all-reduces leave the sum with every rank") {
  for (std::uint32_t n = 2; n <= kMostRanks; ++n) {
    for (const RankLayout& layout : layouts(n)) {
      CAPTURE(n, layout.gpus_per_node);
      const MpiGraph ring = mpi_ring_graph(CollectiveKind::all_reduce, layout, one_nic(layout));
      const Symbolic around(ring.graph, kEndless);
      REQUIRE(around.error().empty());
      const MpiGraph doubling = recursive_doubling_graph(layout, one_nic(layout));
      const Symbolic doubled(doubling.graph, kEndless);
      REQUIRE(doubled.error().empty());
      for (std::uint32_t r = 0; r < n; ++r) {
        REQUIRE(has_all(around.output(r, 0, 0, 0), n, of_all(n)));
        REQUIRE(has_all(doubled.output(r, 0, 0, 0), 1, of_all(n)));
      }
      // n-1 blocks to be reduced and n-1 reduced ones over each of the ring's links; one of a round else.
      REQUIRE(ring.reducing == n);
      REQUIRE(ring.graph.fifos.size() == 2 * n);
      for (std::uint32_t f = 0; f < 2 * n; ++f) {
        REQUIRE(around.sent(f) == n - 1);
        REQUIRE(ring.graph.fifos[f].to == (ring.graph.fifos[f].from + 1) % n);
      }
      REQUIRE(most_sent(doubled, doubling.graph.fifos.size()) == 1);
    }
  }
}

TEST_CASE("what arrives on the FIFOs that reduce is summed, on the others it is passed on") {
  for (std::uint32_t n = 2; n <= kMostRanks; ++n) {
    for (const MpiGraph& made : {mpi_ring_graph(CollectiveKind::all_reduce, {n, 1}, kOneNic),
                                 mpi_ring_graph(CollectiveKind::reduce_scatter, {n, 1}, kOneNic),
                                 mpi_ring_graph(CollectiveKind::all_gather, {n, 1}, kOneNic),
                                 mpi_ring_graph(CollectiveKind::broadcast, {n, 1}, kOneNic),
                                 recursive_doubling_graph({n, 1}, kOneNic)}) {
      for (const ThreadBlock& thread_block : made.graph.thread_blocks) {
        for (const Step& step : made.graph.scripts[thread_block.script].steps) {
          if (step.receive.count > 0) {
            const std::uint32_t fifo = made.graph.in[thread_block.first_in + step.receive.first];
            REQUIRE(step.own == (fifo < made.reducing));
          }
        }
      }
    }
  }
}

TEST_CASE("OpenMPI's other rings") {
  for (std::uint32_t n = 2; n <= kMostRanks; ++n) {
    CAPTURE(n);
    const MpiGraph gather = mpi_ring_graph(CollectiveKind::all_gather, {n, 1}, kOneNic);
    const MpiGraph scatter = mpi_ring_graph(CollectiveKind::reduce_scatter, {1, n}, kOneNic);
    const MpiGraph chain = mpi_ring_graph(CollectiveKind::broadcast, {n, 1}, kOneNic);
    const Symbolic gathered(gather.graph, kEndless), scattered(scatter.graph, kEndless),
        sent(chain.graph, kEndless);
    REQUIRE(gathered.error().empty());
    REQUIRE(scattered.error().empty());
    REQUIRE(sent.error().empty());
    std::vector<bool> taken(n);
    for (std::uint32_t r = 0; r < n; ++r) {
      const Symbolic::Output& all = gathered.output(r, 0, 0, 0);
      REQUIRE(all.size() == n);
      for (const auto& [block, value] : all) {
        REQUIRE(value == of_rank(static_cast<std::size_t>(block)));
      }
      const Symbolic::Output& one = scattered.output(r, 0, 0, 0);
      REQUIRE(has_all(one, 1, of_all(n)));
      REQUIRE_FALSE(taken[static_cast<std::size_t>(one.begin()->first)]);
      taken[static_cast<std::size_t>(one.begin()->first)] = true;
      REQUIRE(has_all(sent.output(r, 0, 0, 0), 1, of_rank(0)));
    }
  }
}

}  // namespace
}  // namespace paceline
