#include "sim/layers/layer_spans.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>

#include "core/error.h"
#include "core/text.h"
#include "sim/engine/simulate.h"
#include "sim/strategy/build_job.h"
#include "sim/strategy/sharding.h"

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
SimTime lone_step(const Workload& work) {
  RunSpec run;
  run.iterations = 2 * (work.training.host.runs_ahead + 2);
  const Result result = simulate(build_reference_job(work), run);
  const std::size_t last = result.iteration_end.size() - 1;
  return result.iteration_end[last] - result.iteration_end[last - 1];
}

// Of those that run once in a pass.
SimTime& longest(std::vector<LayerSpan>& spans, bool forward_too) {
  SimTime* found = &spans.front().backward;
  for (LayerSpan& s : spans) {
    found = &*std::max({found, forward_too ? &s.forward : found, &s.backward},
                       [](auto* a, auto* b) { return *a < *b; });
  }
  return *found;
}

Seconds sum(const std::vector<LayerTime>& times) {
  Seconds all;
  for (const LayerTime& t : times) {
    all = all + t.forward + t.backward;
  }
  return all;
}

// The least that forward, recomputation and backward compute for one sample: no data gradient of the first layer,
// half of an attention, which a causal one needs, and in fp32 convolutions as cuDNN has them for 3 x 3 kernels
// (Winograd's F(2 x 2, 3 x 3): Lavin and Gray 2016), by which published rates of AlexNet pass the peak of a P100.
double least_flops(const Model& model, const TrainingSpec& training, Precision precision) {
  constexpr double kPasses = 3, kCausal = 0.5, kWinograd = 1 / 2.25;
  double flops = 0;
  bool first = true;
  std::vector<bool> recomputed(model.layers.size());
  for (const FsdpUnit& unit : recomputed_units(training, model)) {
    for (const std::uint32_t l : recomputed_layers(training, model, unit)) {
      recomputed[l] = true;
    }
  }
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    const double macs = static_cast<double>(layer.forward_macs);
    const double part = layer.kind == LayerKind::attention                              ? kCausal
                        : layer.kind == LayerKind::conv && precision == Precision::fp32 ? kWinograd
                                                                                        : 1;
    const double passes = kPasses - (first && macs > 0 ? 1 : 0) + (recomputed[l] ? 1 : 0);
    flops += kFlopsPerMac * macs * part * passes;
    first = first && macs == 0;
  }
  return flops;
}

// Of all formats that look like this one in memory: frameworks take TF32 for FP32 without a word.
FlopsPerSecond dense_peak(const GpuCosts& costs) {
  FlopsPerSecond peak;
  for (const auto& [name, precision] : kNames<Precision>) {
    if (same_format(precision, costs.precision)) {
      peak = std::max(peak, costs.gpu.peak[static_cast<std::size_t>(precision)]);
    }
  }
  return peak;
}

void require_below_peak(const Model& model, const GpuCosts& costs, const TrainingSpec& training,
                        SamplesPerSecond rate) {
  constexpr double kTera = 1e12;
  const double flops = rate.value * least_flops(model, training, costs.precision),
               peak = dense_peak(costs).value;
  if (flops > peak) {
    throw InputError(
        formatted("expected a rate that one GPU can reach: %g samples/s of %s are at least %.4g TFLOP/s, "
                  "%.3g times the dense peak of %s (%.4g TFLOP/s in %s); is it the rate of a node%s?",
                  rate.value, model.name.c_str(), flops / kTera, flops / peak, costs.gpu.name.c_str(),
                  peak / kTera, std::string(name_of(costs.precision)).c_str(),
                  training.activation_checkpointing == ActivationCheckpointing::none
                      ? ""
                      : ", or was it measured without recomputation, which is counted here (\"measured\": "
                        "{..., \"activation_checkpointing\": \"none\"})"),
        "/training/measured");
  }
}

// One GPU whose step takes as long as it was measured.
struct Anchor {
  std::int64_t batch = 0;
  int accumulation = 0;
  Seconds layers;  // of a pass
  std::vector<LayerSpan> spans;
  SimTime rest_of_step;
};

// A step is passes of the layers and the rest, once the GPU is the bottleneck: what is missing goes to the
// layers; of the last picoseconds what equal passes can't share to the longest kernel, and to the optimizer.
Anchor anchor(const Model& model, const GpuCosts& costs, const TrainingSpec& training,
              const MeasuredRate& rate) {
  Workload work{model, training, {}, costs, {}, {}, {}};
  work.training.input.reset();
  work.training.batch_per_gpu = rate.batch_per_gpu;
  work.training.accumulation = rate.accumulation;
  work.training.activation_checkpointing = *rate.activation_checkpointing;
  work.training.recompute_every = rate.recompute_every;
  require_below_peak(model, costs, work.training, rate.rate);
  const std::vector<LayerTime> times = undisturbed_times(model, costs, work.training);
  const Seconds layers = sum(times);
  const std::int64_t passes = rate.accumulation;
  const SimTime wanted =
      to_sim_time(Seconds(static_cast<double>(rate.batch_per_gpu * passes) / rate.rate.value));
  constexpr int kMostCorrections = 40;
  constexpr std::int64_t kRoundingRest = 10'000;  // ps; rounding a layer leaves at most half a picosecond
  Seconds target = to_seconds(wanted) / static_cast<double>(passes);
  for (int i = 0; i < kMostCorrections && target.value > 0; ++i) {
    work.layers = scaled(times, target / layers);
    const SimTime missing = wanted - lone_step(work);
    if (std::abs(missing.ps) <= kRoundingRest * passes) {
      const std::int64_t each = missing.ps >= 0 ? missing.ps / passes : -((passes - 1 - missing.ps) / passes);
      SimTime& kernel = longest(work.layers, !recomputes(work.training));
      kernel.ps += each;
      work.rest_of_step = SimTime{missing.ps - each * passes};
      if (kernel.ps >= 0 && lone_step(work) == wanted) {
        return {rate.batch_per_gpu, rate.accumulation, target, work.layers, work.rest_of_step};
      }
      work.rest_of_step = {};
    }
    target = target + to_seconds(missing) / static_cast<double>(passes);
  }
  work.layers = scaled(times, 0);
  throw InputError(
      formatted("expected a rate that one GPU can reach: a step this short leaves no time beside its "
                "kernel launches and optimizer, which alone take %f s",
                to_seconds(lone_step(work)).value),
      "/training/measured");
}

// What the layers' times as priced are multiplied by at a batch that wasn't measured: between two batches the
// time of a pass is affine; beyond them it grows as it is priced.
double factor_at(std::span<const Anchor> anchors, std::int64_t batch,
                 const std::function<Seconds(std::int64_t)>& priced) {
  const auto after = std::ranges::find_if(anchors, [&](const Anchor& a) { return a.batch > batch; });
  if (after == anchors.begin() || after == anchors.end()) {
    const Anchor& nearest = after == anchors.begin() ? anchors.front() : anchors.back();
    return nearest.layers / priced(nearest.batch);
  }
  const Anchor &low = *(after - 1), &high = *after;
  const double part = static_cast<double>(batch - low.batch) / static_cast<double>(high.batch - low.batch);
  return (low.layers * (1 - part) + high.layers * part) / priced(batch);
}

}  // namespace

LayerSpans layer_spans(const Model& model, const GpuCosts& costs, const TrainingSpec& training) {
  const std::vector<LayerTime> times = undisturbed_times(model, costs, training);
  if (training.measured.empty()) {
    return {scaled(times, 1), {}};
  }
  std::vector<Anchor> anchors;
  for (const MeasuredRate& rate : pinned_rates(training)) {
    anchors.push_back(anchor(model, costs, training, rate));
    if (anchors.back().batch == training.batch_per_gpu) {
      const Anchor& same = anchors.back();
      return {same.spans, same.accumulation == training.accumulation ? same.rest_of_step : SimTime{}};
    }
  }
  std::ranges::sort(anchors, {}, &Anchor::batch);
  return {scaled(times, factor_at(anchors, training.batch_per_gpu,
                                  [&](std::int64_t batch) { return sum(layer_times(costs, model, batch)); })),
          {}};
}

Workload workload(const Model& model, const GpuSpec& gpu, const TrainingSpec& training,
                  const VariabilitySpec& variability) {
  const GpuCosts costs{gpu, training.roofline, training.precision};
  const LayerSpans spans = layer_spans(model, costs, training);
  return {model, training, variability, costs, spans.layers, spans.rest_of_step, {}};
}

double delay_factor(const DelaySpec& delays, std::int64_t ranks, int accumulation) {
  return 1 + delays.per_doubling * std::log2(static_cast<double>(ranks)) /
                 std::sqrt(static_cast<double>(accumulation));
}

Workload delayed(Workload work, std::int64_t ranks) {
  if (ranks == 1 || !work.variability.delays) {
    return work;
  }
  const DelaySpec delays = *work.variability.delays;
  work.delay = to_sim_time(delays.per_step);
  const double factor = delay_factor(delays, ranks, work.training.accumulation);
  for (LayerSpan& span : work.layers) {
    span.forward = to_sim_time(to_seconds(span.forward) * factor);
    span.backward = to_sim_time(to_seconds(span.backward) * factor);
  }
  return work;
}

}  // namespace paceline
