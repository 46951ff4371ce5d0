#include "scenarios/gpu_memory.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "scenarios/readable.h"
#include "scenarios/writer.h"
#include "sim/strategy/sharding.h"

namespace paceline {
namespace {

// In powers of 1000, to a tenth; readable_size has powers of 1024.
std::string decimal_size(Bytes size) {
  const double bytes = static_cast<double>(size.value);
  return bytes < 1e8 ? fixed(bytes * 1e-6, 1) + " MB" : fixed(bytes * 1e-9, 1) + " GB";
}

RankLayout layout_of(const Scenario& s) {
  return {static_cast<std::uint32_t>(nodes_of_job(s.cluster)),
          static_cast<std::uint32_t>(gpus_of_node(s.cluster))};
}

// What FSDP can't shard so needs more than any GPU has.
Bytes needs(const Scenario& s) {
  try {
    return memory_of(s).total();
  } catch (const InputError&) {
    return Bytes(std::numeric_limits<std::int64_t>::max());
  }
}
bool fits(const Scenario& s) { return needs(s) <= memory_of_gpu(s); }

// Settings, as --set takes them, and what they make of the scenario.
struct Alternative {
  std::vector<std::string> settings;
  Scenario changed;
};

std::string text_of(const Alternative& alternative) { return joined(alternative.settings, " and "); }

// The largest batch that fits, of what doesn't; not below 1.
Alternative smaller_batch(Alternative a) {
  std::int64_t& batch = a.changed.training.batch_per_gpu;
  std::int64_t fitting = 1, larger = batch;
  while (fitting + 1 < larger) {
    batch = fitting + (larger - fitting) / 2;
    (fits(a.changed) ? fitting : larger) = batch;
  }
  batch = fitting;
  a.settings.push_back("/training/batch_per_gpu=" + std::to_string(fitting));
  return a;
}

Alternative recomputing(Alternative a, ActivationCheckpointing kind) {
  TrainingSpec& training = a.changed.training;
  a.settings.push_back(training.recompute_every > 1
                           ? "/training/recompute_every=1"
                           : "/training/activation_checkpointing=" + std::string(name_of(kind)));
  training.activation_checkpointing = kind;
  training.recompute_every = 1;
  return a;
}

// By FSDP; over all GPUs, where the scenario has groups of them or keeps parameters gathered.
Alternative sharded(const Scenario& scenario, bool over_all) {
  Alternative a{{"/training/strategy=fsdp"}, scenario};
  TrainingSpec& training = a.changed.training;
  training.strategy = StrategyKind::fsdp;
  if (over_all) {
    const std::int64_t ranks = layout_of(scenario).ranks();
    a.settings.push_back("/training/fsdp/shard_group=" + std::to_string(ranks));
    a.settings.emplace_back("/training/fsdp/reshard_after_forward=true");
    training.fsdp.shard_group = {.ranks = ranks};
    training.fsdp.reshard_after_forward = {};
  }
  return a;
}

// What shards has none.
Alternative without_hooks(Alternative a) {
  TrainingSpec& training = a.changed.training;
  if (fully_shards(training) && training.compression.kind != CompressionKind::none) {
    a.settings.emplace_back("/training/compression=none");
    training.compression = {};
  }
  return a;
}

// From pass to pass, though they are sharded after the last.
bool keeps_whole_gradients(const TrainingSpec& training) {
  return fully_shards(training) && training.accumulation > 1 && !reduces_each_pass(training);
}

// Whole gradients are dropped, too, where all doesn't fit without.
void add_alternative(Alternative a, std::vector<Alternative>& all) {
  if (keeps_whole_gradients(a.changed.training) && !fits(a.changed)) {
    a.settings.emplace_back("/training/no_sync=false");
    a.changed.training.no_sync = false;
  }
  all.push_back(std::move(a));
}

// Of the last, where that doesn't fit either.
void add_smaller_batch(std::vector<Alternative>& all) {
  if (!fits(all.back().changed)) {
    all.push_back(smaller_batch(all.back()));
  }
}

// Whether selective_op has products to run again.
bool may_select(const Scenario& s) {
  TrainingSpec by_operators = s.training;
  by_operators.activation_checkpointing = ActivationCheckpointing::selective_op;
  return s.model.tokens > 0 && !recomputes(s.training) && recomputes_products(by_operators, s.model);
}

void add_checkpointing(const Scenario& scenario, std::vector<Alternative>& all) {
  using enum ActivationCheckpointing;
  const TrainingSpec& training = scenario.training;
  if (may_select(scenario)) {
    add_alternative(recomputing({{}, scenario}, selective_op), all);
  }
  if (training.recompute_every > 1 || training.activation_checkpointing != full) {
    add_alternative(recomputing({{}, scenario}, full), all);
    add_smaller_batch(all);
  }
}

// Whether the job could have another strategy: Gloo's and TensorFlow's collectives, and DDP's join, are of theirs
// alone.
bool may_shard(const TrainingSpec& training) {
  const CollectiveLibrary library = training.collective.library;
  return (library == CollectiveLibrary::nccl || library == CollectiveLibrary::mpi) && !training.ddp.join;
}

void add_sharding(const Scenario& scenario, std::vector<Alternative>& all) {
  using enum ActivationCheckpointing;
  for (const int stage : {1, 2}) {
    Alternative zero{{"/training/strategy=zero", "/training/zero/stage=" + std::to_string(stage)}, scenario};
    zero.changed.training.strategy = StrategyKind::zero;
    zero.changed.training.zero.stage = stage;
    add_alternative(without_hooks(std::move(zero)), all);
  }
  const FsdpSpec& now = scenario.training.fsdp;
  const bool in_parts = now.shard_group != ShardGroup{} || now.reshard_after_forward != ReshardAfterForward{};
  for (const bool over_all : in_parts ? std::vector{false, true} : std::vector{false}) {
    const Alternative fsdp = sharded(scenario, over_all);
    add_alternative(without_hooks(fsdp), all);
    if (may_select(scenario)) {
      add_alternative(without_hooks(recomputing(fsdp, selective_op)), all);
    }
    add_alternative(without_hooks(recomputing(fsdp, full)), all);
  }
  add_smaller_batch(all);
}

// What is nearest to the scenario first.
std::vector<Alternative> alternatives(const Scenario& scenario) {
  std::vector<Alternative> all{smaller_batch({{}, scenario})};
  if (keeps_whole_gradients(scenario.training)) {
    add_alternative({{}, scenario}, all);
  }
  add_checkpointing(scenario, all);
  if (may_shard(scenario.training)) {
    add_sharding(scenario, all);
  }
  return all;
}

// Batches of their own, say, may be refused with another strategy.
bool accepted(const Scenario& s) {
  try {
    parse_scenario(to_text(scenario_json(s)), "");
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

GpuMemory memory_of(const Scenario& s) {
  return memory_of(strategy_of(s.training), s.model, s.training, layout_of(s));
}

Bytes memory_of_gpu(const Scenario& s) {
  Bytes least = s.gpu.memory;
  for (const GpuKind& kind : s.gpus) {
    least = std::min(least, kind.gpu.memory);
  }
  return least;
}

Json::Object memory_json(const GpuMemory& m, Bytes gpu) {
  const bool known = gpu.value > 0;
  return {{"parameters_bytes", m.parameters.value},
          {"gradients_bytes", m.gradients.value},
          {"optimizer_bytes", m.optimizer.value},
          {"model_states_bytes", m.model_states().value},
          {"gathered_bytes", m.gathered.value},
          {"buckets_bytes", m.buckets.value},
          {"activations_bytes", m.activations.value},
          {"unfused_loss_bytes", m.unfused_loss.value},
          {"total_bytes", m.total().value},
          {"gpu_bytes", known ? Json(gpu.value) : Json()},
          {"fits", known ? Json(m.total() <= gpu) : Json()}};
}

std::string memory_text(const GpuMemory& m, Bytes gpu) {
  return decimal_size(m.total()) +
         (gpu.value > 0 ? " of " + decimal_size(gpu) + " (" + readable_size(gpu) + ")" : "");
}

std::string memory_parts_text(const GpuMemory& m) {
  std::string text = "model states " + decimal_size(m.model_states());
  for (const auto& [name, size] : {std::pair{"gathered", m.gathered}, {"buckets", m.buckets}}) {
    text += size.value > 0 ? std::string(", ") + name + ' ' + decimal_size(size) : "";
  }
  return text + ", activations " + decimal_size(m.activations) + " (estimate)";
}

std::string loss_text(const GpuMemory& m, Bytes gpu) {
  constexpr std::int64_t kLittle = 50;
  return m.unfused_loss.value <= m.total().value / kLittle
             ? ""
             : "a loss that no kernel fuses takes " + decimal_size(m.unfused_loss) + " more" +
                   (gpu.value > 0 && m.total() + m.unfused_loss > gpu ? ", with which it doesn't fit" : "");
}

std::string does_not_fit(const Scenario& s) {
  const GpuMemory m = memory_of(s);
  const Bytes gpu = memory_of_gpu(s);
  return gpu.value == 0 || m.total() <= gpu
             ? ""
             : "does not fit: " + memory_text(m, gpu) + ": " + memory_parts_text(m);
}

std::string too_few_left(const Scenario& s) {
  if (!s.faults || !s.faults->elastic || s.faults->step) {
    return "";
  }
  const int least = s.faults->elastic->min_nodes;
  const Scenario left = on_nodes_left(s, least);
  if (does_not_fit(left).empty()) {
    return "";
  }
  int few = least, enough = nodes_of_job(s.cluster) + 1;
  while (few + 1 < enough) {
    const int nodes = few + (enough - few) / 2;
    (does_not_fit(on_nodes_left(s, nodes)).empty() ? enough : few) = nodes;
  }
  return "with " + plural(least, "node") + ", with which the job goes on, it does not fit: " +
         memory_text(memory_of(left), memory_of_gpu(left)) +
         (enough <= nodes_of_job(s.cluster) ? "; " + plural(enough, "node") + " are the fewest" : "");
}

std::vector<std::string> settings_that_fit(const Scenario& scenario) {
  constexpr std::size_t kMost = 5;
  Bytes least = memory_of_gpu(scenario) + Bytes(1);
  std::vector<std::string> settings;
  for (const Alternative& alternative : alternatives(scenario)) {
    const Bytes with = needs(alternative.changed);
    if (settings.size() < kMost && with < least && accepted(alternative.changed)) {
      settings.push_back(text_of(alternative) + " (" + decimal_size(with) + ')');
      least = with;
    }
  }
  return settings;
}

std::string what_would_fit(const Scenario& scenario) {
  std::string text;
  for (const std::string& settings : settings_that_fit(scenario)) {
    text += (text.empty() ? "it would fit with " : "; ") + settings;
  }
  if (!text.empty()) {
    return text;
  }
  const bool shards = std::ranges::any_of(alternatives(scenario), [](const Alternative& each) {
    return fully_shards(each.changed.training) && accepted(each.changed);
  });
  return shards ? "nor would one sample with all sharded and recomputed: it takes more or larger GPUs, or a "
                  "smaller model"
                : "nor would one sample, and with what else is said nothing can be sharded: "
                  "it takes larger GPUs, or a smaller model";
}

void require_fit(const Scenario& s) {
  if (memory_of_gpu(s).value == 0) {
    throw InputError("expected the memory of " + s.gpu.name + ", or nobody knows whether it fits",
                     "/cluster/gpu/memory");
  }
  if (const std::string why = does_not_fit(s); !why.empty()) {
    throw InputError(why + "; " + what_would_fit(s), "/training");
  }
  if (const std::string why = too_few_left(s); !why.empty()) {
    throw InputError(why, "/faults/elastic/min_nodes");
  }
}

}  // namespace paceline
