// The recursion of sim/collective/ring_time.h as it stands, O(N * steps): the oracle of RingSchedule.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/collective/ring_time.h"

namespace paceline {

inline void ring_end_by_steps(const RingLinks& links, std::int64_t steps, std::span<const SimTime> begin,
                              std::span<SimTime> end) {
  const std::size_t n = begin.size();
  assert(n >= 1 && end.size() == n && links.stay.size() == n && links.move.size() == n);
  std::vector<SimTime> start(begin.begin(), begin.end()), next(n);
  for (std::int64_t s = 1; s <= steps; ++s) {
    next[0] = std::max(start[0] + links.stay[0], start[n - 1] + links.move[n - 1]);
    for (std::size_t r = 1; r < n; ++r) {
      next[r] = std::max(start[r] + links.stay[r], start[r - 1] + links.move[r - 1]);
    }
    std::swap(start, next);
  }
  std::copy(start.begin(), start.end(), end.begin());
}

}  // namespace paceline
