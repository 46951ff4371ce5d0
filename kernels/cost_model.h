// What a GPU operation costs, in seconds of an undisturbed GPU.
//
// Roofline: time = max(flops / (peak * reached(flops)), memory_start + bytes / (memory_bandwidth *
// memory_efficiency)),
// with reached(w) = efficiency * w / (w + peak * half_work): a kernel too small to fill the GPU
// does not reach its peak. (Williams, Waterman, Patterson 2009, with a saturating efficiency.) Equally: each
// kernel with work pays half_work / efficiency on top of its time at peak. The efficiency is compute_efficiency; of
// convolutions conv_efficiency at most, where the peak is more than four times fp32's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/names.h"
#include "core/units.h"
#include "kernels/gpu.h"
#include "kernels/model.h"

namespace paceline {

// How a batch of images lies in memory: NHWC or NCHW; PyTorch's default is channels_first (contiguous).
enum class MemoryFormat : std::uint8_t { channels_last, channels_first };
template <>
inline constexpr auto kNames<MemoryFormat> = names<MemoryFormat>(
    {{"channels_last", MemoryFormat::channels_last}, {"channels_first", MemoryFormat::channels_first}});

// Whether elementwise work is fused around products and norms (torch.compile, XLA, Megatron's and Apex's kernels), or
// each operation is a kernel.
enum class KernelMode : std::uint8_t { compiled, eager };
template <>
inline constexpr auto kNames<KernelMode> =
    names<KernelMode>({{"compiled", KernelMode::compiled}, {"eager", KernelMode::eager}});

// Defaults for every GPU and model; none is fitted to a model's throughput.
struct RooflineSpec {
  // Left out: product_efficiency().
  std::optional<double> compute_efficiency{};
  // Work at which a kernel reaches half of that, as its time at peak: faster GPUs need more to be full. Products alone
  // say 4 to 7 us in 16 bits, 8 to 12 in fp32 and fp8 (docs/gpu-checks.md); published steps of few samples say more
  // (docs/accuracy.md).
  Seconds half_work{13e-6};
  // On an H100 ReLU and addition reach 92% of the data sheet's rate, batch norm as three passes 76% (operator trace of
  // ResNet-50, TF32, batch 128, in sarchlab/triosim).
  double memory_efficiency = 0.85;
  // Of a kernel that memory bounds, beside its bytes: 3.8 us on an H100, 4.0 on an H200 (docs/gpu-checks.md). 0: small
  // batches are long enough without it (docs/accuracy.md).
  Seconds memory_start{};
  // Of a peak above four times fp32's, convolutions: in the same trace 0.585, in bf16 on an H200 0.70
  // (scenarios/validation/h200/operators.csv). Of a lower one as products: in fp32 Winograd's algorithm makes up for
  // what they lose on a V100, though not on an H200 or H100 (0.45 to 0.59 in ResNet-50).
  double conv_efficiency = 0.585;
  // What fused attention takes beside its products, as passes over its output, forward: in the same file 8 to 21 with
  // heads of 64, 128 to 2,048 tokens, in bf16 and fp32 (those from 1,024 on are causal, half of what is counted).
  double attention_passes = 16;
  KernelMode kernels = KernelMode::compiled;
  // How often a batch norm's output crosses memory, forward, with the elementwise work around it that a Model
  // does not list; backward twice as often. Left out: 5, three (two reads, a write) and ReLU's two; of eager kernels in
  // bf16, where PyTorch's own batch norm runs in place of cuDNN's, 9 (in operators.csv 4 compiled, 9 eager).
  std::optional<double> norm_passes{};
  // The same of a layer norm or RMSNorm, two of which a transformer's block has: beside the norm the residual addition,
  // activation, dropout, casts, bias gradients. Left out: 20, eager 45. In operators.csv, under autocast to bf16, 19 to
  // 30 compiled; eager 38 (BERT) and 46 (ViT) with the kernels of torch.nn, 88 (Llama) and 102 to 112 (GPT-2) with
  // those of Hugging Face.
  std::optional<double> layer_norm_passes{};
  MemoryFormat memory_format = MemoryFormat::channels_last;
  // Kernels of compression, as kernels/runnable.h counts their bytes; left out: as what streams.
  std::optional<double> quantise_efficiency{}, dequantise_efficiency{};
  // Selection is several passes: torch.topk's radix select reads a value up to six times (ATen/native/cuda/
  // TensorTopK.cu, several blocks), which alone makes 0.14; published times are 10 to 100 copies, and this is 10 of
  // them. Before PyTorch 1.12 one block did it all: 2 M values of a P100 took 25.6 ms (pytorch/pytorch#22812), 0.0004.
  double top_k_efficiency = 0.05;
};

struct GpuCosts {
  GpuSpec gpu;
  RooflineSpec roofline;
  Precision precision = Precision::fp32;
};

// What large matrix products reach of the peak: as known of the GPU, else 0.9 in fp32, 0.68 in fp8 and 0.77.
double product_efficiency(const GpuSpec&, Precision);
// Any kernel but convolutions; one without work is bound by memory alone. Requires: the GPU has the
// precision (see require_precision).
Seconds kernel_time(const GpuCosts&, Flops work, Bytes traffic);
// A kernel bound by memory alone: copies, scaling, optimizer.
Seconds memory_time(const GpuCosts&, Bytes traffic);
// Throws InputError naming the precisions that the GPU has.
void require_precision(const GpuSpec&, Precision);

// Of an activation, a parameter or its gradient inside a layer: fp32 and tf32 4, fp16 and bf16 2, fp8 1.
std::int64_t bytes_per_element(Precision);
// In memory: tf32 is fp32 there.
bool same_format(Precision, Precision);
// What parameters and activations are kept in, for kernels of this format: products read fp8, all else is in 16 bits
// (torchao's Float8Linear saves inputs and weights as they were, before its casts).
Precision kept_in(Precision kernels);

struct LayerTime {
  Seconds forward, backward;
  int forward_launches = 1, backward_launches = 1;  // kernels that the host launches
};

// Per-layer times of a batch of `batch` samples; optimizer, loss and input are not layers. Forward does 2
// FLOP per MAC, backward twice the work of forward. Traffic, forward, in elements of the precision:
//   conv, linear  parameters + input + output; the input is taken to be the previous layer's output (none for
//                 the first layer; too much after a pooling, too little where branches meet)
//   norm          norm_passes * output behind a convolution (a frozen batch norm, too, and a layer norm that
//                 stands there), else layer_norm_passes
//   attention     attention_passes * output: q, k, v, the output, and what a fused kernel does beside its products,
//                 which overlaps with nothing
//   embedding     2 * output: only the rows looked up
// With fp8, traffic and attention are in 16 bits.
// Backward moves twice that; an embedding moves its output's gradient twice and writes a dense gradient of
// its table. A conv or linear layer with work runs backward as two kernels of the forward's size (data and
// weight gradient), anything else as one. A layer without MACs costs its traffic only. Launches: forward 1,
// attention 2 (scores, values); backward as many as kernels.
//
// In channels_first, with tensor cores of more than four times fp32's peak, each kernel of a convolution has its input
// and output transposed (read and written once more, not counted as launches), and three of a batch norm's passes take
// as long as in fp32: it has a thread block for each channel. Elsewhere the format makes no difference. What an H100
// took so and how far the parts are off: docs/gpu-checks.md.
//
// A product in fp16 or bf16 one of whose sizes is no multiple of 8 (GPT-2's 50,257 words) reaches less, compiled in the
// forward pass alone: docs/model.md.
// docs/accuracy.md has the defaults beside measured rates of one GPU.
//
// Requires: batch >= 0. Throws InputError where the GPU lacks the precision.
std::vector<LayerTime> layer_times(const GpuCosts&, const Model&, std::int64_t batch);
// Of these, what products take longer because a size is no multiple of 8.
Seconds misaligned_time(const GpuCosts&, const Model&, std::int64_t batch);
// How many times as long as all layers in channels_last those in channels_first take; 1 without convolutions.
double channels_first_slowdown(const GpuCosts&, const Model&, std::int64_t batch);
// How many times as long as all compiled layers eager ones take.
double eager_slowdown(const GpuCosts&, const Model&, std::int64_t batch);
inline constexpr double kSlowdownMatters = 1.05;  // of these, what is worth a word

}  // namespace paceline
