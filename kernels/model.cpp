#include "kernels/model.h"

#include <utility>

#include "core/error.h"

namespace paceline {
namespace {

constexpr double kMostWork = 1e18;  // of a layer, in multiply-accumulates

std::int64_t in_proportion(std::int64_t work, std::int64_t from, std::int64_t to) {
  if (static_cast<double>(work) / static_cast<double>(from) * static_cast<double>(to) > kMostWork) {
    throw InputError("expected a shorter sequence, whose work can be counted, found " + std::to_string(to));
  }
  return work / from * to + (work % from * to + from / 2) / from;
}

bool sees_one_token(const Layer& layer) {
  return layer.kind == LayerKind::linear && !layer.parameters.empty() &&
         layer.forward_macs == layer.parameters.front();
}

}  // namespace

Model at_sequence(Model model, std::int64_t tokens) {
  if (model.tokens == 0) {
    throw InputError(model.name + " has no sequence: one of its samples is " + model.input);
  }
  if (model.most_tokens > 0 && tokens > model.most_tokens) {
    throw InputError("expected at most " + std::to_string(model.most_tokens) + ", up to which " + model.name +
                     " has positions, or sees all tokens, found " + std::to_string(tokens));
  }
  const std::int64_t before = std::exchange(model.tokens, tokens);
  for (Layer& layer : model.layers) {
    if (before > 1 && sees_one_token(layer)) {
      continue;
    }
    layer.forward_macs = in_proportion(layer.forward_macs, before, tokens);
    if (layer.kind == LayerKind::attention) {
      layer.forward_macs = in_proportion(layer.forward_macs, before, tokens);
    }
    layer.output_elements = in_proportion(layer.output_elements, before, tokens);
  }
  if (const std::string number = std::to_string(before); model.input.starts_with(number + ' ')) {
    model.input.replace(0, number.size(), std::to_string(tokens));
  }
  return model;
}

std::int64_t matrix_rows(const Model& model, const Layer& layer, std::size_t tensor) {
  const std::int64_t elements = layer.parameters[tensor], outputs = layer.output_elements;
  if (tensor > 0 || outputs == 0) {
    return 0;
  }
  std::int64_t rows = 0;
  if (layer.kind == LayerKind::embedding && model.tokens > 0 && outputs % model.tokens == 0) {
    const std::int64_t length = outputs / model.tokens;
    rows = elements % length == 0 ? elements / length : 0;
  } else if ((layer.kind == LayerKind::linear || layer.kind == LayerKind::conv) && layer.forward_macs > 0 &&
             layer.forward_macs % elements == 0 && outputs % (layer.forward_macs / elements) == 0) {
    rows = outputs / (layer.forward_macs / elements);
  }
  return rows > 0 && elements % rows == 0 ? rows : 0;
}

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
