#include "kernels/model.h"

#include <charconv>
#include <string_view>
#include <system_error>

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

std::int64_t tokens_of_sample(const Model& model) {
  std::int64_t tokens = 0;
  const char* const end = model.input.data() + model.input.size();
  const auto [rest, error] = std::from_chars(model.input.data(), end, tokens);
  return error == std::errc() && std::string_view(rest, end) == " tokens" ? tokens : 0;
}

}  // namespace paceline
