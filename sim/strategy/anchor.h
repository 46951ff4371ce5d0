// The layers' times on the simulator's clock: from the roofline, from the user, or anchored to one measured
// rate.
#pragma once

#include <vector>

#include "sim/strategy/program_builder.h"

namespace paceline {

// One per layer, for one micro-batch. With TrainingSpec::measured the layers keep their shares and are scaled
// until the simulated step of one undisturbed GPU (one micro-batch, optimizer and launches included, input
// left out) takes batch / rate to the picosecond; where it was measured with another batch, that step does,
// and the layers of this batch are scaled by the same factor. Throws InputError when launches or optimizer
// alone take longer than that.
std::vector<LayerSpan> layer_spans(const Model&, const GpuCosts&, const TrainingSpec&);

}  // namespace paceline
