#include "sim/strategy/balance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace paceline {

std::vector<std::int64_t> balanced_batches(std::span<const double> speeds, std::span<const std::int64_t> most,
                                           std::int64_t total) {
  std::vector<std::int64_t> batches(speeds.size());
  std::vector<std::size_t> open(speeds.size());  // not held to a bound
  std::iota(open.begin(), open.end(), 0);
  double share = 0;
  const auto wanted = [&](std::size_t i) { return speeds[i] * share; };
  const auto held = [&](std::size_t i) { return std::clamp(wanted(i), 1.0, static_cast<double>(most[i])); };
  // Those beyond the bounds on the side that is further beyond are held, and the others share what is left.
  while (true) {
    double all = 0, beyond = 0;
    for (const std::size_t i : open) {
      all += speeds[i];
    }
    share = static_cast<double>(total) / all;
    for (const std::size_t i : open) {
      beyond += wanted(i) - held(i);
    }
    const std::size_t removed = std::erase_if(open, [&](std::size_t i) {
      const bool hold = beyond >= 0 ? wanted(i) > held(i) : wanted(i) < held(i);
      if (hold) {
        batches[i] = static_cast<std::int64_t>(held(i));
        total -= batches[i];
      }
      return hold;
    });
    if (removed == 0) {
      break;
    }
  }
  std::vector<std::pair<double, std::size_t>> remainders;
  for (const std::size_t i : open) {
    batches[i] = static_cast<std::int64_t>(held(i));
    total -= batches[i];
    remainders.emplace_back(static_cast<double>(batches[i]) - held(i), i);
  }
  std::ranges::sort(remainders);
  for (std::size_t k = 0; total > 0; k = (k + 1) % remainders.size()) {
    const std::size_t i = remainders[k].second;
    const std::int64_t more = batches[i] < most[i] ? 1 : 0;
    batches[i] += more;
    total -= more;
  }
  return batches;
}

}  // namespace paceline
