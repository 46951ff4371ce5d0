// PyTorch DistributedDataParallel as programs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/job.h"
#include "sim/strategy/join.h"
#include "sim/strategy/program_builder.h"

namespace paceline {

// DDP's bucket rule (compute_bucket_assignment_by_size, reducer.cpp): append a tensor, then close the bucket
// when it holds at least its limit; the first bucket's limit is `first`, the others' `cap`; what is left over
// is the last bucket. Returns the tensors of each bucket as indices into `sizes`.
std::vector<std::vector<std::size_t>> assign_buckets(std::span<const Bytes> sizes, Bytes first, Bytes cap);

// How a framework reduces gradients. Sources: torch/csrc/distributed/c10d/reducer.cpp; Apex
// apex/parallel/distributed.py (message_size, delay_allreduce); Megatron-Core
// megatron/core/distributed/distributed_data_parallel.py (overlap_grad_reduce; without it: after_backward); NVIDIA's
// MXNet ResNet-50 of MLPerf (all gradients in one group, its configurations: no overlap with backward by default).
// Horovod (common/operations.cc, controller.cc: fusion threshold 64 MiB, 128 MiB since 0.21) takes what the host has
// queued when a cycle begins, and a host that runs ahead of its GPU has queued the whole backward pass by then: its
// fusions wait for the last gradients. Where the host is the slower one they overlap: the strategy horovod models that
// (horovod.h), these rules don't.
struct ReductionRule {
  Reduction reduction = Reduction::pytorch_ddp;
  bool overlapped = true;            // with backward; else once it has ended
  std::int64_t elements = 0;         // a bucket is closed when it holds as many; 0: `bytes`
  Bytes bytes;                       // 0: bucket_limits' own
  bool buffers = false;              // rank 0's are broadcast before each forward pass, unless told not to
  std::int64_t elements_a_rank = 0;  // or when it holds as many for each rank, if that is more
  bool in_place = false;             // the optimizer reads the buckets
};
ReductionRule reduction_rule(Reduction);

// The limits of DDP's buckets: 1 and 25 MiB; a cap that is given is the first bucket's too, unless that is
// given as well, or PyTorch is too old. Another reduction's rule has one limit. Throws InputError for an unknown
// version.
struct BucketLimits {
  Bytes first, cap;
};
BucketLimits bucket_limits(const DdpSpec&, Precision gradients, const std::string& pytorch,
                           std::int64_t ranks);

// The buckets of all iterations but the first, in the order of their reduction: tensors by their number in the order
// of registration, those that become ready first at the front. Throws InputError as bucket_limits does.
std::vector<std::vector<std::size_t>> ddp_buckets(const DdpSpec&, const Model&, Precision gradients,
                                                  const std::string& pytorch, std::int64_t ranks);

// What a strategy that is DDP otherwise has of its own.
struct DdpUse {
  std::optional<ZeroSpec> zero{};      // stage 1: each rank updates its part of the parameters
  bool hook_divides = false;           // a communication hook divides a full bucket; copies into it don't
  GroupShape reduced_in = kAllRanks;   // who all-reduce buckets; buffers and which parameters were used: all
  std::optional<JoinedInput> input{};  // of a rank that joins when it has none left
};

// The programs of iteration 0 and of the others; their plans are added. Throws InputError as bucket_limits does.
// Requires: more than one rank, a model with parameters.
Program ddp_warm_up(const DdpSpec&, const DdpUse&, const Workload&, PlanTable&);
Program ddp_steady(const DdpSpec&, const DdpUse&, const Workload&, PlanTable&);

// Adds both.
void add_ddp_programs(const DdpSpec&, const DdpUse&, const Workload&, PlanTable&, TrainingJob&);

}  // namespace paceline
