#include "sim/strategy/memory.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/strategy/compression.h"
#include "sim/strategy/data_parallel.h"
#include "sim/strategy/ddp.h"
#include "sim/strategy/horovod.h"
#include "sim/strategy/optimizer.h"
#include "sim/strategy/sharding.h"

namespace paceline {
namespace {

// A count for what FSDP treats as one: each unit, and the root.
struct UnitCounts {
  std::vector<std::int64_t> units;
  std::int64_t root = 0;
  std::int64_t all() const { return std::accumulate(units.begin(), units.end(), root); }
  std::int64_t largest_unit() const { return units.empty() ? 0 : std::ranges::max(units); }
};

template <class Count>
UnitCounts count(const std::vector<FsdpUnit>& units, const Model& model, const Count& of_layer) {
  const auto sum = [&](std::size_t first, std::size_t end) {
    std::int64_t total = 0;
    for (std::size_t l = first; l < end; ++l) {
      total += of_layer(model.layers[l]);
    }
    return total;
  };
  UnitCounts counts{{}, sum(0, model.layers.size())};
  for (const FsdpUnit& unit : units) {
    counts.units.push_back(sum(unit.first, unit.end()));
    counts.root -= counts.units.back();
  }
  return counts;
}

std::int64_t outputs(const Layer& layer) { return layer.output_elements; }
std::int64_t parameters(const Layer& layer) {
  return std::accumulate(layer.parameters.begin(), layer.parameters.end(), std::int64_t{0});
}

// The root, two consecutive units, and what the units before them keep of the forward pass.
std::int64_t gathered_at_most(const UnitCounts& parameters, const ReshardAfterForward& reshard,
                              std::int64_t shard_group) {
  const auto kept = [&](std::int64_t unit) {
    const std::int64_t within = reshard.within;
    const bool apart = within > 0 && within < shard_group;
    return !reshard.reshards ? unit : apart ? (unit + within - 1) / within : 0;
  };
  std::int64_t most = 0, before = 0;
  for (std::size_t i = 0; i < parameters.units.size(); ++i) {
    const std::int64_t next = i + 1 < parameters.units.size() ? parameters.units[i + 1] : 0;
    most = std::max(most, before + parameters.units[i] + next);
    before += kept(parameters.units[i]);
  }
  return parameters.root + most;
}

// Of so many elements of a sample: an estimate, which may be beyond all bounds.
Bytes of_batch(const TrainingSpec& training, std::int64_t elements, Precision precision) {
  constexpr double kMost = 1LL << 60;
  const double all = static_cast<double>(elements) * static_cast<double>(training.batch_per_gpu) *
                     static_cast<double>(bytes_per_element(precision));
  return Bytes(static_cast<std::int64_t>(std::min(all, kMost)));
}

struct MemoryOf {
  const Model& model;
  const TrainingSpec& training;
  const RankLayout& job;

  // Ranks that share what is kept: 1 for what each rank keeps whole.
  struct SharedBy {
    std::uint32_t parameters = 1, gradients = 1, optimizer = 1;
  };

  GpuMemory operator()(const DdpSpec& ddp) const { return ddp_memory(ddp, {}); }

  GpuMemory operator()(const FsdpSpec& fsdp) const {
    const std::uint32_t n = shard_ranks(fsdp.shard_group, job);
    GpuMemory memory;
    memory.parameters = memory.gradients = shard(n, training.parameters);
    memory.optimizer = moments(n);
    memory.gathered = gathered(fsdp);
    add_units(fsdp, memory);
    return memory;
  }

  GpuMemory operator()(const ZeroSpec& zero) const {
    if (zero.stage == 1) {
      return ddp_memory(training.ddp, {.optimizer = job.ranks()});
    }
    const FsdpSpec fsdp = fsdp_of(zero, training.fsdp);
    const std::uint32_t n = shard_ranks(fsdp.shard_group, job);
    GpuMemory memory = model_states({zero.stage == 3 ? n : 1, n, n});
    memory.gathered = zero.stage == 3 ? gathered(fsdp) : Bytes(0);  // stage 2 keeps its copy
    add_units(fsdp, memory);
    return memory;
  }

  // The servers keep the optimizer's state and its master copy.
  GpuMemory operator()(const ParameterServerSpec&) const {
    GpuMemory memory = alone();
    memory.optimizer = Bytes(0);
    return memory;
  }

  // Of the first GPU, which needs most: it also holds what all give out, with its gradient, the sums of gradients
  // beside its own, and the optimizer's state.
  GpuMemory operator()(const DataParallelSpec&) const {
    GpuMemory memory = alone();
    memory.gathered = std::int64_t{2} * job.ranks() * gathered_outputs(model, training);
    memory.buckets = memory.gradients;
    return memory;
  }

  // Joined gradients are a copy of them; who sums holds what all others have sent: the first GPU, or each its part; of
  // halves what its own and the other have.
  GpuMemory operator()(const MirroredSpec& mirrored) const {
    GpuMemory memory = alone();
    memory.buckets = copies_of_gradients(mirrored) * memory.gradients;
    return memory;
  }

  // The buffer for fusions, and the gradients in fp16 beside those that they came from.
  GpuMemory operator()(const HorovodSpec& horovod) const {
    GpuMemory memory = alone();
    memory.buckets = fusion_buffer(horovod, job.gpus_per_node);
    if (casts(horovod, training)) {
      memory.buckets = memory.buckets + bytes(parameter_count(model), Precision::fp16);
    }
    return memory;
  }

  // What is averaged at once, beside DDP's buckets where there are any.
  GpuMemory operator()(const LocalSgdSpec& local) const {
    GpuMemory memory = alone();
    const bool buckets = local.group != LocalGroup::none && !training.ddp.gradient_as_bucket_view;
    memory.buckets =
        bytes(parameter_count(model), training.parameters) + (buckets ? memory.gradients : Bytes(0));
    return memory;
  }

  GpuMemory alone() const {
    GpuMemory memory = model_states({});
    memory.activations = activations();
    return memory;
  }

 private:
  std::int64_t copies_of_gradients(const MirroredSpec& mirrored) const {
    const std::int64_t packs = mirrored.num_packs.value_or(1), joined = packs > 0 ? 1 : 0;
    switch (mirrored.cross_device_ops) {
      case CrossDeviceOps::nccl:
        return joined;
      case CrossDeviceOps::nccl_then_ring:  // in place, but for a chunk
        return 0;
      case CrossDeviceOps::reduction_to_one_device:
        return job.ranks() - 1;
      case CrossDeviceOps::hierarchical_copy:  // one pack: on its two GPUs; many: a part of it on each
        return joined + (packs == 1 ? job.ranks() / 2 : 1);
      case CrossDeviceOps::multi_worker:
      case CrossDeviceOps::copy_to_devices:
        break;
    }
    return 1;
  }
  static Bytes bytes(std::int64_t elements, Precision precision) {
    return Bytes(elements * bytes_per_element(precision));
  }
  Bytes activations() const { return of_batch(training, outputs_kept(), kept_in(training.precision)); }
  std::int64_t elements_each(std::uint32_t ranks) const {
    return shard_elements(model, 0, static_cast<std::uint32_t>(model.layers.size()), ranks);
  }
  Bytes shard(std::uint32_t ranks, Precision precision) const {
    return bytes(elements_each(ranks), precision);
  }
  Bytes moments(std::uint32_t ranks) const { return optimizer_moments(training, elements_each(ranks)); }

  // A copy of the parameters for the kernels, gradients, and the optimizer's state with its master copy,
  // which is the kernels' where both have one format.
  GpuMemory model_states(const SharedBy& ranks) const {
    const Precision copy = kept_in(training.precision);
    const bool copy_is_master = same_format(training.parameters, copy);
    GpuMemory memory;
    memory.parameters = shard(ranks.parameters, copy);
    memory.gradients = shard(ranks.gradients, training.gradients);
    memory.optimizer =
        moments(ranks.optimizer) + (copy_is_master ? Bytes(0) : shard(ranks.optimizer, training.parameters));
    return memory;
  }

  GpuMemory ddp_memory(const DdpSpec& ddp, const SharedBy& ranks) const {
    GpuMemory memory = alone();
    memory.optimizer = model_states(ranks).optimizer;
    const bool views = ddp.gradient_as_bucket_view || reduction_rule(ddp.reduction).in_place;
    memory.buckets =
        (views ? Bytes(0) : memory.gradients) + kept_by_hook(training.compression, memory.gradients);
    memory.gathered = gathered_by_hook(training.compression, parameter_count(model), job.ranks());
    return memory;
  }

  Bytes gathered(const FsdpSpec& fsdp) const {
    const Precision format = gathered_format(fsdp, training.precision);
    const UnitCounts each = count(units_of(fsdp.units, model), model, [&](const Layer& layer) {
      return parameters(layer) * gathered_bytes(format, layer);
    });
    return Bytes(gathered_at_most(each, fsdp.reshard_after_forward, shard_ranks(fsdp.shard_group, job)));
  }

  // Whole gradients are the root's, whose layers are not behind each other, and a unit's; under no_sync the sums of all,
  // which are in the format that they are reduced in. Beside them stands what a reduce-scatter reads.
  void add_units(const FsdpSpec& fsdp, GpuMemory& memory) const {
    const std::vector<FsdpUnit> units = units_of(fsdp.units, model);
    const UnitCounts elements = count(units, model, parameters);
    const Precision wire = fsdp.reduce_precision.value_or(training.gradients);
    const bool sums = training.accumulation > 1 && !reduces_each_pass(training);
    const bool apart = sums && !same_format(wire, training.gradients);  // not where gradients arrive
    const std::int64_t arriving = elements.root + elements.largest_unit();
    memory.buckets = bytes(sums && !apart ? elements.all() : arriving, training.gradients) +
                     bytes(apart ? elements.all() : 0, wire) +
                     bytes(std::max(elements.root, elements.largest_unit()), wire);
    memory.activations = activations();
  }

  // Of a sample. A recomputed unit keeps its last output, and what doesn't run again; of one there is all, as of all
  // other layers. Operators are chosen in blocks, whatever FSDP's units. Never more than without.
  std::int64_t outputs_kept() const {
    const std::int64_t all = count({}, model, outputs).all();
    std::vector<FsdpUnit> units = recomputed_units(training, model);
    const bool by_operators = training.activation_checkpointing == ActivationCheckpointing::selective_op;
    if (const std::vector<FsdpUnit> blocks = units_of({}, model); by_operators && !blocks.empty()) {
      units = blocks;
    }
    std::int64_t kept = all, largest = 0;
    for (const FsdpUnit& unit : units) {
      const std::vector<std::uint32_t> layers = recomputed_layers(training, model, unit);
      std::int64_t again = 0;
      for (const std::uint32_t l : layers) {
        again += outputs(model.layers[l]);
      }
      largest = std::max(largest, again);
      kept += outputs(model.layers[by_operators ? unit.end() - 1 : layers.back()]) - again;
    }
    return std::min(kept + largest, all);
  }
};

// The logits are the largest product behind all blocks; log_softmax's output, its gradient, and theirs are in fp32.
Bytes unfused_loss(const Model& model, const TrainingSpec& training) {
  constexpr std::int64_t kCopies = 3;
  std::int64_t logits = 0;
  const std::vector<FsdpUnit> blocks = units_of({}, model);
  for (std::size_t l = blocks.empty() ? 0 : blocks.back().end(); l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    logits = std::max(logits, model.tokens > 0 && layer.kind == LayerKind::linear ? outputs(layer) : 0);
  }
  return of_batch(training, kCopies * logits, Precision::fp32);
}

}  // namespace

GpuMemory memory_of(const Strategy& strategy, const Model& model, const TrainingSpec& training,
                    const RankLayout& job) {
  const MemoryOf memory{model, training, job};
  const bool serves = std::holds_alternative<ParameterServerSpec>(strategy);
  GpuMemory all = job.ranks() == 1 && !serves ? memory.alone() : std::visit(memory, strategy);
  all.unfused_loss = unfused_loss(model, training);
  return all;
}

}  // namespace paceline
