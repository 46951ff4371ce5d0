// What the engines ask before they repeat steps instead of simulating them.
#pragma once

#include <algorithm>

#include "sim/job.h"

namespace paceline {

// Whether no draw differs from one iteration to the next.
inline bool draws_alike(const TrainingJob& job) {
  return job.variability.per_operation.kind == DistributionKind::none &&
         job.variability.per_iteration.kind == DistributionKind::none &&
         job.variability.per_step.kind == DistributionKind::none && job.variability.transient.empty() &&
         (!job.input || job.input->jitter.kind == DistributionKind::none);
}

// Whether every iteration has the program's operations, which depend on none of another iteration.
inline bool in_every_iteration(const Program& program) {
  return std::ranges::all_of(program.ops, [](const Op& op) {
    return op.every == 1 && op.from == 0 && op.until == kNoIndex && op.lag == 0;
  });
}

}  // namespace paceline
