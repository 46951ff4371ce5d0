#include "sim/strategy/gradients.h"

#include <algorithm>

namespace paceline {

std::vector<Gradient> reversed_gradients(const Model& model, std::int64_t bytes_each) {
  std::vector<Gradient> registered;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    for (const std::int64_t elements : model.layers[l].parameters) {
      registered.push_back({l, registered.size(), Bytes(elements * bytes_each)});
    }
  }
  std::ranges::reverse(registered);
  return registered;
}

std::vector<Gradient> gradients_in_ready_order(const Model& model, std::int64_t bytes_each) {
  std::vector<Gradient> ready = reversed_gradients(model, bytes_each);
  for (auto first = ready.begin(); first != ready.end();) {
    const auto last =
        std::find_if(first, ready.end(), [&](const Gradient& g) { return g.layer != first->layer; });
    if (model.layers[first->layer].kind != LayerKind::linear) {
      std::reverse(first, last);
    }
    first = last;
  }
  return ready;
}

}  // namespace paceline
