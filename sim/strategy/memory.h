// What DDP keeps on every GPU from one step to the next: the least that a training step needs.
#pragma once

#include <cstddef>

#include "kernels/model.h"
#include "sim/training.h"

namespace paceline {

struct TrainingMemory {
  Bytes parameters, gradients;
  Bytes buckets;    // copies of the gradients, where these are no views of them
  Bytes optimizer;  // SGD's momentum, or Adam's two moments
  Bytes total() const { return parameters + gradients + buckets + optimizer; }
};

// A lower bound: no activations, no buffers of batch norms or NCCL, no workspace. One rank trains without
// buckets.
TrainingMemory least_memory(const Model&, const TrainingSpec&, std::size_t ranks);

}  // namespace paceline
