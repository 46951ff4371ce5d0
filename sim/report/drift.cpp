#include "sim/report/drift.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace paceline {
namespace {

// How many standard deviations the number of pairs, of one step of each half, whose later one is longer is off
// its mean. Of equals the half counts, and the variance has its correction for ties (Lehmann 1975).
double deviation(std::span<const SimTime> first, std::span<const SimTime> last) {
  const auto n = static_cast<double>(first.size()), all = 2 * n;
  double longer = 0;
  for (const SimTime a : first) {
    for (const SimTime b : last) {
      longer += b > a ? 1 : b == a ? 0.5 : 0;
    }
  }
  std::vector<SimTime> sorted(first.begin(), first.end());
  sorted.insert(sorted.end(), last.begin(), last.end());
  std::ranges::sort(sorted);
  double ties = 0;
  for (auto from = sorted.begin(); from != sorted.end();) {
    const auto to = std::upper_bound(from, sorted.end(), *from);
    const auto equal = static_cast<double>(to - from);
    ties += equal * (equal * equal - 1);
    from = to;
  }
  const double variance = n * n / 12 * (all + 1 - ties / (all * (all - 1)));
  return variance > 0 ? (longer - n * n / 2) / std::sqrt(variance) : 0;
}

double mean(std::span<const SimTime> steps) {
  double sum = 0;
  for (const SimTime each : steps) {
    sum += static_cast<double>(each.ps);
  }
  return sum / static_cast<double>(steps.size());
}

}  // namespace

std::optional<Drift> drift_of(std::span<const SimTime> steps) {
  constexpr std::size_t kFewest = 14, kMost = 2000;  // of more than these the last
  constexpr double kChance = 3, kWorthALine = 0.01;
  if (steps.size() < kFewest) {
    return std::nullopt;
  }
  steps = steps.last(std::min(steps.size(), kMost));
  const std::size_t half = steps.size() / 2;
  const std::span<const SimTime> first = steps.first(half), last = steps.last(half);
  const double change = mean(last) / mean(first) - 1;
  if (std::abs(change) < kWorthALine || std::abs(deviation(first, last)) <= kChance) {
    return std::nullopt;
  }
  return Drift{half, change};
}

}  // namespace paceline
