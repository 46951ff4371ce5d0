#include "calibrate/measure/statistics.h"

#include <algorithm>
#include <cassert>

namespace paceline::measure {

Spread spread_of(std::vector<double> times) {
  assert(!times.empty());
  std::sort(times.begin(), times.end());
  const std::size_t middle = times.size() / 2;
  const double median = times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
  return {
      .median = median, .min = times.front(), .max = times.back(), .repeats = static_cast<int>(times.size())};
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
