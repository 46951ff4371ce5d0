// Thread blocks that must have equal times: one of each class stands for the rest.
//
// Two thread blocks are in one class when they begin together, have equal scripts, and their ports lead over
// equal hops to equal ports of thread blocks of one class (the coarsest equitable partition; ports that are
// always used together are equal). Where all ranks begin together, a ring on a cluster of equal nodes has as
// many classes as a node has GPUs, and a tree about as many as it has levels. Where each rank begins at its
// own time, what is left is channels that are alike.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/collective/plan.h"

namespace paceline {

struct EqualThreadBlocks {
  CollectiveGraph graph;                // one thread block of each class, with scripts of its own
  std::vector<std::uint32_t> class_of;  // by thread block of the whole graph: the thread block of `graph`
};

// Requires: a priced graph. Cost: O(FIFOs), and for each round of refinement the FIFOs of thread blocks beside
// those that got another class; as many rounds as the classes need to be told apart.
enum class Begin : std::uint8_t { together, by_rank };
EqualThreadBlocks find_equal_thread_blocks(const CollectiveGraph&, Begin);

class ThreadBlockClasses;

// The same where most thread blocks begin together and few at other times, again and again on one graph.
class EqualBegins {
 public:
  static constexpr std::uint32_t kUsual = std::numeric_limits<std::uint32_t>::max();

  explicit EqualBegins(const CollectiveGraph&);  // Requires: it outlives this
  ~EqualBegins();
  // begins: by thread block; what have the same number begin together, most of them kUsual. Nothing where that
  // takes more than `most` classes. Cost: as many FIFOs as are told apart from what they are if all begin together.
  std::optional<EqualThreadBlocks> find(std::span<const std::uint32_t> begins, std::size_t most) const;

 private:
  const CollectiveGraph& graph_;
  std::unique_ptr<ThreadBlockClasses> together_;  // nothing: too many
};

}  // namespace paceline
