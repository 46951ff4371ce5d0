// A job of any strategy.
#pragma once

#include "sim/job.h"
#include "sim/strategy/workload.h"

namespace paceline {

// The job on all ranks of the planner's communicator. One rank: plain training, whatever the strategy but
// parameter servers, whose place and routes are left to place_servers. Throws
// InputError (places below /training and /model) for what the strategy can't do.
TrainingJob build_job(const Strategy&, const Workload&, CollectivePlanner&);
// The same for ranks that are not alike.
TrainingJob build_job(const Strategy&, const MixedWork&, CollectivePlanner&);

// The job whose throughput defines a scaling efficiency of 1: one GPU of the same kind, batch, accumulation
// and jitter, no stragglers, no gradient exchange.
TrainingJob build_reference_job(const Workload&);

}  // namespace paceline
