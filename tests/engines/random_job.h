// Random jobs for the comparison of the engines: every option of DDP, links, jitter, stragglers, input.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "test_planner.h"
#include "tests/ddp_job.h"
#include "tests/dice.h"
#include "tests/random_graphs.h"

namespace paceline {

// Any algorithm on any graph with any hops: what NCCL would choose doesn't matter to the engines.
class RandomCollectives {
 public:
  RandomCollectives(Dice& dice, std::uint32_t ranks) : dice_(dice.next()) {
    std::vector<std::uint32_t> nodes;
    for (std::uint32_t n = 1; n <= ranks; ++n) {
      if (ranks % n == 0) {
        nodes.push_back(n);
      }
    }
    layout_.nodes = dice_.one_of(nodes);
    layout_.gpus_per_node = ranks / layout_.nodes;
    graphs_ = random_graphs(dice_, layout_.gpus_per_node);
    hops_ = dice_.maybe(0.3) ? 20 : dice_.between(1, 3);
  }

  // Of whole chunks, or of two slices, equal or not, or the second empty.
  Loops loops(std::int64_t count, Bytes chunk) {
    const std::int64_t half = (chunk.value + 1) / 2;
    const std::int64_t slice = dice_.maybe(0.5) ? half : dice_.between(half, chunk.value);
    return {count, chunk, Bytes(dice_.maybe(0.4) ? 0 : dice_.maybe(0.3) ? chunk.value : slice)};
  }

  CollectivePlan plan(Communicator& communicator, CollectiveKind kind, Bytes bytes) {
    CollectivePlan plan;
    plan.kind = kind;
    plan.bytes = bytes;
    plan.algorithm = algorithm_for(kind);
    plan.graph = graph(communicator, plan.algorithm, kind);
    plan.loops.push_back(loops(dice_.between(1, 3), Bytes(bytes.value / 16 + 1)));
    if (dice_.maybe(0.5)) {
      plan.loops.push_back(loops(1, Bytes(bytes.value / 64)));
    }
    const bool nvls = plan.algorithm == Algorithm::nvls || plan.algorithm == Algorithm::nvls_tree;
    const std::int64_t enough = nvls ? 2 * std::int64_t{layout_.gpus_per_node} : 4;
    plan.slots = static_cast<std::uint32_t>(dice_.maybe(0.3) ? 0 : dice_.between(enough, enough + 5));
    plan.startup = SimTime{dice_.between(0, 1) * dice_.between(0, 10'000'000)};
    const double hidden = plan.slots > 0 ? dice_.real(0, 1) : 0;
    for (std::int64_t i = 0; i < hops_; ++i) {  // each plan's own: a faster one may follow a slower one
      plan.hops.push_back({BytesPerSecond(dice_.real(1e9, 5e10)),
                           SimTime{dice_.between(0, 1) * dice_.between(0, 20'000'000)},
                           SimTime{dice_.between(0, 1) * dice_.between(0, 1'000'000)}});
      HopCost& hop = plan.hops.back();
      hop.overhead = SimTime{dice_.between(0, 1) * dice_.between(0, 1'000'000)};
      hop.eager = Bytes(dice_.between(0, 1) * dice_.between(0, bytes.value / 16));
      hop.hidden = SimTime{static_cast<std::int64_t>(hidden * static_cast<double>(hop.latency.ps))};
      hop.channel = SimTime{dice_.between(0, 1) * dice_.between(0, 10'000'000)};
      hop.channel_rate = dice_.maybe(0.5) ? hop.rate * dice_.real(0.5, 2) : BytesPerSecond();
      if (plan.algorithm == Algorithm::tree && dice_.maybe(0.5)) {
        hop.cut_through = hop.rate * dice_.real(1, 2);
      }
    }
    plan.copy_rate = BytesPerSecond(dice_.real(1e9, 1e11));
    plan.copy_shown = dice_.maybe(0.3) ? 1 : dice_.real(0, 1);
    return plan;
  }

 private:
  Algorithm algorithm_for(CollectiveKind kind) {
    std::vector<Algorithm> possible;
    for (std::size_t a = 0; a < kAlgorithms; ++a) {
      if (runs(static_cast<Algorithm>(a), kind, layout_)) {
        possible.push_back(static_cast<Algorithm>(a));
      }
    }
    return dice_.one_of(possible);
  }

  std::uint32_t graph(Communicator& communicator, Algorithm algorithm, CollectiveKind kind) {
    const auto [at, added] =
        known_.try_emplace({algorithm, kind}, static_cast<std::uint32_t>(communicator.graphs.size()));
    if (added) {
      CollectiveGraph made =
          make_graph(algorithm, kind, layout_, graphs_, static_cast<std::uint32_t>(dice_.between(1, 4)));
      made.hops.resize(static_cast<std::size_t>(hops_));
      for (Fifo& fifo : made.fifos) {
        fifo.hop = static_cast<std::uint32_t>(dice_.between(0, hops_ - 1));
      }
      communicator.graphs.push_back(std::move(made));
    }
    return at->second;
  }

  Dice dice_;
  RankLayout layout_;
  ChannelGraphs graphs_;
  std::int64_t hops_ = 1;
  std::map<std::pair<Algorithm, CollectiveKind>, std::uint32_t> known_;
};

inline CollectivePlanner random_planner(Dice& dice, std::size_t ranks) {
  if (ranks == 1) {
    return lone_planner();
  }
  Communicator start;
  start.ranks = static_cast<std::uint32_t>(ranks);
  RandomCollectives collectives(dice, start.ranks);
  return {std::move(start), RankLayout{1, static_cast<std::uint32_t>(ranks)},
          [random = std::move(collectives)](Communicator& communicator,
                                            const CollectiveRequest& request) mutable {
            return random.plan(communicator, request.kind, request.bytes);
          }};
}

inline Model random_model(Dice& dice) {
  Model model{"random", "", {}};
  const std::int64_t layers = dice.between(1, 12);
  for (std::int64_t l = 0; l < layers; ++l) {
    Layer layer{"layer" + std::to_string(l),
                LayerKind::linear,
                {},
                dice.between(0, 200'000'000),
                dice.between(1, 1'000'000)};
    if (dice.maybe(0.3)) {
      layer.kind = LayerKind::batch_norm;
    }
    for (std::int64_t t = dice.between(l == 0 ? 1 : 0, 3); t > 0; --t) {
      layer.parameters.push_back(dice.between(1, dice.maybe(0.3) ? 5'000'000 : 50'000));
    }
    model.layers.push_back(std::move(layer));
  }
  return model;
}

inline Distribution random_distribution(Dice& dice) {
  Distribution made{dice.one_of(kNames<DistributionKind>).value, 0, {}};
  switch (made.kind) {
    case DistributionKind::none:
      break;
    case DistributionKind::normal:
      made.cv = dice.real(0, 0.4);
      break;
    case DistributionKind::lognormal:
    case DistributionKind::exponential:
      made.cv = dice.real(0, 1);
      break;
    case DistributionKind::gamma:
      made.cv = dice.real(0, 1.5);
      break;
    case DistributionKind::empirical:
      made.values = {1, 1.1, 0.9, dice.real(1, 3)};
  }
  return made;
}

inline TrainingSpec random_training(Dice& dice) {
  TrainingSpec training;
  training.batch_per_gpu = dice.between(1, 64);
  training.accumulation = static_cast<int>(dice.between(1, 3));
  training.optimizer = dice.maybe(0.5) ? Optimizer::sgd : Optimizer::adam;
  training.ddp = {dice.maybe(0.7) ? Reduction::pytorch_ddp : Reduction::mxnet_horovod_group,
                  Bytes(dice.between(1, 30'000'000)),
                  Bytes(dice.between(1, 2'000'000)),
                  dice.maybe(0.8) ? std::optional<Precision>() : Precision::fp16,
                  dice.maybe(0.5),
                  dice.maybe(0.5),
                  dice.maybe(0.2)};
  training.clip_norm = dice.maybe(0.2);
  training.host.kernel_launch = Seconds(dice.maybe(0.3) ? dice.real(0, 2e-4) : 5e-6);
  training.host.collective_launch = Seconds(dice.real(0, 5e-5));
  training.host.runs_ahead = static_cast<int>(dice.between(0, 3));
  if (dice.maybe(0.5)) {
    training.slowdown_while_communicating = {dice.between(100, 200), 100};
  }
  if (dice.maybe(0.4)) {
    training.input = InputSpec{SamplesPerSecond(dice.real(100, 200'000)),
                               static_cast<int>(dice.between(1, 4)), random_distribution(dice)};
  }
  return training;
}

inline VariabilitySpec random_variability(Dice& dice, std::size_t ranks) {
  VariabilitySpec variability;
  auto& [per_operation, per_iteration, per_step, slow_gpus, transient, spared_gpus, first_iteration, delays] =
      variability;  // whatever there is
  first_iteration = static_cast<std::uint32_t>(dice.maybe(0.2) ? dice.between(0, 100) : 0);
  per_operation = random_distribution(dice);
  per_iteration = random_distribution(dice);
  per_step = dice.maybe(0.3) ? random_distribution(dice) : Distribution{};
  delays = {};  // of a workload, before there is a job
  const auto rank = [&] { return static_cast<std::int64_t>(dice.below(ranks)); };
  if (dice.maybe(0.4)) {
    slow_gpus.push_back({{rank()}, 0, dice.real(1, 2)});
  }
  if (dice.maybe(0.3)) {
    slow_gpus.push_back({{}, dice.real(0, 0.5), dice.real(1, 1.5)});
  }
  if (dice.maybe(0.3)) {
    transient.push_back({dice.real(0, 0.3), static_cast<int>(dice.between(1, 3)), dice.real(1, 4)});
  }
  if (dice.maybe(0.3)) {
    spared_gpus = {rank(), rank()};
  }
  return variability;
}

// Work of the queues beside some of the collectives.
inline void add_casts(TrainingJob& job, Dice& dice, std::int64_t longest = 20'000'000) {
  for (Program* program : {&job.main().warm_up, &job.main().steady}) {
    for (Op& op : program->ops) {
      if (op.kind == OpKind::collective && dice.maybe(0.5)) {
        op.prepare = SimTime{dice.between(0, 1) * dice.between(0, longest)};
        op.conclude = SimTime{dice.between(0, 1) * dice.between(0, longest)};
      }
    }
  }
}

// Ranks whose kernels take other times: two or three kinds.
inline void add_kinds(TrainingJob& job, Dice& dice) {
  for (std::int64_t more = dice.between(1, 2); more > 0; --more) {
    Role role = job.roles.front();
    for (Program* program : {&role.threads.front().warm_up, &role.threads.front().steady}) {
      for (Op& op : program->ops) {
        if (op.kind == OpKind::kernel) {
          op.duration = to_sim_time(to_seconds(op.duration) * dice.real(0.3, 3));
        }
      }
    }
    job.roles.push_back(std::move(role));
  }
  for (std::size_t r = 0; r < job.ranks(); ++r) {
    job.members.push_back({static_cast<std::uint32_t>(dice.below(job.roles.size())), {}});
  }
}

struct RandomJob {
  TrainingJob job;
  RunSpec run;
};

inline RandomJob random_job(std::uint64_t seed, std::int64_t most_ranks) {
  Dice dice(seed);
  const auto ranks = static_cast<std::size_t>(dice.between(1, most_ranks));
  const Model model = random_model(dice);
  const TrainingSpec training = random_training(dice);
  const VariabilitySpec variability = random_variability(dice, ranks);
  RunSpec run;
  run.iterations = static_cast<int>(dice.between(1, 4));
  run.seed = dice.next();
  CollectivePlanner planner = random_planner(dice, ranks);
  RandomJob random{ddp_job(model, gpu_preset("A100-80GB"), training, variability, planner), run};
  if (dice.maybe(0.3)) {
    add_casts(random.job, dice);
  }
  return random;
}

}  // namespace paceline
