// All that happens at first, on all ranks.
#pragma once

#include <cstdint>

#include "sim/engine/simulate.h"

namespace paceline {

inline TraceRequest trace_of_first(std::uint32_t ranks, std::uint32_t iterations) {
  TraceRequest request{{}, 0, iterations, 0};
  for (std::uint32_t r = 0; r < ranks; ++r) {
    request.ranks.emplace_back(r);
  }
  return request;
}

}  // namespace paceline
