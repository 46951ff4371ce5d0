// Which tensors Horovod reduces together (Controller::FuseResponses of horovod/common/controller.cc).
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "core/units.h"

namespace paceline {

struct FusedTensor {
  Bytes bytes;
  std::uint32_t type = 0;  // whatever tells types apart
};

// Groups of their numbers, in the order in which they run. A group takes tensors of one type in their order, each
// padded to 16 bytes, as long as they fit into `threshold`; it looks past those that don't as long as it and all
// that it passed fit together. A tensor larger than the threshold is a group of its own.
std::vector<std::vector<std::uint32_t>> fusions(std::span<const FusedTensor> tensors, Bytes threshold);

// A threshold as Horovod uses it: a multiple of 64 elements of 8 bytes for each GPU of a node.
Bytes usable_threshold(Bytes threshold, std::uint32_t gpus_per_node);

// What each GPU of a node has of a sum when the node has reduced and scattered it, and what is left over, which
// the last one has beside it (NCCLHierarchicalAllreduce::Execute of horovod/common/ops/nccl_operations.cc). A sum
// of several tensors is first lengthened to a multiple of 64 elements for each GPU.
struct NodeParts {
  Bytes each, rest;
  friend auto operator<=>(const NodeParts&, const NodeParts&) = default;
};
NodeParts node_parts(Bytes, std::int64_t bytes_per_element, bool several, std::uint32_t gpus_per_node);

}  // namespace paceline
