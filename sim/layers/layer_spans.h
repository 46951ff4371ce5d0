// The layers' times on the simulator's clock: from the roofline, from the user, or anchored to one measured
// rate.
#pragma once

#include <vector>

#include "sim/strategy/workload.h"

namespace paceline {

// One per layer, for one micro-batch. With TrainingSpec::measured the layers keep their shares and are scaled
// until the simulated step of one undisturbed GPU (one micro-batch, optimizer and launches included, input
// left out) takes batch / rate to the picosecond; where it was measured with another batch, that step does,
// and the layers of this batch are scaled by the same factor. Throws InputError when launches or optimizer
// alone take longer than that.
std::vector<LayerSpan> layer_spans(const Model&, const GpuCosts&, const TrainingSpec&);

// What a strategy is given. Throws InputError (places below /training) when the GPU lacks the precision, the
// number of explicit layer times differs from the model's, and as layer_spans does.
Workload workload(const Model&, const GpuSpec&, const TrainingSpec&, const VariabilitySpec&);

}  // namespace paceline
