#include "scenarios/gpu_memory.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "scenarios/readable.h"
#include "scenarios/writer.h"
#include "sim/strategy/sharding.h"

namespace paceline {
namespace {

std::string gigabytes(Bytes size) {
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
  std::string settings;
  Scenario changed;
};

// The largest batch that fits, of what doesn't; not below 1.
Alternative smaller_batch(std::string settings, Scenario s) {
  std::int64_t fitting = 1, larger = s.training.batch_per_gpu;
  while (fitting + 1 < larger) {
    s.training.batch_per_gpu = fitting + (larger - fitting) / 2;
    (fits(s) ? fitting : larger) = s.training.batch_per_gpu;
  }
  s.training.batch_per_gpu = fitting;
  settings += (settings.empty() ? "" : " and ") + ("/training/batch_per_gpu=" + std::to_string(fitting));
  return {std::move(settings), std::move(s)};
}

// Whether the job could have another strategy: Gloo's and TensorFlow's collectives, and DDP's join, are of theirs alone.
bool may_shard(const TrainingSpec& training) {
  const CollectiveLibrary library = training.collective.library;
  return (library == CollectiveLibrary::nccl || library == CollectiveLibrary::mpi) && !training.ddp.join;
}

// What is nearest to the scenario first.
std::vector<Alternative> alternatives(const Scenario& scenario) {
  std::vector<Alternative> all{smaller_batch("", scenario)};
  const bool in_part = scenario.training.recompute_every > 1,
             all_again =
                 !in_part && scenario.training.activation_checkpointing == ActivationCheckpointing::full;
  const std::string checkpointing =
      in_part ? "/training/recompute_every=1" : "/training/activation_checkpointing=full";
  // Whole gradients are dropped, too, where all doesn't fit without.
  const auto push = [&](const std::string& settings, const Scenario& changed) {
    all.push_back({settings, changed});
    TrainingSpec& training = all.back().changed.training;
    if (fully_shards(training) && training.accumulation > 1 && !reduces_each_pass(training) &&
        !fits(all.back().changed)) {
      training.no_sync = false;
      all.back().settings += (settings.empty() ? "" : " and ") + std::string("/training/no_sync=false");
    }
  };
  if (fully_shards(scenario.training) && scenario.training.accumulation > 1 &&
      !reduces_each_pass(scenario.training)) {
    push("", scenario);
  }
  const std::string by_operators_setting = "/training/activation_checkpointing=selective_op";
  Scenario by_operators = scenario;
  by_operators.training.activation_checkpointing = ActivationCheckpointing::selective_op;
  const bool selects = scenario.model.tokens > 0 && !recomputes(scenario.training) &&
                       recomputes_products(by_operators.training, scenario.model);
  if (selects) {
    push(by_operators_setting, by_operators);
  }
  if (!all_again) {
    Scenario changed = scenario;
    changed.training.activation_checkpointing = ActivationCheckpointing::full;
    changed.training.recompute_every = 1;
    push(checkpointing, changed);
    if (!fits(all.back().changed)) {
      all.push_back(smaller_batch(all.back().settings, all.back().changed));
    }
  }
  if (!may_shard(scenario.training)) {
    return all;
  }
  const auto add = [&](std::string settings, const auto& change) {
    Scenario changed = scenario;
    change(changed.training);
    if (fully_shards(changed.training) && changed.training.compression.kind != CompressionKind::none) {
      changed.training.compression = {};
      settings += " and /training/compression=none";
    }
    push(settings, changed);
  };
  for (const int stage : {1, 2}) {
    add("/training/strategy=zero and /training/zero/stage=" + std::to_string(stage), [&](TrainingSpec& t) {
      t.strategy = StrategyKind::zero;
      t.zero.stage = stage;
    });
  }
  const std::int64_t ranks = layout_of(scenario).ranks();
  const std::string within = " and /training/fsdp/shard_group=" + std::to_string(ranks) +
                             " and /training/fsdp/reshard_after_forward=true";
  const FsdpSpec& now = scenario.training.fsdp;
  const bool in_parts = now.shard_group != ShardGroup{} || now.reshard_after_forward != ReshardAfterForward{};
  std::vector<std::pair<std::string, ActivationCheckpointing>> checkpointings{
      {"", scenario.training.activation_checkpointing}};
  if (selects) {
    checkpointings.emplace_back(" and " + by_operators_setting, ActivationCheckpointing::selective_op);
  }
  checkpointings.emplace_back(" and " + checkpointing, ActivationCheckpointing::full);
  for (const bool of_all : in_parts ? std::vector{false, true} : std::vector{false}) {
    for (const auto& also : checkpointings) {
      add("/training/strategy=fsdp" + (of_all ? within : "") + also.first, [&](TrainingSpec& t) {
        t.strategy = StrategyKind::fsdp;
        if (of_all) {
          t.fsdp.shard_group = {.ranks = ranks};
          t.fsdp.reshard_after_forward = {};
        }
        t.activation_checkpointing = also.second;
        t.recompute_every = also.first.empty() ? t.recompute_every : 1;
      });
    }
  }
  if (!fits(all.back().changed)) {
    all.push_back(smaller_batch(all.back().settings, all.back().changed));
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
  return gigabytes(m.total()) +
         (gpu.value > 0 ? " of " + gigabytes(gpu) + " (" + readable_size(gpu) + ")" : "");
}

std::string memory_parts_text(const GpuMemory& m) {
  std::string text = "model states " + gigabytes(m.model_states());
  for (const auto& [name, size] : {std::pair{"gathered", m.gathered}, {"buckets", m.buckets}}) {
    text += size.value > 0 ? std::string(", ") + name + ' ' + gigabytes(size) : "";
  }
  return text + ", activations " + gigabytes(m.activations) + " (estimate)";
}

std::string loss_text(const GpuMemory& m, Bytes gpu) {
  constexpr std::int64_t kLittle = 50;
  return m.unfused_loss.value <= m.total().value / kLittle
             ? ""
             : "a loss that no kernel fuses takes " + gigabytes(m.unfused_loss) + " more" +
                   (gpu.value > 0 && m.total() + m.unfused_loss > gpu ? ", with which it doesn't fit" : "");
}

std::string does_not_fit(const Scenario& s) {
  const GpuMemory m = memory_of(s);
  const Bytes gpu = memory_of_gpu(s);
  return gpu.value == 0 || m.total() <= gpu
             ? ""
             : "does not fit: " + memory_text(m, gpu) + ": " + memory_parts_text(m);
}

std::vector<std::string> settings_that_fit(const Scenario& scenario) {
  constexpr std::size_t kMost = 5;
  Bytes least = memory_of_gpu(scenario) + Bytes(1);
  std::vector<std::string> settings;
  for (const Alternative& alternative : alternatives(scenario)) {
    const Bytes with = needs(alternative.changed);
    if (settings.size() < kMost && with < least && accepted(alternative.changed)) {
      settings.push_back(alternative.settings + " (" + gigabytes(with) + ')');
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
                  "smaller "
                  "model"
                : "nor would one sample, and with what else is said nothing can be sharded: it takes larger "
                  "GPUs, or a "
                  "smaller model";
}

void require_fit(const Scenario& s) {
  if (memory_of_gpu(s).value == 0) {
    throw InputError("expected the memory of " + s.gpu.name + ", or nobody knows whether it fits",
                     "/cluster/gpu/memory");
  }
  if (const std::string why = does_not_fit(s); !why.empty()) {
    throw InputError(why + "; " + what_would_fit(s), "/training");
  }
}

}  // namespace paceline
