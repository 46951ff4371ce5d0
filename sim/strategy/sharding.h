// How parameters are sharded: FSDP's units, whose layers are gathered and reduced at once, and what a rank
// keeps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/time.h"
#include "kernels/cost_model.h"
#include "kernels/model.h"
#include "sim/collective/family.h"
#include "sim/training.h"

namespace paceline {

struct FsdpUnit {
  std::string name;                    // "layers.7", "root"
  std::uint32_t first = 0, count = 0;  // layers
  std::uint32_t end() const { return first + count; }
};

// In the order of the layers, which are the root's where they are in none. Blocks: consecutive layers whose
// names agree up to the first part that is a number ("layers.7.wq" and "layers.7.wk"); those without
// parameters are the root's. Throws InputError (place /training/fsdp/units) where counts don't add up to the
// model's layers, or a unit that was asked for has no parameters.
std::vector<FsdpUnit> units_of(const FsdpUnits&, const Model&);

// Units whose forward runs again before their backward: FSDP's where it shards, else the model's blocks, all or each
// so manyth; what is in no block (embeddings, a head) is in none of them where the model has blocks. None without
// activation checkpointing. Throws InputError as units_of does.
std::vector<FsdpUnit> recomputed_units(const TrainingSpec&, const Model&);

// Layers of such a unit that run again. With selective_op a block keeps what attention, convolutions, products with a
// bias (a second tensor) or in fp8, and every other of the rest wrote, from the first on: pytorch/torchtitan,
// distributed/activation_checkpoint.py (SelectiveAC), which counts aten.mm alone; the others are aten.addmm and
// aten._scaled_mm, which it keeps since March 2026.
std::vector<std::uint32_t> recomputed_layers(const TrainingSpec&, const Model&, const FsdpUnit&);

// Whether any of these has work, not memory alone.
bool recomputes_products(const TrainingSpec&, const Model&);

// Throws InputError unless groups of so many consecutive ranks use their nodes alike.
void require_alike_on_nodes(std::int64_t ranks, const RankLayout&, const std::string& place);

// How many consecutive ranks share one copy of the parameters. Throws InputError (place
// /training/fsdp/shard_group) unless they are 2 or more, divide all ranks, and use their nodes alike.
std::uint32_t shard_ranks(const ShardGroup&, const RankLayout&);

// Elements that each of `ranks` keeps of these layers' tensors. Each is padded to the next multiple of
// `ranks`: PyTorch pads rows of dimension 0, which a model doesn't know.
std::int64_t shard_elements(const Model&, std::uint32_t first, std::uint32_t count, std::uint32_t ranks);

// Of units that are gathered.
Precision gathered_format(const FsdpSpec&, Precision kernels);
// Bytes of an element of a layer's parameters in it: with fp8 the blocks' products alone have one (torchao's
// enable_fsdp_float8_all_gather), all else is in 16 bits.
std::int64_t gathered_bytes(Precision format, const Layer&);

// Of a shard in memory, from one format to another: read and written once; none where they are the same.
SimTime cast_time(const GpuCosts&, std::int64_t elements, Precision from, Precision to);

}  // namespace paceline
