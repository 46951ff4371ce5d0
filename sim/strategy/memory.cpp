#include "sim/strategy/memory.h"

namespace paceline {

TrainingMemory least_memory(const Model& model, const TrainingSpec& training, std::size_t ranks) {
  const std::int64_t elements = parameter_count(model);
  const std::int64_t states = training.optimizer == Optimizer::adam ? 2 : 1;
  TrainingMemory memory;
  memory.parameters = Bytes(elements * bytes_per_element(training.parameters));
  memory.gradients = Bytes(elements * bytes_per_element(training.gradients));
  memory.buckets = ranks > 1 && !training.ddp.gradient_as_bucket_view ? memory.gradients : Bytes(0);
  memory.optimizer = states * memory.parameters;
  return memory;
}

}  // namespace paceline
