// Parameter servers: which server keeps what, and the programs of the workers.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collective/family.h"
#include "sim/job.h"
#include "sim/strategy/workload.h"
#include "topology/topology.h"

namespace paceline {

// What is pushed and pulled as one: consecutive elements of tensors that one server keeps.
struct Piece {
  std::uint32_t server = 0;
  std::uint32_t place = 0;  // with `aggregate`: of the GPU in its node that pushes it
  std::uint32_t layer = 0;  // the first that needs it, and the last whose backward pass completes it
  std::int64_t elements = 0, tensors = 0;
};

// In the order of the model's tensors; with ServerOverlap::none one for each server and pushing GPU. Whole
// tensors go to the server that has least bytes so far, of equal ones the first (TensorFlow's
// GreedyLoadBalancingStrategy with byte_size_load_fn); partitions to the next server. Throws InputError (place
// below /training/parameter_server) for more servers than tensors.
std::vector<Piece> pieces_of(const ParameterServerSpec&, const Model&, Precision gradients,
                             std::uint32_t gpus_per_node);

// The job's programs, members and shards. Throws InputError for what servers can't do.
void add_parameter_server_programs(const ParameterServerSpec&, const MixedWork&, const RankLayout&,
                                   TrainingJob&);

// Nodes that servers have to themselves, behind all others.
std::int64_t server_nodes(const TrainingSpec&);

// Puts the members on the cluster's GPUs and CPUs, and gives the job its messages' routes. Nothing for a job without
// servers. Requires: the topology's last server_nodes nodes are the servers'.
void place_servers(const Topology&, const ParameterServerSpec&, const RankLayout&, TrainingJob&);

}  // namespace paceline
