// A DDP job from its parts.
#pragma once

#include "sim/layers/layer_spans.h"
#include "sim/strategy/build_job.h"

namespace paceline {

inline TrainingJob ddp_job(const Model& model, const GpuSpec& gpu, const TrainingSpec& training,
                           const VariabilitySpec& variability, CollectivePlanner& planner) {
  return build_job(training.ddp, workload(model, gpu, training, variability), planner);
}

inline TrainingJob reference_job(const Model& model, const GpuSpec& gpu, const TrainingSpec& training,
                                 const VariabilitySpec& variability) {
  return build_reference_job(workload(model, gpu, training, variability));
}

}  // namespace paceline
