// Sums of rates and of bytes without rounding, so that they come out the same in whatever order and after
// however many additions and subtractions: whole multiples of 2^-48 (of a byte, of a byte per second).
#pragma once

#include <algorithm>
#include <cstdint>

namespace paceline {

__extension__ using Fixed = __int128;

inline constexpr double kFixedOne = 0x1p48;

// Requires: |x| < 2^78.
constexpr Fixed to_fixed(double x) {
  constexpr double kWhole = 0x1p62;
  if (!(x > -kWhole && x < kWhole)) {
    return static_cast<Fixed>(x * kFixedOne);
  }
  const auto whole = static_cast<std::int64_t>(x);  // in two parts the same, without a call
  const auto rest = static_cast<std::int64_t>((x - static_cast<double>(whole)) * kFixedOne);
  return static_cast<Fixed>(whole) * static_cast<std::int64_t>(kFixedOne) + rest;
}
constexpr double to_double(Fixed x) { return static_cast<double>(x) / kFixedOne; }

// Caps that exceed what a link can give by no more than this (relative) are granted: capacity / n, n times,
// may add up to a little more than the capacity, and is meant to fit.
inline constexpr double kRateSlack = 1e-12;

// What a link can give, and what a flow's cap (which may be infinite) counts in the sum that has to fit.
struct Capacity {
  double rate = 0;

  constexpr Fixed load(double cap) const { return to_fixed(std::min(cap, 2 * rate)); }
  constexpr bool fits(Fixed loads) const { return loads <= to_fixed(rate * (1 + kRateSlack)); }
};

}  // namespace paceline
