#include "sim/engine/laid_out_graphs.h"

namespace paceline {
namespace {

std::uint32_t size_of(const auto& list) { return static_cast<std::uint32_t>(list.size()); }

void append(const std::vector<std::uint32_t>& fifos, std::uint32_t first_fifo, std::vector<FifoId>& to) {
  for (const std::uint32_t fifo : fifos) {
    to.emplace_back(first_fifo + fifo);
  }
}

void lay_out(const CollectiveGraph& graph, std::uint32_t ranks, LaidOutGraphs& all) {
  const std::uint32_t first_fifo = size_of(all.fifos), first_thread_block = size_of(all.thread_blocks),
                      first_in = size_of(all.in), first_out = size_of(all.out), number = size_of(all.graphs);
  std::vector<std::vector<ThreadBlockId>> of_rank(ranks);
  for (const ThreadBlock& block : graph.thread_blocks) {
    (block.holds() == ThreadBlock::kSwitch ? all.switches : of_rank[block.rank])
        .emplace_back(size_of(all.thread_blocks));
    ThreadBlockState& state = all.thread_blocks.emplace_back();
    state.rank = block.holds();
    state.script = block.script;
    state.graph = number;
    state.first_in = first_in + block.first_in;
    state.first_out = first_out + block.first_out;
  }
  LaidOutGraphs::Graph& laid_out = all.graphs.emplace_back();
  for (const std::vector<ThreadBlockId>& thread_blocks : of_rank) {
    laid_out.first_of_rank.push_back(size_of(laid_out.of_rank));
    laid_out.of_rank.insert(laid_out.of_rank.end(), thread_blocks.begin(), thread_blocks.end());
  }
  laid_out.first_of_rank.push_back(size_of(laid_out.of_rank));
  for (const Fifo& fifo : graph.fifos) {
    FifoState& state = all.fifos.emplace_back();
    state.from = ThreadBlockId(first_thread_block + fifo.from);
    state.to = ThreadBlockId(first_thread_block + fifo.to);
    state.hop = fifo.hop;
  }
  for (std::uint32_t i = 0; i < graph.shared.size(); ++i) {
    FifoState& fifo = all.fifos[first_fifo + graph.shared[i].fifo];
    fifo.shared = i;
    fifo.socket = graph.shared[i].socket;
    if (fifo.socket != SharedFifo::kNoSocket && fifo.socket >= all.sockets.size()) {
      all.sockets.resize(fifo.socket + 1);
    }
  }
  append(graph.in, first_fifo, all.in);
  append(graph.out, first_fifo, all.out);
}

void close(LaidOutGraphs& all) {
  ThreadBlockState& end = all.thread_blocks.emplace_back();
  end.first_in = size_of(all.in);
  end.first_out = size_of(all.out);
}

}  // namespace

LaidOutGraphs lay_out(const GraphList& graphs, std::uint32_t ranks) {
  LaidOutGraphs all;
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    lay_out(graphs[g], ranks, all);
  }
  close(all);
  return all;
}

void add(LaidOutGraphs& all, const CollectiveGraph& graph, std::uint32_t ranks) {
  all.thread_blocks.pop_back();
  lay_out(graph, ranks, all);
  close(all);
}

}  // namespace paceline
