// Do OpenMPI's and gloo's collectives leave every rank with what they should, for 2 to 33 ranks, and move what their
// sources say (sim/collective/host_collectives.h)? Executed symbolically.
#include "sim/collective/host_collectives.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "right_data.h"
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
      const HostGraph ring = mpi_ring_graph(CollectiveKind::all_reduce, layout, one_nic(layout));
      const Symbolic around(ring.graph, kEndless);
      REQUIRE(around.error().empty());
      const HostGraph doubling = recursive_doubling_graph(layout, one_nic(layout));
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
    for (const HostGraph& made : {mpi_ring_graph(CollectiveKind::all_reduce, {n, 1}, kOneNic),
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
    const HostGraph gather = mpi_ring_graph(CollectiveKind::all_gather, {n, 1}, kOneNic);
    const HostGraph scatter = mpi_ring_graph(CollectiveKind::reduce_scatter, {1, n}, kOneNic);
    const HostGraph chain = mpi_ring_graph(CollectiveKind::broadcast, {n, 1}, kOneNic);
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

TEST_CASE("gloo cuts an all-reduce into segments of at most 1 MiB, two a rank at least") {
  CHECK(gloo_segments_per_rank(4, Bytes(4096)) == 2);
  CHECK(gloo_segments_per_rank(4, Bytes(8 << 20)) == 2);
  CHECK(gloo_segments_per_rank(4, Bytes((8 << 20) + 1)) == 3);
  CHECK(gloo_segments_per_rank(2, Bytes(25 << 20)) == 13);
  CHECK(gloo_segments_per_rank(33, Bytes(1)) == 2);
}

TEST_CASE("gloo's all-reduce leaves the sum with every rank, and passes segments to the rank before") {
  for (std::uint32_t n = 2; n <= most_tested(); ++n) {
    for (const std::uint32_t segments : {2U, 3U, 7U}) {
      for (const RankLayout& layout : layouts(n)) {
        CAPTURE(n, segments, layout.gpus_per_node);
        const HostGraph ring = gloo_ring_graph(CollectiveKind::all_reduce, layout, one_nic(layout), segments);
        const Symbolic run(ring.graph, kEndless);
        REQUIRE(run.error().empty());
        for (std::uint32_t r = 0; r < n; ++r) {
          const Symbolic::Output& kept = run.output(r, 0, 0, 0);
          REQUIRE(kept.size() == n * segments);
          REQUIRE(std::ranges::all_of(kept, [&](const auto& block) { return block.second == of_all(n); }));
        }
        REQUIRE(ring.reducing == n);
        for (std::uint32_t f = 0; f < 2 * n; ++f) {
          REQUIRE(run.sent(f) == (n - 1) * segments);  // numSegments - numSegmentsPerRank, in either half
          REQUIRE(ring.graph.fifos[f].from == n + (ring.graph.fifos[f].to + 1) % n);  // a rank's kernel
        }
      }
    }
  }
}

TEST_CASE("gloo's all-gather passes both halves of each rank's part on to the next rank") {
  for (std::uint32_t n = 2; n <= kMostRanks; ++n) {
    CAPTURE(n);
    const HostGraph ring = gloo_ring_graph(CollectiveKind::all_gather, {n, 1}, one_nic({n, 1}), 2);
    const Symbolic run(ring.graph, kEndless);
    REQUIRE(run.error().empty());
    for (std::uint32_t r = 0; r < n; ++r) {
      const Symbolic::Output& kept = run.output(r, 0, 0, 0);
      REQUIRE(kept.size() == 2 * n);
      for (const auto& [block, value] : kept) {
        REQUIRE(value == of_rank(static_cast<std::size_t>(block) / 2));
      }
      REQUIRE(run.sent(r) == 2 * (n - 1));
      REQUIRE(ring.graph.fifos[r].to == (ring.graph.fifos[r].from + 1) % n);
    }
    REQUIRE(ring.reducing == 0);
  }
}

TEST_CASE("gloo's broadcast doubles those who have the data, whoever the root is") {
  for (std::uint32_t n = 2; n <= kMostRanks; ++n) {
    for (const std::uint32_t root : {0U, 1U, n - 1}) {
      CAPTURE(n, root);
      const HostGraph tree = binomial_tree_graph({n, 1}, one_nic({n, 1}), root);
      const Symbolic run(tree.graph, kEndless);
      REQUIRE(run.error().empty());
      REQUIRE(tree.graph.fifos.size() == n - 1);
      for (std::uint32_t r = 0; r < n; ++r) {
        const Symbolic::Output& kept = run.output(r, 0, 0, 0);
        REQUIRE(kept.size() == 1);
        REQUIRE(kept.begin()->second == of_rank(root));
      }
      for (const Fifo& fifo : tree.graph.fifos) {
        const std::uint32_t from = (fifo.from + n - root) % n, to = (fifo.to + n - root) % n;
        REQUIRE(std::has_single_bit(to ^ from));
        REQUIRE(to - from > from);  // the sender got it in an earlier round
      }
    }
  }
}

}  // namespace
}  // namespace paceline
