#include "sim/layers/layer_spans.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "sim/engine/simulate.h"
#include "sim/strategy/build_job.h"

namespace paceline {
namespace {

std::vector<LayerTime> undisturbed_times(const Model& model, const GpuCosts& costs,
                                         const TrainingSpec& training) {
  std::vector<LayerTime> times = layer_times(costs, model, training.batch_per_gpu);
  if (!training.layer_times.empty()) {
    if (training.layer_times.size() != times.size()) {
      throw InputError("expected one entry per layer of " + model.name + " (" + std::to_string(times.size()) +
                           "), found " + std::to_string(training.layer_times.size()),
                       "/training/layer_times");
    }
    for (std::size_t l = 0; l < times.size(); ++l) {
      times[l].forward = training.layer_times[l].forward;
      times[l].backward = training.layer_times[l].backward;
    }
  }
  return times;
}

std::vector<LayerSpan> scaled(const std::vector<LayerTime>& times, double factor) {
  std::vector<LayerSpan> spans;
  for (const LayerTime& t : times) {
    spans.push_back({to_sim_time(t.forward * factor), to_sim_time(t.backward * factor), t.forward_launches,
                     t.backward_launches});
  }
  return spans;
}

// The steady step of one GPU without jitter: the iterations of the deterministic job are equal from the
// second on, unless the host is the bottleneck; then the last one is as good as any.
SimTime lone_step(const Model& model, const GpuCosts& costs, const TrainingSpec& training,
                  const std::vector<LayerSpan>& layers) {
  const TrainingJob job = build_reference_job({model, training, {}, costs, layers});
  RunSpec run;
  run.iterations = 2 * (training.host.runs_ahead + 2);
  const Result result = simulate(job, run);
  const std::size_t last = result.iteration_end.size() - 1;
  return result.iteration_end[last] - result.iteration_end[last - 1];
}

SimTime& longest(std::vector<LayerSpan>& spans) {
  SimTime* found = &spans.front().forward;
  for (LayerSpan& s : spans) {
    found = &*std::max({found, &s.forward, &s.backward}, [](auto* a, auto* b) { return *a < *b; });
  }
  return *found;
}

}  // namespace

std::vector<LayerSpan> layer_spans(const Model& model, const GpuCosts& costs, const TrainingSpec& training) {
  if (!training.measured) {
    return scaled(undisturbed_times(model, costs, training), 1);
  }
  TrainingSpec plain = training;
  plain.accumulation = 1;
  plain.input.reset();
  plain.batch_per_gpu = training.measured_batch > 0 ? training.measured_batch : training.batch_per_gpu;
  const bool as_measured = plain.batch_per_gpu == training.batch_per_gpu;
  const std::vector<LayerTime> times = undisturbed_times(model, costs, plain);
  const SimTime wanted =
      to_sim_time(Seconds(static_cast<double>(plain.batch_per_gpu) / training.measured->value));
  Seconds layers;
  for (const LayerTime& t : times) {
    layers = layers + t.forward + t.backward;
  }
  // A step is layers + the rest, once the GPU is the bottleneck: what is missing goes to the layers.
  constexpr int kMostCorrections = 40;
  constexpr std::int64_t kRoundingRest =
      10'000;  // ps; rounding each layer leaves at most half a picosecond each
  Seconds target = to_seconds(wanted);
  SimTime step;
  for (int i = 0; i < kMostCorrections && target.value > 0; ++i) {
    std::vector<LayerSpan> spans = scaled(times, target / layers);
    step = lone_step(model, costs, plain, spans);
    const SimTime missing = wanted - step;
    if (std::abs(missing.ps) <= kRoundingRest) {
      longest(spans) += missing;
      if (longest(spans).ps >= 0 && lone_step(model, costs, plain, spans) == wanted) {
        return as_measured ? spans : scaled(undisturbed_times(model, costs, training), target / layers);
      }
    }
    target = target + to_seconds(missing);
  }
  throw InputError(
      "expected a rate that one GPU can reach: a step this short leaves no time beside its kernel "
      "launches and optimizer, which alone take " +
          std::to_string(to_seconds(lone_step(model, costs, plain, scaled(times, 0))).value) + " s",
      "/training/measured");
}

Workload workload(const Model& model, const GpuSpec& gpu, const TrainingSpec& training,
                  const VariabilitySpec& variability) {
  const GpuCosts costs{gpu, training.roofline, training.precision};
  return {model, training, variability, costs, layer_spans(model, costs, training)};
}

}  // namespace paceline
