// How many steps are simulated.
#pragma once

#include "sim/training.h"

namespace paceline {

// Of local SGD whole periods, at least as many steps as are asked for; where ranks join, as many as the longest has
// batches, the first of them the warm-up; else as asked for.
RunSpec with_length(RunSpec, const TrainingSpec&);

}  // namespace paceline
