#include "calibrate/fit/training_interval.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/training_prediction.h"
#include "core/text.h"
#include "scenarios/predict.h"
#include "sim/strategy/ddp.h"
#include "sim/strategy/sharding.h"

namespace paceline {
namespace {

double log_step(const Scenario& scenario) { return std::log(predict(scenario).report.step.mean.value); }

// What most of the communication is: a full bucket's all-reduce, or the largest unit's all-gather.
std::pair<CollectiveKind, Bytes> chief_collective(const Scenario& fitted) {
  const TrainingSpec& training = fitted.training;
  const Bytes all = largest_collective(fitted);
  if (training.strategy == StrategyKind::mirrored || training.strategy == StrategyKind::local_sgd) {
    return {CollectiveKind::all_reduce, all};
  }
  if (!fully_shards(training)) {
    const bool scatters = training.strategy == StrategyKind::zero && training.zero.reduce_scatter;
    const BucketLimits limits =
        bucket_limits(training.ddp, training.gradients, training.pytorch, gpus_of_job(fitted.cluster));
    return {scatters ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
            std::min(limits.cap, all)};
  }
  const Precision format = gathered_format(training.fsdp, training.precision);
  Bytes largest(1);
  for (const FsdpUnit& unit : units_of(training.fsdp.units, fitted.model)) {
    Bytes gathered;
    for (std::uint32_t l = unit.first; l < unit.end(); ++l) {
      gathered = gathered + Bytes(shard_elements(fitted.model, l, 1, 1) *
                                  gathered_bytes(format, fitted.model.layers[l]));
    }
    largest = std::max(largest, gathered);
  }
  return {CollectiveKind::all_gather, std::min(largest, all)};
}

CollectiveInterval of_chief(const Scenario& fitted, const Profile& profile) {
  const auto [kind, bytes] = chief_collective(fitted);
  CollectiveTest test;
  test.cluster_name = profile.cluster;
  test.cluster = fitted.cluster;
  test.collective = fitted.training.collective;
  test.kind = kind;
  test.sizes = {bytes};
  return predict_collectives(test, profile).intervals.front();
}

// By how much ln(step) grows when all collectives take as long as the interval's upper end says.
double of_collectives(const Scenario& fitted, const CollectiveInterval& chief, double middle) {
  if (!(chief.low.value > 0)) {
    return 0;  // one rank
  }
  Scenario longer = fitted;
  const double factor = std::sqrt(chief.high.value / chief.low.value);
  std::vector<Correction>& corrections = longer.training.collective.corrections;
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    if (std::ranges::find(corrections, kind, &Correction::kind) == corrections.end()) {
      corrections.push_back({kind, Bytes(8), 1});
    }
  }
  for (Correction& correction : corrections) {
    correction.factor *= factor;
  }
  return log_step(longer) - middle;
}

}  // namespace

TrainingInterval training_interval(const Scenario& fitted, const Profile& whole) {
  const Profile profile = for_machine(whole, fitted.cluster);
  const CollectiveInterval chief = of_chief(fitted, profile);
  TrainingInterval interval;
  interval.extrapolated = chief.extrapolated;
  interval.why = chief.why;
  interval.kernels_measured = !fitted.training.measured.empty() || !fitted.training.layer_times.empty();
  double middle = log_step(fitted);
  const double collectives = of_collectives(fitted, chief, middle);
  double shorter = collectives, longer = collectives;
  if (!profile.training.empty()) {
    const ThroughputPrediction rate = predict_throughput(profile.training.front(), fitted);
    const ProfileTraining& of_profile = profile.training.front();
    if (fitted.training.measured == of_profile.rates && fitted.variability.delays == of_profile.delays) {
      middle = std::log(samples_of_step(fitted) / rate.samples_per_second);
    }
    interval.own_rate = fitted.training.measured != of_profile.rates;
    interval.own_delays = fitted.variability.delays != of_profile.delays;
    shorter = std::hypot(collectives, std::log(rate.high / rate.samples_per_second));
    longer = std::hypot(collectives, std::log(rate.samples_per_second / rate.low));
  }
  interval.step = Seconds(std::exp(middle));
  interval.low = interval.step * std::exp(-shorter);
  interval.high = interval.step * std::exp(longer);
  return interval;
}

std::string interval_text(const TrainingInterval& interval) {
  return formatted("  with the profile: step time %.3f ms, in 90 %% of cases %.3f to %.3f ms",
                   interval.step.value * 1e3, interval.low.value * 1e3, interval.high.value * 1e3) +
         (interval.extrapolated ? " (extrapolated: " + interval.why + ")" : "") +
         (interval.kernels_measured ? "" : " (of communication alone: nobody measured the kernels)") + "\n" +
         (interval.own_rate ? "  the profile's rate is not used: the scenario says its own\n" : "") +
         (interval.own_delays
              ? "  the profile's delays are not used: the scenario says its own (variability.delays)\n"
              : "");
}

}  // namespace paceline
