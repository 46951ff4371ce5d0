// The gradients of a model's parameter tensors, in the orders in which frameworks meet them.
#pragma once

#include <cstddef>
#include <vector>

#include "core/units.h"
#include "kernels/model.h"

namespace paceline {

// A parameter tensor's gradient.
struct Gradient {
  std::size_t layer = 0;
  std::size_t tensor = 0;  // in the order of registration
  Bytes bytes;
};

// The last registered first.
std::vector<Gradient> reversed_gradients(const Model&, std::int64_t bytes_each);

// As backward makes them ready: the last layer first. A product's bias is added last, so its gradient is there before
// the weight's; where one operation uses all of a layer's tensors, autograd hands their gradients out in the order
// of its inputs (compared with autograd for ResNet-50, VGG-16, Inception V3 and GPT-2: tests/frameworks).
std::vector<Gradient> gradients_in_ready_order(const Model&, std::int64_t bytes_each);

}  // namespace paceline
