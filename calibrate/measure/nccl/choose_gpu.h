// Which GPU a process takes.
#pragma once

#include "calibrate/measure/place.h"

namespace paceline::measure {

// The one with the number of the process on its host; the only one where the launcher shows each process its
// own (srun --gpus-per-task=1). Throws InputError where there are fewer GPUs than processes.
int gpu_of(const Place&, int gpus);

}  // namespace paceline::measure
