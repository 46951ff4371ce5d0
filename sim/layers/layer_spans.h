// The layers' times on the simulator's clock: from the roofline, from the user, or anchored to one measured
// rate.
#pragma once

#include <vector>

#include "sim/strategy/workload.h"

namespace paceline {

struct LayerSpans {
  std::vector<LayerSpan> layers;  // one per layer of the model, for one micro-batch
  SimTime rest_of_step;           // Workload's
};

// With TrainingSpec::measured the layers keep their shares and are scaled until the simulated step of one
// undisturbed GPU (optimizer and launches included, input left out), with the batch and the accumulation that
// a rate was measured with, takes samples / rate to the picosecond. At a batch between two measured ones the
// time of a pass is affine; beyond them it grows as the costs say. Throws InputError when launches or optimizer
// alone take longer than that, and for a rate above the GPU's dense peak.
LayerSpans layer_spans(const Model&, const GpuCosts&, const TrainingSpec&);

// What a strategy is given. Throws InputError (places below /training) when the GPU lacks the precision, the
// number of explicit layer times differs from the model's, and as layer_spans does.
Workload workload(const Model&, const GpuSpec&, const TrainingSpec&, const VariabilitySpec&);

// How many times as long the layers take on so many GPUs: 1 on one.
double delay_factor(const DelaySpec&, std::int64_t ranks, int accumulation);

// The work as so many GPUs do it.
Workload delayed(Workload, std::int64_t ranks);

}  // namespace paceline
