// What one GPU computes in an iteration, before a strategy shares it among ranks.
#pragma once

#include <vector>

#include "core/time.h"
#include "kernels/cost_model.h"
#include "kernels/model.h"
#include "sim/training.h"

namespace paceline {

// A layer's kernels on the simulator's clock, for one micro-batch.
struct LayerSpan {
  SimTime forward, backward;
  int forward_launches = 1, backward_launches = 1;
};

// Made by `workload` (sim/layers/layer_spans.h).
struct Workload {
  Model model;
  TrainingSpec training;
  VariabilitySpec variability;
  GpuCosts costs;
  std::vector<LayerSpan> layers;  // one per layer of the model
  SimTime rest_of_step;           // that equal passes leave of a measured step, in its optimizer's kernel
  SimTime delay;                  // at the end of a step (DelaySpec)
};

// What each rank does, of works that differ in batch and kind of GPU alone.
struct MixedWork {
  std::vector<Workload> works;
  std::vector<std::uint32_t> of_rank{};  // empty: all the first

  std::uint32_t of(std::size_t rank) const { return of_rank.empty() ? 0 : of_rank[rank]; }
};

}  // namespace paceline
