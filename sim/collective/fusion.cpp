#include "sim/collective/fusion.h"

#include <deque>

namespace paceline {
namespace {

constexpr std::int64_t rounded_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

constexpr std::int64_t kPadding = 16, kAtom = 64;  // FUSION_BUFFER_ATOMIC_UNIT

}  // namespace

std::vector<std::vector<std::uint32_t>> fusions(std::span<const FusedTensor> tensors, Bytes threshold) {
  std::vector<std::vector<std::uint32_t>> groups;
  std::vector<bool> taken(tensors.size());
  const auto padded = [&](std::size_t i) { return rounded_up(tensors[i].bytes.value, kPadding); };
  for (std::uint32_t first = 0; first < tensors.size(); ++first) {
    if (taken[first]) {
      continue;
    }
    std::vector<std::uint32_t>& group = groups.emplace_back(1, first);
    std::int64_t size = padded(first), passed = 0;
    for (std::uint32_t i = first + 1; i < tensors.size(); ++i) {
      if (taken[i]) {
        continue;
      }
      if (tensors[i].type == tensors[first].type && size + padded(i) <= threshold.value) {
        size += padded(i);
        group.push_back(i);
        taken[i] = true;
      } else if (passed += padded(i); size + passed > threshold.value) {
        break;
      }
    }
  }
  return groups;
}

Bytes usable_threshold(Bytes threshold, std::uint32_t gpus_per_node) {
  constexpr std::int64_t kLargestElement = 8;
  return Bytes(rounded_up(threshold.value, kAtom * kLargestElement * gpus_per_node));
}

NodeParts node_parts(Bytes bytes, std::int64_t bytes_per_element, bool several, std::uint32_t gpus_per_node) {
  const std::int64_t tensors = bytes.value / bytes_per_element;
  const std::int64_t elements = several ? rounded_up(tensors, kAtom * gpus_per_node) : tensors;
  return {Bytes(elements / gpus_per_node * bytes_per_element),
          Bytes(elements % gpus_per_node * bytes_per_element)};
}

}  // namespace paceline
