// Batches by speed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paceline {

// Shares of `total` samples in proportion to the speeds, rounded by the largest remainder (of equal ones the first),
// each from 1 to its most; what one can't take the others share. Requires: speeds > 0, as many as there are in
// `most`, whose sum is `total` or more; total is at least their number. Cost: O(n log n) for each that is at its most.
std::vector<std::int64_t> balanced_batches(std::span<const double> speeds, std::span<const std::int64_t> most,
                                           std::int64_t total);

}  // namespace paceline
