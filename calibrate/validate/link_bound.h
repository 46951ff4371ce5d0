// What no collective can be faster than, whatever the algorithm: the links.
#pragma once

#include <span>
#include <vector>

#include "calibrate/fit/place_model.h"

namespace paceline {

// Seconds for each size: what every GPU must send or receive, over all its links together, and what every node must,
// over its NICs. A reduction may happen on the way (NVLS, SHARP), so that an all-reduce sends its bytes but once.
// NCCL's rates lie up to a quarter below the nominal ones of NVLink and PCIe: the bound has a third more.
std::vector<double> link_bound_seconds(const MeasuredPlace&, std::span<const Bytes> sizes);

}  // namespace paceline
