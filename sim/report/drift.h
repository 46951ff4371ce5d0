// Have the steps of a run settled?
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/time.h"

namespace paceline {

struct Drift {
  std::size_t steps = 0;  // in each half of the run; of an odd number the middle one is in none
  double change = 0;      // the mean of the last so many over that of the first, less 1
};

// Where the halves differ by more than a hundredth and more than chance would have it: the Wilcoxon-Mann-Whitney
// statistic of the two, in standard deviations of steps in any order, is above 3. So it is silent, but for 3 runs in
// 1000, where steps are independent draws of any one distribution; likewise where they are all alike, or repeat a
// period; and always below 14 steps, too few to say.
std::optional<Drift> drift_of(std::span<const SimTime> steps);

}  // namespace paceline
