// A scenario for PyTorch itself: what each rank of `python -m paceline.replay` does.
#pragma once

#include <string>

#include "scenarios/predict.h"

namespace paceline {

// JSON, one file for all ranks: layers with their parameters and times, the framework's options, the buckets that
// are expected, and by how much each rank is slower in each iteration: the draws of the simulation
// (python/paceline/replay/plan.py reads it). Throws InputError for what PyTorch would not do, or not as the
// scenario says.
std::string torch_plan(const Scenario&);

}  // namespace paceline
