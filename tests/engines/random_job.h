// Random jobs for the comparison of the engines: every option of DDP, links, jitter, stragglers, input.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "core/fingerprint.h"
#include "sim/strategy/ddp.h"

namespace paceline {

// Small and reproducible everywhere; std's distributions are not.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15ULL); }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  double real(double low, double high) {
    return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
  }
  bool maybe(double probability) { return real(0, 1) < probability; }

 private:
  std::uint64_t state_;
};

inline Communicator random_communicator(Dice& dice, std::size_t ranks) {
  if (ranks == 1) {
    return lone_communicator();
  }
  Communicator made;
  const std::int64_t classes = dice.maybe(0.3) ? static_cast<std::int64_t>(ranks) : dice.between(1, 3);
  for (std::int64_t i = 0; i < classes; ++i) {
    made.classes.push_back(
        {BytesPerSecond(dice.real(1e9, 5e10)), SimTime{dice.between(0, 1) * dice.between(0, 20'000'000)}});
  }
  const std::int64_t channels = dice.between(1, 4);
  for (std::int64_t c = 0; c < channels; ++c) {
    if (c == 0 || dice.maybe(0.5)) {
      std::vector<std::uint32_t>& pattern = made.patterns.emplace_back(ranks);
      for (std::uint32_t& hop : pattern) {
        hop = static_cast<std::uint32_t>(dice.between(0, classes - 1));
      }
    }
    Channel channel{{}, static_cast<std::uint32_t>(made.patterns.size() - 1)};
    for (std::size_t r = 0; r < ranks; ++r) {
      channel.order.push_back(Rank(r));
    }
    for (std::size_t r = ranks; r > 1; --r) {
      std::swap(channel.order[r - 1],
                channel.order[static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(r) - 1))]);
    }
    made.channels.push_back(std::move(channel));
  }
  return made;
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
  switch (dice.between(0, 4)) {
    case 0:
      return {};
    case 1:
      return {DistributionKind::normal, dice.real(0, 0.4), {}};
    case 2:
      return {DistributionKind::lognormal, dice.real(0, 1), {}};
    case 3:
      return {DistributionKind::gamma, dice.real(0, 1.5), {}};
    default:
      return {DistributionKind::empirical, 0, {1, 1.1, 0.9, dice.real(1, 3)}};
  }
}

inline TrainingSpec random_training(Dice& dice) {
  TrainingSpec training;
  training.batch_per_gpu = dice.between(1, 64);
  training.accumulation = static_cast<int>(dice.between(1, 3));
  training.optimizer = dice.maybe(0.5) ? Optimizer::sgd : Optimizer::adam;
  training.ddp = {Bytes(dice.between(1, 30'000'000)), Bytes(dice.between(1, 2'000'000)), dice.maybe(0.5),
                  dice.maybe(0.5), dice.maybe(0.2)};
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
  VariabilitySpec variability{random_distribution(dice), random_distribution(dice), {}, {}};
  if (dice.maybe(0.4)) {
    variability.slow_gpus.push_back(
        {{dice.between(0, static_cast<std::int64_t>(ranks) - 1)}, 0, dice.real(1, 2)});
  }
  if (dice.maybe(0.3)) {
    variability.slow_gpus.push_back({{}, dice.real(0, 0.5), dice.real(1, 1.5)});
  }
  if (dice.maybe(0.3)) {
    variability.transient.push_back(
        {dice.real(0, 0.3), static_cast<int>(dice.between(1, 3)), dice.real(1, 4)});
  }
  return variability;
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
  return {
      build_ddp_job(model, gpu_preset("A100-80GB"), training, variability, random_communicator(dice, ranks)),
      run};
}

}  // namespace paceline
