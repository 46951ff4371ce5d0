// What a GPU operation costs, in seconds of an undisturbed GPU.
//
// Roofline: time = max(flops / (peak * efficiency(flops)), bytes / (memory_bandwidth * memory_efficiency)), with
// efficiency(w) = compute_efficiency * w / (w + half_work): a kernel too small to fill the GPU does not reach its peak.
// (Williams, Waterman, Patterson 2009, with a saturating efficiency.)
#pragma once

#include <vector>

#include "core/units.h"
#include "kernels/gpu.h"
#include "kernels/model.h"

namespace paceline {

struct RooflineSpec {
  double compute_efficiency = 0.87;  // bf16 matmul reached on an A100, 271 of 312 TFLOP/s
  Flops half_work{2e9};              // work at which a kernel reaches half of it
  double memory_efficiency = 0.85;   // HBM triad on an A100-80GB, 1.7 of 2.0 TB/s
};

struct GpuCosts {
  GpuSpec gpu;
  RooflineSpec roofline;
  Precision precision = Precision::fp32;
};

// Any kernel. Requires: the GPU has the precision (see require_precision).
Seconds kernel_time(const GpuCosts&, Flops work, Bytes traffic);
// A kernel bound by memory alone: copies, scaling, optimizer.
Seconds memory_time(const GpuCosts&, Bytes traffic);
// Throws InputError naming the precisions that the GPU has.
void require_precision(const GpuSpec&, Precision);

struct LayerTime {
  Seconds forward, backward;
  int forward_launches = 1, backward_launches = 1;  // kernels that the host launches
};

// Per-layer times of a batch of `batch` samples. Forward does 2 FLOP per MAC; backward twice the work of forward.
// Traffic: forward reads the parameters and the previous layer's output and writes its own; backward moves twice that.
std::vector<LayerTime> layer_times(const GpuCosts&, const Model&, std::int64_t batch);

}  // namespace paceline
