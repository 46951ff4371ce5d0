// Communicators for tests: graphs whose hops have any cost.
#pragma once

#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/collective/algorithms.h"
#include "sim/collective/communicator.h"
#include "sim/collective/step_times.h"

namespace paceline {

inline constexpr BytesPerSecond kInstant{std::numeric_limits<double>::infinity()};

// One node whose GPUs stand in the order 0, 1, 2 ... in every channel.
inline ChannelGraphs plain_graphs(std::uint32_t gpus) {
  NodeChannel channel;
  channel.gpus.resize(gpus);
  std::iota(channel.gpus.begin(), channel.gpus.end(), 0);
  ChannelGraphs graphs;
  for (ChannelGraph* graph :
       {&graphs.ring, &graphs.tree, &graphs.nvls, &graphs.collnet_chain, &graphs.collnet_direct}) {
    graph->channels = {channel};
  }
  graphs.channels = graphs.nvls_channels = 1;
  return graphs;
}

// One ring over as many ranks as hops; hop r is that of what rank r sends. No startup, no copies, FIFOs of
// any length. all_reduce: one loop of a chunk per rank; broadcast: `chunks` loops from rank 0.
inline CollectivePlanner ring_planner(std::vector<HopCost> hops, std::int64_t chunks = 1) {
  Communicator start;
  start.ranks = static_cast<std::uint32_t>(hops.size());
  const RankLayout layout{1, start.ranks};
  return {std::move(start), layout,
          [hops = std::move(hops), chunks](Communicator& communicator, const CollectiveRequest& request) {
            const auto [kind, bytes, groups, root] = request;
            const auto n = static_cast<std::uint32_t>(hops.size());
            CollectivePlan plan;
            plan.kind = kind;
            plan.bytes = bytes;
            plan.graph = static_cast<std::uint32_t>(communicator.graphs.size());
            const std::int64_t parts = kind == CollectiveKind::all_reduce ? n : chunks;
            plan.loops = {
                {kind == CollectiveKind::all_reduce ? 1 : chunks, Bytes((bytes.value + parts - 1) / parts)}};
            plan.hops = hops;
            plan.copy_rate = kInstant;
            CollectiveGraph graph = make_graph(Algorithm::ring, kind, {1, n}, plain_graphs(n), 1);
            graph.hops.resize(n);
            for (Fifo& fifo : graph.fifos) {
              fifo.hop = graph.thread_blocks[fifo.from].rank;
            }
            communicator.graphs.push_back(std::move(graph));
            return plan;
          }};
}

}  // namespace paceline
