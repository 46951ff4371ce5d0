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
  Bytes model_states() const { return parameters + gradients + optimizer; }
  Bytes total() const { return model_states() + gathered + buckets + activations; }
};

// Of each GPU (docs/model.md, "Memory"). One rank: plain training, whatever the strategy. Not counted:
// buffers of batch norms and NCCL, workspaces, fragmentation. Throws InputError as units_of and shard_ranks
// do.
GpuMemory memory_of(const Strategy&, const Model&, const TrainingSpec&, const RankLayout&);

// What the loss of a model of tokens holds beside that, where no kernel fuses it: the logits (the largest product behind
// all blocks) three times in fp32, log_softmax's output, its gradient, and theirs. 0 for other models.
Bytes unfused_loss(const Model&, const TrainingSpec&);

}  // namespace paceline
