#pragma once

#include <cstdint>

namespace paceline {

inline constexpr std::int64_t kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;

}  // namespace paceline
