// Whether an operation of the main program was in a steady iteration of a result.
#pragma once

#include <cstdint>

#include "sim/engine/simulate.h"
#include "sim/job.h"

namespace paceline {

inline bool ran_in(const Result& result, const Op& op, std::uint32_t iteration) {
  return op.after == After::decision ? op.index < result.decisions.iterations[iteration].size()
                                     : op.runs_in(iteration);
}

}  // namespace paceline
