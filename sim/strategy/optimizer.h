// What an optimizer keeps, and what its step moves and launches: memory alone, nothing of it is bound by arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/training.h"

namespace paceline {

// Of so many parameters: momentum, or first and second moment.
Bytes optimizer_moments(const TrainingSpec&, std::int64_t parameters);

struct OptimizerStep {
  Bytes traffic;             // read and written
  std::size_t launches = 1;  // kernels
};
// On so many parameters in so many tensors, whose gradients have this precision.
OptimizerStep optimizer_step(const TrainingSpec&, std::int64_t parameters, Precision gradients,
                             std::size_t tensors);

// The norms that clipping and the optimizer ask for: where the state is sharded, ranks reduce them. LAMB and LARS
// (layer-wise rates) have two of each tensor, taken as reduced at once, as Apex's DistributedFusedLAMB does.
struct Norms {
  bool of_all = false;
  std::int64_t of_each_tensor = 0;
};
Norms norms_of(const TrainingSpec&);

// Clipping gradients by their norm before it, on the same. Nothing where the optimizer does so itself.
OptimizerStep clipping_step(const TrainingSpec&, std::int64_t parameters, Precision gradients);

}  // namespace paceline
