// Huber's loss in robust fits.
#pragma once

namespace paceline {

inline constexpr double kHuber = 1.5;  // standard deviations, beyond which a residual counts linearly

}  // namespace paceline
