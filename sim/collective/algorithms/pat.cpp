// PAT: a binomial tree for each rank's block, all at once, over ranks of one GPU per node.
//
// In dimension k a rank exchanges with the ranks 2^k before and after it. all_gather: the block of rank b
// reaches rank b - s by clearing s's bits from the highest to the lowest, so the furthest go first and carry
// one block; reduce_scatter is the reverse, nearest first. A rank's shift is its number.
#include "sim/collective/algorithms/graph_builder.h"

namespace paceline {

namespace {

std::uint32_t dimensions(std::uint32_t ranks) {
  std::uint32_t k = 0;
  while ((1ULL << k) < ranks) {
    ++k;
  }
  return k;
}

// The steps of dimension k; its blocks: those at distances s with s < ranks whose lowest set bit is k.
std::vector<Step> dimension_steps(CollectiveKind kind, std::uint32_t ranks, std::uint32_t k) {
  const std::int64_t far = std::int64_t{1} << k, gap = 2 * far;
  const auto width = static_cast<std::uint32_t>((ranks - far + gap - 1) / gap);
  const Ports port = ports(k, 1);
  if (kind == CollectiveKind::all_gather) {
    return {{.send = port, .width = width, .own = true, .block = 0, .gap = gap},
            {.receive = port, .width = width, .keep = true, .block = far, .gap = gap}};
  }
  return {{.send = port, .width = width, .own = true, .block = far, .gap = gap},
          {.receive = port, .width = width, .own = true, .keep = true, .block = 0, .gap = gap}};
}

}  // namespace

CollectiveGraph pat_graph(const GraphRequest& request) {
  const std::uint32_t n = request.layout.ranks(), last = dimensions(n);
  const bool gather = request.kind == CollectiveKind::all_gather;
  std::vector<Step> steps;
  if (gather) {
    steps.push_back({.own = true, .keep = true});
  }
  for (std::uint32_t i = 0; i < last; ++i) {
    for (const Step& step : dimension_steps(request.kind, n, gather ? last - 1 - i : i)) {
      steps.push_back(step);
    }
  }
  GraphBuilder builder(request.channels, n);
  builder.reserve(std::size_t{request.channels} * n, std::size_t{request.channels} * n * last);
  const std::uint32_t script = builder.add_script(n, steps);
  for (std::uint32_t c = 0; c < request.channels; ++c) {
    const auto nic_of_rank = [&](std::uint32_t rank) {  // the only one of its node
      const NodeChannel& order = node_channel(request.found.on(rank).ring, c);
      return nic_of(order, order.gpus.front());
    };
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      builder.add_thread_block(rank, c, script, last, last, rank);
    }
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      for (std::uint32_t k = 0; k < last; ++k) {
        const std::uint32_t far = 1U << k, peer = (gather ? rank + n - far : rank + far) % n;
        builder.connect({c * n + rank, k}, {c * n + peer, k}, Wire::gpu_to_gpu,
                        {nic_of_rank(rank), nic_of_rank(peer)});
      }
    }
  }
  return builder.finish();
}

}  // namespace paceline
