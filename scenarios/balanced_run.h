// A run whose batches follow the GPUs' speeds: window after window.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "scenarios/machines.h"
#include "scenarios/scenario.h"
#include "sim/engine/simulate.h"

namespace paceline {

struct BalancedRun {
  std::shared_ptr<const Topology> topology;
  TrainingJob job;                    // of the last window
  Result result;                      // of all
  std::vector<std::int64_t> batches;  // by rank, of the last window
};

// Each window has the batches that the speeds (samples by time of kernels) of the one before ask for, held to
// what fits; the first has all alike. Each begins with all GPUs together, behind a step that doesn't count.
// Throws InputError as Machines::build and simulate do, and for a limit too low. Requires: TrainingSpec::balance.
BalancedRun run_balanced(Scenario, Machines&, const StepProgress& = {});

}  // namespace paceline
