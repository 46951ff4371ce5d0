// Thread blocks that must have equal times: one of each class stands for the rest.
//
// Two thread blocks are in one class when they begin together, have equal scripts, and their ports lead over
// equal hops to equal ports of thread blocks of one class (the coarsest equitable partition; ports that are
// always used together are equal). Where all ranks begin together, a ring on a cluster of equal nodes has as
// many classes as a node has GPUs, and a tree about as many as it has levels. Where each rank begins at its
// own time, what is left is channels that are alike.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collective/plan.h"

namespace paceline {

struct EqualThreadBlocks {
  CollectiveGraph graph;                // one thread block of each class, with scripts of its own
  std::vector<std::uint32_t> class_of;  // by thread block of the whole graph: the thread block of `graph`
};

// Requires: a priced graph. Cost: O(FIFOs) for each round of refinement, as many rounds as the classes need
// to be told apart.
enum class Begin : std::uint8_t { together, by_rank };
EqualThreadBlocks find_equal_thread_blocks(const CollectiveGraph&, Begin);

}  // namespace paceline
