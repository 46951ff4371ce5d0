// What a GPU operation costs, in seconds of an undisturbed GPU.
//
// Roofline: time = max(flops / (peak * efficiency(flops)), memory_start + bytes / (memory_bandwidth *
// memory_efficiency)),
// with efficiency(w) = compute_efficiency * w / (w + peak * half_work): a kernel too small to fill the GPU
// does not reach its peak. (Williams, Waterman, Patterson 2009, with a saturating efficiency.) Equally: each
// kernel with work pays half_work / compute_efficiency on top of its time at peak.
#pragma once

#include <optional>
#include <vector>

#include "core/units.h"
#include "kernels/gpu.h"
#include "kernels/model.h"

namespace paceline {

// Defaults for every GPU and model; none is fitted to a model's throughput.
struct RooflineSpec {
  // These two reproduce the best published bf16 matmuls (stas00/ml-engineering,
  // compute/accelerator/README.md, MAMF table) within 3%: A100 86.9% of peak at 107 GFLOP, H100 80.3% at 112,
  // GH200 83.8% at 129, B200 77.6% at 178. Convolutions reach less: those of ResNet-50, TF32, batch 128, on
  // an H100 (operator trace in sarchlab/triosim) fit 0.6 and 36 us.
  double compute_efficiency = 0.90;
  // Work at which a kernel reaches half of that, as its time at peak: faster GPUs need more to be full.
  Seconds half_work{13e-6};
  // In the same trace ReLU and addition reach 92% of the data sheet's rate, batch norm as three passes 76%.
  double memory_efficiency = 0.85;
  // Of a kernel that memory bounds, beside its bytes: 3.3 us on an H200 (docs/gpu-checks.md). 0 as long as one machine
  // is all that is known.
  Seconds memory_start{};
  // How often a norm layer's output crosses memory, forward, with the elementwise work around it that a Model
  // does not list: batch norm 3 (two reads, a write) + ReLU 2; layer norm 2 + residual addition 3. Backward
  // twice as often.
  double norm_passes = 5;
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

// Any kernel; one without work is bound by memory alone. Requires: the GPU has the precision (see
// require_precision).
Seconds kernel_time(const GpuCosts&, Flops work, Bytes traffic);
// A kernel bound by memory alone: copies, scaling, optimizer.
Seconds memory_time(const GpuCosts&, Bytes traffic);
// Throws InputError naming the precisions that the GPU has.
void require_precision(const GpuSpec&, Precision);

// Of an activation, a parameter or its gradient inside a layer: fp32 and tf32 4, fp16 and bf16 2, fp8 1.
std::int64_t bytes_per_element(Precision);
// In memory: tf32 is fp32 there.
bool same_format(Precision, Precision);

struct LayerTime {
  Seconds forward, backward;
  int forward_launches = 1, backward_launches = 1;  // kernels that the host launches
};

// Per-layer times of a batch of `batch` samples; optimizer, loss and input are not layers. Forward does 2
// FLOP per MAC, backward twice the work of forward. Traffic, forward, in elements of the precision:
//   conv, linear  parameters + input + output; the input is taken to be the previous layer's output (none for
//                 the first layer; too much after a pooling, too little where branches meet)
//   norm          norm_passes * output
//   attention     4 * output: q, k, v and the output, as in a fused kernel whose scores stay on the chip
//   embedding     2 * output: only the rows looked up
// Backward moves twice that; an embedding moves its output's gradient twice and writes a dense gradient of
// its table. A conv or linear layer with work runs backward as two kernels of the forward's size (data and
// weight gradient), anything else as one. A layer without MACs costs its traffic only. Launches: forward 1,
// attention 2 (scores, values); backward as many as kernels.
//
// The defaults against measurement, one GPU, with the optimizer's memory traffic: ResNet-50 fp32 on a V100
// 378 img/s (measured 322 to 398 by framework), fp16 1390 (803 to 1473); BERT base fp32 152 /s (107 to 154);
// but BERT base fp16 971 (183 to 552), and ResNet-50 tf32 on an A100 1586 (938): with tensor cores the
// defaults are an upper bound, so anchor such runs to a measurement.
//
// Requires: batch >= 0. Throws InputError where the GPU lacks the precision.
std::vector<LayerTime> layer_times(const GpuCosts&, const Model&, std::int64_t batch);

}  // namespace paceline
