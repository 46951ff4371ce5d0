// Rules that both engines share about what is reported.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/fingerprint.h"
#include "core/time.h"

namespace paceline {

// The facts that make up a run's fingerprint.
enum class Fact : std::uint64_t { launch = 1, collective_end, iteration_end };

constexpr std::uint64_t subject(Fact fact, std::uint32_t iteration, std::uint32_t item = 0) {
  return Fingerprint::subject(static_cast<std::uint64_t>(fact), iteration, item);
}

// The length of [from, to) that lies in [begin, end); 0 when empty.
constexpr SimTime overlap(SimTime from, SimTime to, SimTime begin, SimTime end) {
  const SimTime a = std::max(from, begin), b = std::min(to, end);
  return a < b ? b - a : SimTime{};
}

// The last ranks to launch a collective; of equally late ones the first.
struct LastLaunch {
  SimTime last{-1}, second{-1};
  std::uint32_t rank = 0;

  constexpr void add(std::uint32_t r, SimTime at) {
    if (at > last) {
      second = last;
      last = at;
      rank = r;
    } else if (at == last) {
      second = at;
      rank = std::min(rank, r);
    } else if (at > second) {
      second = at;
    }
  }
};

}  // namespace paceline
