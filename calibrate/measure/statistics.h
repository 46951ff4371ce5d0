// From the times of all ranks to the numbers of a row.
#pragma once

#include <span>
#include <vector>

namespace paceline::measure {

struct Spread {
  double median = 0, min = 0, max = 0;
  int repeats = 0;
};
// The median of an even number is the mean of the two in the middle. Requires: not empty.
Spread spread_of(const std::vector<double>&);

// Per repeat, the slowest rank. Requires: at least one rank. Where ranks have different numbers of repeats
// the least counts.
std::vector<double> slowest(std::span<const std::vector<double>> by_rank);

// How often to repeat what took `once_s`: within the budget, from `least` to `most`.
int repeats_within(double once_s, double budget_s, int least, int most);

}  // namespace paceline::measure
