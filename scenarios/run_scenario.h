// A scenario's run: one, or window after window with other batches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "scenarios/machines.h"
#include "scenarios/scenario.h"
#include "sim/engine/simulate.h"

namespace paceline {

struct Ran {
  std::shared_ptr<const Topology> topology;
  TrainingJob job;  // of several, the last
  Result result;
  std::vector<std::int64_t> batches{};  // by rank, where `balance` set them: at last
};

// With TrainingSpec::balance the windows follow one another, each with the batches that the speeds (samples by time of
// kernels) of the one before ask for, held to what fits; the first has all alike. Each begins with all GPUs together,
// behind a step that doesn't count. Throws InputError as Machines::build and simulate do, and for a limit too low.
Ran run_scenario(const Scenario&, const TraceRequest&, Machines&);

}  // namespace paceline
