// torch.nn.DataParallel: the GPUs of a node in one process, whose main thread, threads and first GPU all others
// wait for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/job.h"
#include "sim/strategy/program_builder.h"

namespace paceline {

// What is carried as one, in bytes: tensors are joined up to this (torch/nn/parallel/comm.py).
inline constexpr Bytes kDataParallelChunk{10'485'760};

// Consecutive tensors, by their sizes, that are reduced as one (torch/_utils.py, _take_tensors): a chunk is closed
// before the tensor that would exceed the limit. Returns how many each chunk has. Parameters are broadcast in chunks
// of another rule, DDP's (torch/csrc/utils/tensor_flatten.cpp): assign_buckets.
std::vector<std::size_t> reduced_chunks(std::span<const Bytes> sizes, Bytes limit);

// Bytes of what each GPU's part of a batch gives out, which the first GPU gathers: the last layer's outputs.
Bytes gathered_outputs(const Model&, const TrainingSpec&);

// A role for each GPU. Sources: torch/nn/parallel/{data_parallel,replicate,parallel_apply,_functions,comm}.py,
// torch/csrc/cuda/comm.cpp; docs/model.md, "torch.nn.DataParallel". Throws InputError for several nodes, and a library
// other than NCCL. Requires: more than one rank.
void add_data_parallel_programs(const Workload&, PlanTable&, TrainingJob&);

}  // namespace paceline
