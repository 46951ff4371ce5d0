#include "sim/collective/fifo_traffic.h"

#include <algorithm>

namespace paceline {
namespace {

// In blocks of a loop: a loop's data are that many on each channel.
std::int64_t blocks_of_loop(const CollectiveGraph& graph) {
  std::int64_t blocks = 1;
  for (const ThreadBlock& block : graph.thread_blocks) {
    blocks = std::max(blocks, block.base + graph.scripts[block.script].modulus);
  }
  return blocks;
}

}  // namespace

std::vector<double> shares_of_fifos(const CollectiveGraph& graph) {
  std::vector<std::int64_t> sent(graph.fifos.size());  // blocks
  for (const ThreadBlock& block : graph.thread_blocks) {
    for (const Step& step : graph.scripts[block.script].steps) {
      for (std::uint32_t p = 0; p < step.send.count; ++p) {
        sent[graph.out[block.first_out + step.send.first + p]] += std::int64_t{step.times} * step.width;
      }
    }
  }
  const double all = static_cast<double>(blocks_of_loop(graph)) * graph.channels;
  std::vector<double> shares;
  shares.reserve(sent.size());
  for (const std::int64_t blocks : sent) {
    shares.push_back(static_cast<double>(blocks) / all);
  }
  return shares;
}

FifoRoutes::FifoRoutes(const Topology& topology, std::span<const CollectivePlan> plans,
                       std::span<const Family> families) {
  for (const CollectivePlan& plan : plans) {
    family_of_[plan.graph] = plan.family;
    if (!placed_.contains(plan.family)) {
      placed_.emplace(plan.family, plan.family == kWorld ? PlacedFamily(topology, kAllRanks)
                                                         : PlacedFamily(topology, families[plan.family]));
    }
  }
}

}  // namespace paceline
