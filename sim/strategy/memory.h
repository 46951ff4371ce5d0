// What training needs of a GPU's memory.
#pragma once

#include "kernels/model.h"
#include "sim/collective/family.h"
#include "sim/training.h"

namespace paceline {

struct GpuMemory {
  Bytes parameters, gradients, optimizer;  // the model states, kept from one step to the next
  Bytes gathered;                          // copies of sharded parameters while layers compute
  Bytes buckets;      // copies of gradients on their way, and sharded gradients while they are whole
  Bytes activations;  // an estimate
  // Not in total(): what the loss of a model of tokens holds where no kernel fuses it, an estimate.
  Bytes unfused_loss;
  Bytes model_states() const { return parameters + gradients + optimizer; }
  Bytes total() const { return model_states() + gathered + buckets + activations; }
};

// Of each GPU (docs/model.md, "Memory"). One rank: plain training, whatever the strategy. Not counted:
// buffers of batch norms and NCCL, workspaces, fragmentation. Throws InputError as units_of and shard_ranks
// do.
GpuMemory memory_of(const Strategy&, const Model&, const TrainingSpec&, const RankLayout&);

}  // namespace paceline
