// tf_cnn_benchmarks' distributed_all_reduce with all_reduce_spec nccl/xring (scripts/tf_cnn_benchmarks/allreduce.py;
// tensorflow/python/distribute/v1/all_reduce.py, build_nccl_then_ring): each gradient is summed in each node, round a
// ring of the nodes' first GPUs, and broadcast in each node.
#pragma once

#include "sim/job.h"
#include "sim/strategy/program_builder.h"
#include "sim/strategy/workload.h"

namespace paceline {

// Adds the programs of each node's first GPU and of the others, for each of the works, their plans, and the families.
// Throws InputError for a ring of too many messages. Requires: several nodes; a job without roles.
void add_ring_of_nodes(const MixedWork&, PlanTable&, TrainingJob&);

}  // namespace paceline
