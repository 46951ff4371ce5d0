#include "calibrate/measure/statistics.h"

#include <algorithm>
#include <cassert>

#include "core/median.h"

namespace paceline::measure {

Spread spread_of(const std::vector<double>& times) {
  assert(!times.empty());
  return {.median = median(times),
          .min = *std::min_element(times.begin(), times.end()),
          .max = *std::max_element(times.begin(), times.end()),
          .repeats = static_cast<int>(times.size())};
}

std::vector<double> slowest(std::span<const std::vector<double>> by_rank) {
  assert(!by_rank.empty());
  std::vector<double> worst = by_rank.front();
  for (const std::vector<double>& times : by_rank) {
    worst.resize(std::min(worst.size(), times.size()));
    for (std::size_t i = 0; i < worst.size(); ++i) {
      worst[i] = std::max(worst[i], times[i]);
    }
  }
  return worst;
}

int repeats_within(double once_s, double budget_s, int least, int most) {
  least = std::min(least, most);
  if (!(once_s > 0) || budget_s / once_s >= most) {
    return most;
  }
  return std::max(least, static_cast<int>(budget_s / once_s));
}

}  // namespace paceline::measure
