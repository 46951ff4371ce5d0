// PyTorch fully_shard as programs
// (torch/distributed/fsdp/_fully_shard/{_fsdp_param_group,_fsdp_collectives}.py).
#pragma once

#include "sim/job.h"
#include "sim/strategy/program_builder.h"

namespace paceline {

// Adds the warm-up and the steady program, which are alike, and their plans (docs/model.md, "FSDP"). Throws
// InputError as units_of and shard_ranks do, and (place /training/fsdp/reshard_after_forward) where that
// doesn't divide the shard group. Requires: more than one rank, a model with parameters.
void add_fsdp_programs(const FsdpSpec&, const Workload&, PlanTable&, TrainingJob&);

// Throws so where these ranks can't shard as the training says, if it shards.
void require_shards(const TrainingSpec&, const RankLayout&);

}  // namespace paceline
