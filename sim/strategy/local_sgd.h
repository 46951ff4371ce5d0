// Local SGD, and post-local SGD, as programs.
#pragma once

#include "sim/job.h"
#include "sim/strategy/program_builder.h"

namespace paceline {

// Adds the warm-up and the steady program, and their plans. Steady iterations whose number the period divides end with
// an average of the parameters over all ranks: flattened (one kernel reads and writes them), divided (likewise), all
// waited for by the host, all-reduced, and copied back (a kernel for each tensor; unless `copy_back` is false).
// Iteration 0 is DDP's where there are steps of DDP before, else one that ends with an average, as
// PeriodicModelAverager's first does. Sources: sim/training.h. Throws InputError (places below /training) where
// `group` has no nodes to tell apart, and where ddp's options leave its hook no place. Requires: more than one
// rank, a model with parameters.
void add_local_sgd_programs(const LocalSgdSpec&, const Workload&, PlanTable&, TrainingJob&);

}  // namespace paceline
