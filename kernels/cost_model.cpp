#include "kernels/cost_model.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "core/error.h"

namespace paceline {
namespace {

FlopsPerSecond peak_of(const GpuSpec& gpu, Precision precision) {
  return gpu.peak[static_cast<std::size_t>(precision)];
}

struct Elements {
  double forward = 0, backward = 0;
};

// Elements moved for a batch.
Elements traffic(const Layer& layer, double input, double batch, double norm_passes) {
  double parameters = 0;
  for (const std::int64_t elements : layer.parameters) {
    parameters += static_cast<double>(elements);
  }
  const double output = batch * static_cast<double>(layer.output_elements);
  double forward = 0;
  switch (layer.kind) {
    case LayerKind::conv:
    case LayerKind::linear:
      forward = parameters + batch * input + output;
      break;
    case LayerKind::norm:
    case LayerKind::batch_norm:
      forward = norm_passes * output;
      break;
    case LayerKind::attention:
      forward = 4 * output;
      break;
    case LayerKind::embedding:
      return {2 * output, 2 * output + parameters};
  }
  return {forward, 2 * forward};
}

}  // namespace

Seconds memory_time(const GpuCosts& costs, Bytes traffic) {
  const Seconds bytes = traffic / (costs.gpu.memory_bandwidth * costs.roofline.memory_efficiency);
  return traffic.value > 0 ? costs.roofline.memory_start + bytes : bytes;
}

Seconds kernel_time(const GpuCosts& costs, Flops work, Bytes traffic) {
  const Seconds memory = memory_time(costs, traffic);
  if (work.value <= 0) {
    return memory;
  }
  const FlopsPerSecond peak = peak_of(costs.gpu, costs.precision);
  assert(peak.value > 0);
  const Seconds compute = (work / peak + costs.roofline.half_work) / costs.roofline.compute_efficiency;
  return std::max(compute, memory);
}

void require_precision(const GpuSpec& gpu, Precision precision) {
  if (peak_of(gpu, precision).value > 0) {
    return;
  }
  std::string known;
  for (const auto& [name, other] : kNames<Precision>) {
    if (peak_of(gpu, other).value > 0) {
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
  }
  throw InputError(gpu.name + " has no " + std::string(name_of(precision)) + "; it has: " + known);
}

std::int64_t bytes_per_element(Precision precision) {
  switch (precision) {
    case Precision::fp32:
    case Precision::tf32:
      return 4;
    case Precision::fp16:
    case Precision::bf16:
      return 2;
    case Precision::fp8:
      return 1;
  }
  return 4;
}

bool same_format(Precision a, Precision b) {
  const auto in_memory = [](Precision p) { return p == Precision::tf32 ? Precision::fp32 : p; };
  return in_memory(a) == in_memory(b);
}

std::vector<LayerTime> layer_times(const GpuCosts& costs, const Model& model, std::int64_t batch) {
  assert(batch >= 0);
  require_precision(costs.gpu, costs.precision);
  const auto samples = static_cast<double>(batch);
  const auto element = static_cast<double>(bytes_per_element(costs.precision));
  const auto bytes = [&](double elements) { return Bytes(std::llround(elements * element)); };

  std::vector<LayerTime> times;
  times.reserve(model.layers.size());
  double input = 0;
  for (const Layer& layer : model.layers) {
    const Elements moved = traffic(layer, input, samples, costs.roofline.norm_passes);
    const Flops work(kFlopsPerMac * samples * static_cast<double>(layer.forward_macs));
    const bool two_gradients =
        layer.forward_macs > 0 && (layer.kind == LayerKind::conv || layer.kind == LayerKind::linear);
    LayerTime time;
    time.forward = kernel_time(costs, work, bytes(moved.forward));
    time.backward = two_gradients ? 2 * time.forward : kernel_time(costs, 2 * work, bytes(moved.backward));
    time.forward_launches = layer.kind == LayerKind::attention ? 2 : 1;
    time.backward_launches = two_gradients ? 2 : 1;
    times.push_back(time);
    input = static_cast<double>(layer.output_elements);
  }
  return times;
}

}  // namespace paceline
