// Workers that must have equal times: one of each class stands for the rest.
//
// Two workers are in one class when they begin together, have equal scripts, and their ports lead over equal
// hops to equal ports of workers of one class (the coarsest equitable partition; ports that are always used
// together are equal). Where all ranks begin together, a ring on a cluster of equal nodes has as many classes
// as a node has GPUs, and a tree about as many as it has levels. Where each rank begins at its own time, what
// is left is channels that are alike.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collective/plan.h"

namespace paceline {

struct EqualWorkers {
  CollectiveGraph graph;                // one worker of each class, with scripts of its own
  std::vector<std::uint32_t> class_of;  // by worker of the whole graph: the worker of `graph`
};

// Requires: a priced graph. Cost: O(FIFOs) for each round of refinement, as many rounds as the classes need
// to be told apart.
enum class Begin : std::uint8_t { together, by_rank };
EqualWorkers find_equal_workers(const CollectiveGraph&, Begin);

}  // namespace paceline
