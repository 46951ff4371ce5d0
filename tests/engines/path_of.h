// Does the critical path of an iteration begin and end with it, without a gap?
#pragma once

#include <catch2/catch.hpp>

#include "sim/report/critical_path.h"

namespace paceline {

inline void check_path_adds_up(const TrainingJob& job, const RunSpec& run, const Result& result,
                               std::uint32_t iteration) {
  const SimTime began = result.iteration_end[iteration - 1], end = result.iteration_end[iteration];
  const CriticalPath path =
      critical_path(job, simulate(job, run, ranks_on_path(job, result, iteration)), iteration);
  SimTime at = began;
  for (const PathSegment& segment : path.segments) {
    CHECK(segment.start == at);
    CHECK(segment.start < segment.end);
    at = segment.end;
  }
  CHECK(at == end);
}

}  // namespace paceline
