// What a run can take at most, and what is refused before it starts.
#pragma once

#include "core/units.h"
#include "sim/job.h"

namespace paceline {

// 2^59 ps: both engines add up times below it.
inline constexpr Seconds kLongestIteration(576'460);

// An upper bound, whatever the launches.
Seconds longest_collective(const Communicator&, const CollectivePlan&);

// Throws InputError when an iteration could take longer than kLongestIteration, or the run than kLongestRun.
void require_clock_range(const TrainingJob&, const RunSpec&);

// Throws InputError when simulating, with the vector engine or the other, would take hours.
void require_patience(const TrainingJob&, const RunSpec&, bool vector);

}  // namespace paceline
