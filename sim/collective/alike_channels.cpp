#include "sim/collective/alike_channels.h"

#include <algorithm>
#include <unordered_map>

namespace paceline {

AlikeChannels::AlikeChannels(const CollectiveGraph& graph, const RouteList& routes)
    : channels_(channels_of(graph)) {
  if (channels_.empty() && !graph.thread_blocks.empty()) {
    channels_.push_back({.last = static_cast<std::uint32_t>(graph.thread_blocks.size()),
                         .fifos = static_cast<std::uint32_t>(graph.fifos.size())});
  }
  const auto same_ways = [&](const Channel& a, const Channel& b) {
    for (std::uint32_t f = 0; f < a.fifos; ++f) {
      if (!std::ranges::equal(routes[a.fifo + f], routes[b.fifo + f])) {
        return false;
      }
    }
    return true;
  };
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> of_rank;  // of the first thread block
  times_.resize(channels_.size());
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    const Channel& channel = channels_[c];
    std::vector<std::size_t>& candidates = of_rank[graph.thread_blocks[channel.first].rank];
    const auto same = std::ranges::find_if(candidates, [&](std::size_t k) {
      return same_channel(graph, channels_[k], channel, Ranks::same) && same_ways(channels_[k], channel);
    });
    stands_.push_back(same == candidates.end() ? c : *same);
    times_[stands_.back()] += 1;
    if (same == candidates.end()) {
      candidates.push_back(c);
    }
  }
}

void AlikeChannels::set_hops_of_others(CollectiveGraph& graph) const {
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    for (std::uint32_t f = 0; stands_[c] != c && f < channels_[c].fifos; ++f) {
      graph.fifos[channels_[c].fifo + f].hop = graph.fifos[channels_[stands_[c]].fifo + f].hop;
    }
  }
}

}  // namespace paceline
