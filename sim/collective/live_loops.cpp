#include "sim/collective/live_loops.h"

#include <algorithm>
#include <limits>
#include <set>

namespace paceline {

HopRates rates_in(const Hop& hop, const LiveLoops& live) {
  if (hop.links.empty()) {
    return {hop.rate, hop.from_host};
  }
  HopRates rates{BytesPerSecond(std::numeric_limits<double>::infinity()), {}};
  for (const SharedLink& link : hop.links) {
    double all = 0;
    for (const auto& [delay, load] : link.loads) {
      all += live.first <= delay && delay <= live.last ? load : 0;
    }
    const BytesPerSecond share = link.bandwidth * std::min(1.0, link.own / all);
    rates.narrowest = std::min(rates.narrowest, share);
    rates.from_host = link.from_host ? share : rates.from_host;
  }
  return rates;
}

std::vector<LiveLoops> live_loops(const std::vector<Loops>& loops) {
  std::int64_t all = 0, at = 0;
  for (const Loops& each : loops) {
    all += each.count;
  }
  std::vector<LiveLoops> live;
  for (const Loops& each : loops) {
    live.push_back({at - all + 1, at});
    at += each.count;
  }
  return live;
}

std::vector<Loops> cut_where_rates_change(const std::vector<Loops>& loops, const CollectiveGraph& graph,
                                          bool fills) {
  std::set<std::int64_t> delays;
  for (const Hop& hop : graph.hops) {
    for (const SharedLink& link : hop.links) {
      for (const auto& [delay, load] : link.loads) {
        delays.insert(delay);
      }
    }
  }
  if (fills) {
    delays.insert({graph.turn, -graph.turn});
  }
  std::int64_t all = 0, at = 0;
  for (const Loops& each : loops) {
    all += each.count;
  }
  std::set<std::int64_t> changes;
  for (const std::int64_t delay : delays) {
    changes.insert(delay > 0 ? delay : all + delay);
  }
  std::vector<Loops> pieces;
  for (const Loops& each : loops) {
    const std::int64_t end = at + each.count;
    for (auto next = changes.upper_bound(at); at < end; next = changes.upper_bound(at)) {
      const std::int64_t to = next == changes.end() ? end : std::min(*next, end);
      pieces.push_back({to - at, each.chunk, each.slice});
      at = to;
    }
  }
  return pieces;
}

}  // namespace paceline
