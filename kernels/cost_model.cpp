#include "kernels/cost_model.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/text.h"

namespace paceline {
namespace {

FlopsPerSecond peak_of(const GpuSpec& gpu, Precision precision) {
  return gpu.peak[static_cast<std::size_t>(precision)];
}

// Over an output, forward.
struct Passes {
  double batch_norm, frozen_norm, layer_norm, attention;
};

Passes passes_of(const RooflineSpec& roofline, Precision precision) {
  const bool eager = roofline.kernels == KernelMode::eager;
  const bool by_cudnn = precision != Precision::bf16;
  return {.batch_norm = roofline.norm_passes.value_or(eager && !by_cudnn ? 9 : 5),
          .frozen_norm = roofline.norm_passes.value_or(5),
          .layer_norm = roofline.layer_norm_passes.value_or(eager ? 45 : 20),
          .attention = roofline.attention_passes};
}

struct Elements {
  double forward = 0, backward = 0;
};

// Elements moved for a batch.
Elements traffic(const Layer& layer, const Layer* before, double batch, const Passes& passes) {
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
    case LayerKind::norm: {
      const bool of_conv = before != nullptr && before->kind == LayerKind::conv;
      forward = (of_conv ? passes.frozen_norm : passes.layer_norm) * output;
      break;
    }
    case LayerKind::batch_norm:
      forward = passes.batch_norm * output;
      break;
    case LayerKind::attention:
      forward = passes.attention * output;
      break;
    case LayerKind::embedding:
      return {2 * output, 2 * output + parameters};
  }
  return {forward, 2 * forward};
}

// Outputs and inputs of a product at a position: its matrix; 0: not known, as where a layer has several, or a
// tied one is used at a part of the tokens.
std::int64_t common_size(const Model& model, const Layer& layer) {
  if (layer.kind != LayerKind::linear || layer.forward_macs == 0 || layer.output_elements == 0 ||
      layer.forward_macs % layer.output_elements != 0) {
    return 0;
  }
  const bool tied = layer.parameters.empty();
  const std::int64_t out = !tied ? matrix_rows(model, layer, 0)
                           : model.tokens > 0 && layer.output_elements % model.tokens == 0
                               ? layer.output_elements / model.tokens
                               : 0;
  const std::int64_t positions = out > 0 ? layer.output_elements / out : 0;
  const bool of_one_matrix = model.tokens == 0 || positions == model.tokens || positions == 1;
  return out > 0 && of_one_matrix ? std::gcd(out, layer.forward_macs / layer.output_elements) : 0;
}

// How much longer cuBLAS computes where rows don't begin at multiples of 16 bytes. In
// scenarios/validation/h200/operators.csv, beside padded ones, 5.9 and 7.6 times with 50,257 words, 2.6 with 30,522;
// compiled, the two products of the backward pass are padded.
double misalignment(const Model& model, const Layer& layer, Precision precision) {
  const std::int64_t size = bytes_per_element(precision) == 2 ? common_size(model, layer) : 0;
  return size % 2 != 0 ? 6 : size % 8 != 0 ? 3 : 1;
}

// Where convolutions run on tensor cores as on a V100, A100 or H100. Boards whose tensor cores have two to four times
// fp32's peak (GeForce, A10G, L4, L40S, H20) are taken for RTX 3090 and 4090, which show neither a loss against products
// nor one in channels_first (docs/model.md).
bool far_above_fp32(const GpuCosts& costs) {
  constexpr double kFar = 4;
  return peak_of(costs.gpu, costs.precision).value > kFar * peak_of(costs.gpu, Precision::fp32).value;
}

// Of a convolution's input and output, forward, each by a kernel of its own that reads and writes it.
Seconds transposition_time(const GpuCosts& costs, const Layer& layer, const Layer* before, double batch) {
  const auto transposed = [&](std::int64_t elements) {
    return memory_time(
        costs,
        Bytes(std::llround(2 * batch * static_cast<double>(elements * bytes_per_element(costs.precision)))));
  };
  return transposed(before != nullptr ? before->output_elements : 0) + transposed(layer.output_elements);
}

// A batch norm's own passes, of those that are counted, as many bytes as in fp32.
double passes_channels_first(double passes, double element) {
  constexpr double kOwn = 3, kBytes = 4;
  return passes + std::min(kOwn, passes) * (kBytes / element - 1);
}

// What runs beside products in fp8 runs in 16 bits, where the GPU has them.
GpuCosts beside_products(GpuCosts costs) {
  for (const Precision half : {Precision::bf16, Precision::fp16}) {
    if (costs.precision == Precision::fp8 && peak_of(costs.gpu, half).value > 0) {
      costs.precision = half;
    }
  }
  return costs;
}

}  // namespace

double product_efficiency(const GpuSpec& gpu, Precision precision) {
  const double known = gpu.product_efficiency[static_cast<std::size_t>(precision)];
  return known > 0 ? known : precision == Precision::fp32 ? 0.9 : precision == Precision::fp8 ? 0.68 : 0.77;
}

Seconds memory_time(const GpuCosts& costs, Bytes traffic) {
  const Seconds bytes = traffic / (costs.gpu.memory_bandwidth * costs.roofline.memory_efficiency);
  return traffic.value > 0 ? costs.roofline.memory_start + bytes : bytes;
}

namespace {

double compute_efficiency(const GpuCosts& costs) {
  return costs.roofline.compute_efficiency.value_or(product_efficiency(costs.gpu, costs.precision));
}

Seconds kernel_time(const GpuCosts& costs, Flops work, Bytes traffic, double efficiency) {
  const Seconds memory = memory_time(costs, traffic);
  if (work.value <= 0) {
    return memory;
  }
  const FlopsPerSecond peak = peak_of(costs.gpu, costs.precision);
  assert(peak.value > 0);
  return std::max((work / peak + costs.roofline.half_work) / efficiency, memory);
}

}  // namespace

Seconds kernel_time(const GpuCosts& costs, Flops work, Bytes traffic) {
  return kernel_time(costs, work, traffic, compute_efficiency(costs));
}

void require_precision(const GpuSpec& gpu, Precision precision) {
  if (peak_of(gpu, precision).value > 0) {
    return;
  }
  std::vector<std::string> known;
  for (const auto& [name, other] : kNames<Precision>) {
    if (peak_of(gpu, other).value > 0) {
      known.emplace_back(name);
    }
  }
  throw InputError(gpu.name + " has no " + std::string(name_of(precision)) +
                   "; it has: " + joined(known, ", "));
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

Precision kept_in(Precision kernels) { return kernels == Precision::fp8 ? Precision::bf16 : kernels; }

bool same_format(Precision a, Precision b) {
  const auto in_memory = [](Precision p) { return p == Precision::tf32 ? Precision::fp32 : p; };
  return in_memory(a) == in_memory(b);
}

namespace {

// `padded`: as if every size were a multiple of 8.
std::vector<LayerTime> layer_times(const GpuCosts& costs, const Model& model, std::int64_t batch,
                                   bool padded) {
  assert(batch >= 0);
  require_precision(costs.gpu, costs.precision);
  const auto samples = static_cast<double>(batch);
  const GpuCosts beside = beside_products(costs);
  const auto element = static_cast<double>(bytes_per_element(beside.precision));
  const double of_products = compute_efficiency(costs);
  constexpr double kMost =
      0.9;  // where boards run above the clock of their peak, nobody measured convolutions
  const double of_convolutions =
      std::min(of_products, far_above_fp32(costs) ? costs.roofline.conv_efficiency : kMost);
  const bool transposes =
      costs.roofline.memory_format == MemoryFormat::channels_first && far_above_fp32(costs);
  Passes passes = passes_of(costs.roofline, beside.precision);
  if (transposes) {
    passes.batch_norm = passes_channels_first(passes.batch_norm, element);
  }

  std::vector<LayerTime> times;
  times.reserve(model.layers.size());
  const Layer* before = nullptr;
  for (const Layer& layer : model.layers) {
    const Elements moved = traffic(layer, before, samples, passes);
    const double slower = padded ? 1 : misalignment(model, layer, costs.precision);
    const double slower_backward = costs.roofline.kernels == KernelMode::eager ? slower : 1;
    const Flops work(kFlopsPerMac * samples * static_cast<double>(layer.forward_macs));
    const bool two_gradients =
        layer.forward_macs > 0 && (layer.kind == LayerKind::conv || layer.kind == LayerKind::linear);
    const auto kernel = [&](Flops flops, double elements) {
      const Bytes traffic(std::llround(elements * element));
      return layer.kind == LayerKind::attention
                 ? kernel_time(beside, flops, Bytes{}) + memory_time(beside, traffic)
                 : kernel_time(costs, flops, traffic,
                               layer.kind == LayerKind::conv ? of_convolutions : of_products);
    };
    const Seconds transposed = transposes && two_gradients && layer.kind == LayerKind::conv
                                   ? transposition_time(beside, layer, before, samples)
                                   : Seconds{};
    LayerTime time;
    time.forward = kernel(slower * work, moved.forward) + transposed;
    time.backward = two_gradients ? 2 * (kernel(slower_backward * work, moved.forward) + transposed)
                                  : kernel(2 * work, moved.backward);
    time.forward_launches = layer.kind == LayerKind::attention ? 2 : 1;
    time.backward_launches = two_gradients ? 2 : 1;
    times.push_back(time);
    before = &layer;
  }
  return times;
}

}  // namespace

std::vector<LayerTime> layer_times(const GpuCosts& costs, const Model& model, std::int64_t batch) {
  return layer_times(costs, model, batch, false);
}

namespace {

Seconds sum(const std::vector<LayerTime>& times) {
  Seconds all;
  for (const LayerTime& time : times) {
    all = all + time.forward + time.backward;
  }
  return all;
}

}  // namespace

Seconds misaligned_time(const GpuCosts& costs, const Model& model, std::int64_t batch) {
  return sum(layer_times(costs, model, batch, false)) - sum(layer_times(costs, model, batch, true));
}

double channels_first_slowdown(const GpuCosts& costs, const Model& model, std::int64_t batch) {
  const auto in = [&](MemoryFormat format) {
    GpuCosts other = costs;
    other.roofline.memory_format = format;
    return sum(layer_times(other, model, batch));
  };
  return in(MemoryFormat::channels_first) / in(MemoryFormat::channels_last);
}

double eager_slowdown(const GpuCosts& costs, const Model& model, std::int64_t batch) {
  const auto with = [&](KernelMode kernels) {
    GpuCosts other = costs;
    other.roofline.kernels = kernels;
    return sum(layer_times(other, model, batch));
  };
  return with(KernelMode::eager) / with(KernelMode::compiled);
}

}  // namespace paceline
