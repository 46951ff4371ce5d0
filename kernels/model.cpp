#include "kernels/model.h"

namespace paceline {

std::int64_t parameter_count(const Model& model) {
  std::int64_t count = 0;
  for (const Layer& layer : model.layers) {
    for (const std::int64_t elements : layer.parameters) {
      count += elements;
    }
  }
  return count;
}

std::int64_t forward_macs(const Model& model) {
  std::int64_t macs = 0;
  for (const Layer& layer : model.layers) {
    macs += layer.forward_macs;
  }
  return macs;
}

std::size_t parameter_tensors(const Model& model) {
  std::size_t tensors = 0;
  for (const Layer& layer : model.layers) {
    tensors += layer.parameters.size();
  }
  return tensors;
}

}  // namespace paceline
