// The logarithm to base 2 of a whole number, rounded down.
#pragma once

#include <bit>
#include <cstdint>

namespace paceline {

// Of 0 and less: -1.
constexpr int log2_down(std::int64_t n) {
  return n <= 0 ? -1 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n))) - 1;
}

}  // namespace paceline
