#include "calibrate/replay/torch_plan.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/fingerprint.h"
#include "sim/engine/variability.h"
#include "sim/layers/layer_spans.h"
#include "sim/strategy/ddp.h"
#include "sim/strategy/pytorch.h"
#include "sim/strategy/sharding.h"

namespace paceline {
namespace {

void refuse(bool holds, const std::string& place, const std::string& what) {
  if (holds) {
    throw InputError("expected what PyTorch can be told to do, found " + what, place);
  }
}

void require_faithful(const Scenario& s) {
  const TrainingSpec& training = s.training;
  const bool sharded = fully_shards(training);
  refuse(training.collective.library == CollectiveLibrary::mpi, "/training/collective/library",
         "mpi; its ranks talk by gloo or nccl");
  refuse(training.strategy != StrategyKind::ddp && training.strategy != StrategyKind::fsdp,
         "/training/strategy", std::string(name_of(training.strategy)) + "; DDP and FSDP can be replayed");
  refuse(!s.gpus.empty(), "/cluster/gpus", "several kinds of GPU");
  refuse(!training.batches.empty(), "/training/batches", "batches that differ");
  refuse(training.balance.has_value(), "/training/balance", "batches that follow the GPUs' speeds");
  refuse(!sharded && training.ddp.reduction != Reduction::pytorch_ddp, "/training/ddp/reduction",
         std::string(name_of(training.ddp.reduction)) + "; pytorch_ddp is its own");
  refuse(!sharded && training.ddp.wire && !same_format(*training.ddp.wire, training.gradients),
         "/training/ddp/wire", "gradients in another format on the wire");
  const CompressionKind hook = training.compression.kind;
  refuse(!sharded && hook != CompressionKind::none && hook != CompressionKind::fp16 &&
             hook != CompressionKind::bf16,
         "/training/compression", std::string(name_of(hook)) + "; fp16 and bf16 can be replayed");
  refuse(!sharded && training.ddp.join.has_value(), "/training/ddp/join",
         "inputs that end at different steps");
  refuse(!sharded && training.ddp.static_graph, "/training/ddp/static_graph",
         "a static graph; only the first iteration differs: leave it out");
  refuse(sharded && pytorch_version(training.pytorch) < kFullyShard, "/training/pytorch",
         to_string(pytorch_version(training.pytorch)) + ", which has no fully_shard");
  refuse(recomputes(training), "/training/activation_checkpointing",
         std::string(name_of(training.activation_checkpointing)) + "; its layers' times can't be told apart");
  refuse(sharded && training.fsdp.reduce_precision &&
             !same_format(*training.fsdp.reduce_precision, training.gradients),
         "/training/fsdp/reduce_precision", "gradients in another format on the wire");
  const Precision gathered = gathered_format(training.fsdp, training.precision);
  refuse(sharded && gathered == Precision::fp8, "/training/fsdp/param_precision",
         "fp8; other formats can be replayed");
  refuse(reduces_each_pass(training), "/training/no_sync", "false; passes but the last run under it");
  refuse(training.clip_norm, "/training/clip_norm", "clipping");
  refuse(training.input.has_value(), "/training/input", "a data loader; leave it out");
  refuse(training.slowdown_while_communicating.slows(), "/training/slowdown_while_communicating",
         "kernels that collectives slow down; a real GPU does so by itself: leave it out");
  refuse(!s.background.empty(), "/background", "others' traffic");
  refuse(!s.other_jobs.empty(), "/other_jobs", "other jobs");
  refuse(sharded && !same_format(gathered, training.gradients), "/training/gradients",
         "gradients in another format than the parameters are gathered in");
}

std::int64_t whole(std::size_t count) { return static_cast<std::int64_t>(count); }

Json::Array layers(const Workload& work) {
  Json::Array all;
  for (std::size_t l = 0; l < work.layers.size(); ++l) {
    const Layer& layer = work.model.layers[l];
    Json::Array tensors, buffers;
    for (const std::int64_t elements : layer.parameters) {
      tensors.push_back(elements);
      if (layer.kind == LayerKind::batch_norm) {
        buffers.push_back(Json::Array{"fp32", elements});
      }
    }
    if (layer.kind == LayerKind::batch_norm) {
      buffers.push_back(Json::Array{"int64", 1});
    }
    all.push_back(Json::Object{{"name", layer.name},
                               {"kind", name_of(layer.kind)},
                               {"parameters", std::move(tensors)},
                               {"buffers", std::move(buffers)},
                               {"forward_us", to_microseconds(work.layers[l].forward)},
                               {"backward_us", to_microseconds(work.layers[l].backward)}});
  }
  return all;
}

Json ddp_options(const Scenario& s) {
  const TrainingSpec& training = s.training;
  const BucketLimits limits =
      bucket_limits(training.ddp, training.gradients, training.pytorch, gpus_of_job(s.cluster));
  return Json::Object{{"bucket_cap_bytes", limits.cap.value},
                      {"first_bucket_bytes", limits.first.value},
                      {"gradient_as_bucket_view", training.ddp.gradient_as_bucket_view},
                      {"broadcast_buffers", training.ddp.broadcast_buffers},
                      {"find_unused_parameters", training.ddp.find_unused_parameters},
                      {"hook", name_of(training.compression.kind)}};
}

Json::Array buckets(const Scenario& s) {
  std::vector<std::int64_t> tensors;
  for (const Layer& layer : s.model.layers) {
    tensors.insert(tensors.end(), layer.parameters.begin(), layer.parameters.end());
  }
  Json::Array all;
  for (const std::vector<std::size_t>& bucket : ddp_buckets(s.training.ddp, s.model, s.training.gradients,
                                                            s.training.pytorch, gpus_of_job(s.cluster))) {
    std::int64_t bytes = 0;
    Json::Array numbers;
    for (const std::size_t tensor : bucket) {
      bytes += tensors[tensor] * bytes_per_element(s.training.gradients);
      numbers.push_back(whole(tensor));
    }
    all.push_back(Json::Object{{"bytes", bytes}, {"tensors", std::move(numbers)}});
  }
  return all;
}

Json fsdp_options(const Scenario& s, std::int64_t ranks) {
  const FsdpSpec& fsdp = s.training.fsdp;
  refuse(fsdp.reshard_after_forward.within > 0, "/training/fsdp/reshard_after_forward",
         "a number of ranks; true or false can be replayed");
  Json::Array units;
  for (const FsdpUnit& unit : units_of(fsdp.units, s.model)) {
    if (unit.name == "root") {
      continue;
    }
    Json::Array numbers;
    for (std::uint32_t l = unit.first; l < unit.end(); ++l) {
      numbers.push_back(std::int64_t{l});
    }
    units.push_back(std::move(numbers));
  }
  const std::int64_t group = fsdp.shard_group.node        ? gpus_of_node(s.cluster)
                             : fsdp.shard_group.ranks > 0 ? fsdp.shard_group.ranks
                                                          : ranks;
  return Json::Object{{"units", std::move(units)},
                      {"reshard_after_forward", fsdp.reshard_after_forward.reshards},
                      {"shard_group", group}};
}

// By how much the simulation's draws lengthen each rank's kernels in each steady iteration.
Json::Array slowness(const Variability& variability, std::uint32_t ranks, int iterations) {
  Json::Array all;
  for (int i = 1; i <= iterations; ++i) {
    Json::Array of_ranks;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      of_ranks.push_back(variability.rank_factor(Rank(r), static_cast<std::uint32_t>(i)));
    }
    all.push_back(std::move(of_ranks));
  }
  return all;
}

// The kernels of a program that the replay waits for, in order: of layers, and the update's as one.
struct Waits {
  std::vector<std::uint32_t> layers;  // operations
  std::vector<std::uint32_t> update;
  SimTime update_time;
};
Waits waits_in(const Program& program) {
  Waits waits;
  for (std::uint32_t o = 0; o < program.ops.size(); ++o) {
    const Op& op = program.ops[o];
    if (op.kind != OpKind::kernel) {
      continue;
    }
    if (op.purpose.phase == Phase::forward || op.purpose.phase == Phase::backward) {
      waits.layers.push_back(o);
    } else if (op.purpose.phase == Phase::update) {
      waits.update.push_back(o);
      waits.update_time += op.duration;
    }
  }
  return waits;
}

// The draws of each wait; null where there are none.
Json operation_factors(const Scenario& s, const Program& program, const Waits& waits,
                       const Variability& variability, std::uint32_t ranks) {
  if (s.variability.per_operation.kind == DistributionKind::none) {
    return {};
  }
  Json::Array all;
  for (int i = 1; i <= s.run.iterations; ++i) {
    Json::Array of_ranks;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const auto drawn = [&](std::uint32_t op) {
        return variability.per_operation().draw(variability.operation_address(static_cast<std::uint32_t>(i)),
                                                Rank(r), op);
      };
      Json::Array factors;
      for (const std::uint32_t op : waits.layers) {
        factors.push_back(drawn(op));
      }
      double update = 0;
      for (const std::uint32_t op : waits.update) {
        update += drawn(op) * static_cast<double>(program.ops[op].duration.ps);
      }
      factors.push_back(waits.update_time.ps > 0 ? update / static_cast<double>(waits.update_time.ps) : 1.0);
      of_ranks.push_back(std::move(factors));
    }
    all.push_back(std::move(of_ranks));
  }
  return all;
}

}  // namespace

std::string torch_plan(const Scenario& s) {
  require_faithful(s);
  Machines machines;
  const TrainingJob job = machines.build(s).job;
  const auto ranks = static_cast<std::uint32_t>(job.ranks());
  const Workload work = delayed(workload(s.model, s.gpu, s.training, s.variability), ranks);
  const Program& program = job.main().steady;
  const Waits waits = waits_in(program);
  const Variability variability(s.variability, ranks, s.run.seed);
  const bool sharded = fully_shards(s.training);
  const auto per_node = static_cast<std::int64_t>(gpus_of_node(s.cluster));
  return to_text(Json::Object{
      {"replay", 1},
      {"scenario", checksum(to_json(s))},
      {"description", s.description},
      {"pytorch", to_string(pytorch_version(s.training.pytorch))},
      {"backend", name_of(s.training.collective.library)},
      {"strategy", name_of(s.training.strategy)},
      {"ranks", std::int64_t{ranks}},
      {"ranks_per_node", per_node},
      {"iterations", s.run.iterations},
      {"accumulation", s.training.accumulation},
      {"precision",
       same_format(s.training.gradients, Precision::fp32) ? "fp32" : name_of(s.training.gradients)},
      {"layers", layers(work)},
      {"optimizer_us", to_microseconds(waits.update_time)},
      {"ddp", sharded ? Json() : ddp_options(s)},
      {"buckets", sharded || ranks == 1 ? Json::Array{} : buckets(s)},
      {"fsdp", sharded ? fsdp_options(s, ranks) : Json()},
      {"slowness", slowness(variability, ranks, s.run.iterations)},
      {"operation_factors", operation_factors(s, program, waits, variability, ranks)}});
}

}  // namespace paceline
