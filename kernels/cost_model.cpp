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
Elements traffic(const Layer& layer, const Layer* before, double batch, const RooflineSpec& roofline) {
  double parameters = 0;
  for (const std::int64_t elements : layer.parameters) {
    parameters += static_cast<double>(elements);
  }
  const double output = batch * static_cast<double>(layer.output_elements);
  double forward = 0;
  switch (layer.kind) {
    case LayerKind::conv:
    case LayerKind::linear:
      forward = parameters + (before != nullptr ? batch * static_cast<double>(before->output_elements) : 0) +
                output;
      break;
    case LayerKind::norm:
    case LayerKind::batch_norm: {
      const bool of_conv =
          layer.kind == LayerKind::batch_norm || (before != nullptr && before->kind == LayerKind::conv);
      forward = (of_conv ? roofline.norm_passes : roofline.layer_norm_passes) * output;
      break;
    }
    case LayerKind::attention:
      forward = roofline.attention_passes * output;
      break;
    case LayerKind::embedding:
      return {2 * output, 2 * output + parameters};
  }
  return {forward, 2 * forward};
}

// How much longer cuBLAS takes for products whose rows don't begin at multiples of 16 bytes. In
// scenarios/validation/h200/operators.csv 5.5 to 7.5 times with 50,257 words, 2.6 with 30,522, beside padded ones.
double misalignment(const Model& model, const Layer& layer, Precision precision) {
  if (layer.kind != LayerKind::linear || bytes_per_element(precision) != 2 || layer.forward_macs == 0 ||
      layer.output_elements == 0) {
    return 1;
  }
  const bool at_each_token = model.tokens > 0 && layer.output_elements % model.tokens == 0;
  const std::int64_t out = !layer.parameters.empty() ? matrix_rows(model, layer, 0)
                           : at_each_token           ? layer.output_elements / model.tokens
                                                     : 0;
  const std::int64_t in =
      layer.forward_macs % layer.output_elements == 0 ? layer.forward_macs / layer.output_elements : 0;
  return (out | in) % 2 != 0 ? 6 : (out | in) % 8 != 0 ? 3 : 1;
}

// What runs beside products in fp8 runs in 16 bits, where the GPU has them.
GpuCosts beside_products(GpuCosts costs) {
  for (const Precision half : {Precision::fp16, Precision::bf16}) {
    if (costs.precision == Precision::fp8 && peak_of(costs.gpu, half).value > 0) {
      costs.precision = half;
    }
  }
  return costs;
}

// Of products' efficiency.
double share_of(const GpuCosts& costs, const Model& model, const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::conv:
      return costs.precision == Precision::fp32 ? 1 : costs.roofline.conv_efficiency;
    case LayerKind::linear:
      return 1 / misalignment(model, layer, costs.precision);
    case LayerKind::attention:
    case LayerKind::norm:
    case LayerKind::batch_norm:
    case LayerKind::embedding:
      return 1;
  }
  return 1;
}

}  // namespace

Seconds memory_time(const GpuCosts& costs, Bytes traffic) {
  const Seconds bytes = traffic / (costs.gpu.memory_bandwidth * costs.roofline.memory_efficiency);
  return traffic.value > 0 ? costs.roofline.memory_start + bytes : bytes;
}

Seconds kernel_time(const GpuCosts& costs, Flops work, Bytes traffic, double share) {
  const Seconds memory = memory_time(costs, traffic);
  if (work.value <= 0) {
    return memory;
  }
  const FlopsPerSecond peak = peak_of(costs.gpu, costs.precision);
  assert(peak.value > 0);
  const Seconds compute =
      (work / peak + costs.roofline.half_work) / (share * costs.roofline.compute_efficiency);
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
  const GpuCosts beside = beside_products(costs);
  const auto element = static_cast<double>(bytes_per_element(beside.precision));
  std::vector<LayerTime> times;
  times.reserve(model.layers.size());
  const Layer* before = nullptr;
  for (const Layer& layer : model.layers) {
    const Elements moved = traffic(layer, before, samples, costs.roofline);
    const Flops work(kFlopsPerMac * samples * static_cast<double>(layer.forward_macs));
    const bool two_gradients =
        layer.forward_macs > 0 && (layer.kind == LayerKind::conv || layer.kind == LayerKind::linear);
    const double share = share_of(costs, model, layer);
    const auto kernel = [&](Flops flops, double elements) {
      const Bytes traffic(std::llround(elements * element));
      return layer.kind == LayerKind::attention
                 ? kernel_time(beside, flops, Bytes{}) + memory_time(beside, traffic)
                 : kernel_time(costs, flops, traffic, share);
    };
    LayerTime time;
    time.forward = kernel(work, moved.forward);
    time.backward = two_gradients ? 2 * time.forward : kernel(2 * work, moved.backward);
    time.forward_launches = layer.kind == LayerKind::attention ? 2 : 1;
    time.backward_launches = two_gradients ? 2 : 1;
    times.push_back(time);
    before = &layer;
  }
  return times;
}

Seconds misaligned_time(const GpuCosts& costs, const Model& model, std::int64_t batch) {
  Seconds longer;
  for (const Layer& layer : model.layers) {
    if (const double times = misalignment(model, layer, costs.precision); times > 1) {
      const Flops work(kFlopsPerMac * static_cast<double>(batch) * static_cast<double>(layer.forward_macs));
      constexpr int kProducts = 3;  // forward, and backward to data and weights
      longer = longer +
               kProducts * (kernel_time(costs, work, Bytes{}, 1 / times) - kernel_time(costs, work, Bytes{}));
    }
  }
  return longer;
}

}  // namespace paceline
