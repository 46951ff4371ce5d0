// TensorFlow's MirroredStrategy and MultiWorkerMirroredStrategy as programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/job.h"
#include "sim/strategy/program_builder.h"

namespace paceline {

// What multi_worker reduces at once, of tensors in this order: a pack is closed when it holds more than
// `bytes_per_pack`; 0: one pack (tensorflow/python/distribute/cross_device_utils.py, group_by_size). Returns how
// many tensors each has.
std::vector<std::size_t> packs_by_size(std::span<const Bytes> sizes, Bytes bytes_per_pack);

// All elements in `packs` equal packs, the last one with what is left over (cross_device_ops.py,
// _ConcatAndSplitPacker). Packs that would be empty are left out.
std::vector<std::int64_t> equal_packs(std::int64_t elements, std::int64_t packs);

// Adds the programs of a rank, and their plans; where gradients are copied a role for each GPU, and the families that
// their messages go to. Sources: the same files, and collective_ops.py. Throws InputError for options that the kind has
// not, for several nodes where there is one process, for halves of an odd number of GPUs, and for libraries other than
// NCCL and, with multi_worker, TensorFlow's ring. Requires: more than one rank.
void add_mirrored_programs(const MirroredSpec&, const MixedWork&, PlanTable&, TrainingJob&);

}  // namespace paceline
