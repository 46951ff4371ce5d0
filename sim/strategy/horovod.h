// Horovod's DistributedOptimizer (horovod/torch/optimizer.py over horovod/common).
#pragma once

#include <string>

#include "sim/collective/spec.h"
#include "sim/job.h"
#include "sim/strategy/program_builder.h"
#include "sim/strategy/workload.h"
#include "topology/topology.h"

namespace paceline {

// What a version does, by the tags of its repository (operations.cc, nccl_operations.cc, torch/mpi_ops_v2.cc).
struct HorovodRules {
  int minor = 0;  // since 0.minor
  Bytes threshold;
  Seconds cycle;
  bool cache = false;                        // of what was reduced before: the short way to agree
  bool polls = false;                        // the host looks every ms whether a reduction has ended
  bool waits_for_data = false;               // a background thread issues nothing before it exists
  bool hierarchical = false, torus = false;  // it has these
};

// Throws InputError for one that there isn't: "0.9" to "0.28".
HorovodRules horovod_rules(const std::string& version);

// Throws InputError for stages on one node, by a library other than NCCL, or that the version has not. Requires:
// several ranks. The topology that the planner is of outlives the job.
void add_horovod_programs(const HorovodSpec&, const Workload&, const CollectivePlanner&, PlanTable&,
                          TrainingJob&);

// With `hierarchical`: what its copies between GPUs and hosts take, whoever copies, and who plans all-reduces among
// hosts: OpenMPI, on this cluster. Throws InputError where a node has no CPU. Does nothing for other jobs.
// Requires: the topology is that of the cluster, and outlives the job.
void place_hosts(const Topology&, const ClusterUse&, const HorovodSpec&, TrainingJob&);

// Whether gradients are cast to fp16 and back: Compression.fp16 gives those that are fp16 back as they are.
bool casts(const HorovodSpec&, const TrainingSpec&);

// Its buffer for fusions.
Bytes fusion_buffer(const HorovodSpec&, std::uint32_t gpus_per_node);

}  // namespace paceline
