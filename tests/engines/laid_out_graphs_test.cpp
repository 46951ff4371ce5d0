// Several graphs in one table: is each thread block, port and FIFO where its graph has it?
#include "sim/engine/laid_out_graphs.h"

#include <catch2/catch.hpp>
#include <vector>

#include "random_job.h"

namespace paceline {
namespace {

TEST_CASE("graphs laid out side by side are the graphs they were") {
  for (std::uint64_t seed = 1; seed <= rounds(100); ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const auto ranks = static_cast<std::uint32_t>(dice.between(2, 16));
    CollectivePlanner planner = random_planner(dice, ranks);
    for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::broadcast}) {
      static_cast<void>(planner.plan(kind, Bytes(1 << 20)));
    }
    const GraphList& graphs = planner.communicator().graphs;
    const LaidOutGraphs all = lay_out(graphs, ranks);
    REQUIRE(all.graphs.size() == graphs.size());
    std::size_t block = 0, fifo = 0, switches = 0;
    for (std::size_t g = 0; g < graphs.size(); ++g) {
      const CollectiveGraph& graph = graphs[g];
      std::vector<std::vector<ThreadBlockId>> of_rank(ranks);
      for (std::size_t b = 0; b < graph.thread_blocks.size(); ++b) {
        const ThreadBlock& wanted = graph.thread_blocks[b];
        const ThreadBlockState &state = all.thread_blocks[block + b],
                               &next = all.thread_blocks[block + b + 1];
        CHECK(state.rank == wanted.rank);
        CHECK(state.script == wanted.script);
        CHECK(state.graph == g);
        const bool last = b + 1 == graph.thread_blocks.size();
        const std::size_t in_end = last ? graph.in.size() : graph.thread_blocks[b + 1].first_in;
        const std::size_t out_end = last ? graph.out.size() : graph.thread_blocks[b + 1].first_out;
        REQUIRE(next.first_in - state.first_in == in_end - wanted.first_in);
        REQUIRE(next.first_out - state.first_out == out_end - wanted.first_out);
        for (std::size_t p = 0; p < in_end - wanted.first_in; ++p) {
          const FifoId f = all.in[state.first_in + p];
          CHECK(f == FifoId(fifo + graph.in[wanted.first_in + p]));
          CHECK(all[f].to == ThreadBlockId(block + b));
        }
        for (std::size_t p = 0; p < out_end - wanted.first_out; ++p) {
          CHECK(all[all.out[state.first_out + p]].from == ThreadBlockId(block + b));
        }
        if (wanted.rank == ThreadBlock::kSwitch) {
          REQUIRE(switches < all.switches.size());
          CHECK(all.switches[switches++] == ThreadBlockId(block + b));
        } else {
          of_rank[wanted.rank].emplace_back(block + b);
        }
      }
      const auto& [first_of_rank, blocks_of_ranks] = all.graphs[g];
      for (std::uint32_t r = 0; r < ranks; ++r) {
        CHECK(std::vector(blocks_of_ranks.begin() + first_of_rank[r],
                          blocks_of_ranks.begin() + first_of_rank[r + 1]) == of_rank[r]);
      }
      block += graph.thread_blocks.size();
      fifo += graph.fifos.size();
    }
    CHECK(all.thread_blocks.size() == block + 1);
    CHECK(all.fifos.size() == fifo);
    CHECK(all.switches.size() == switches);
  }
}

}  // namespace
}  // namespace paceline
