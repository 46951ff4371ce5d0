// PyTorch DistributedDataParallel as a job.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/model.h"
#include "sim/job.h"

namespace paceline {

// DDP's bucket rule (compute_bucket_assignment_by_size, reducer.cpp): append a tensor, then close the bucket
// when it holds at least its limit; the first bucket's limit is `first`, the others' `cap`; what is left over
// is the last bucket. Returns the tensors of each bucket as indices into `sizes`.
std::vector<std::vector<std::size_t>> assign_buckets(std::span<const Bytes> sizes, Bytes first, Bytes cap);

// The limits of DDP's buckets: 1 and 25 MiB; a cap that is given is the first bucket's too, unless that is
// given as well, or PyTorch is too old. Throws InputError for an unknown version.
struct BucketLimits {
  Bytes first, cap;
};
BucketLimits bucket_limits(const TrainingSpec&);

// The job of `training` on all ranks of the planner's communicator. One rank: plain training without DDP.
// Throws InputError (places below /training) when the GPU lacks the precision, a measured rate can't be
// reached, the number of explicit layer times differs from the model's, ...
TrainingJob build_ddp_job(const Model&, const GpuSpec&, const TrainingSpec&, const VariabilitySpec&,
                          CollectivePlanner&);

// The job whose throughput defines a scaling efficiency of 1: one GPU of the same kind, batch, accumulation
// and jitter, no stragglers, no gradient exchange.
TrainingJob build_reference_job(const Model&, const GpuSpec&, const TrainingSpec&, const VariabilitySpec&);

}  // namespace paceline
