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
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "sim/collective/channels.h"
#include "sim/collective/plan.h"

namespace paceline {

// Requires: a priced graph. Cost: O(FIFOs), and for each round of refinement the FIFOs of thread blocks beside
// those that got another class; as many rounds as the classes need to be told apart.
enum class Begin : std::uint8_t { together, by_rank };
EqualThreadBlocks find_equal_thread_blocks(const CollectiveGraph&, Begin);

// What Begin::by_rank finds where channels were built alike, by comparing these: merge_channels with the same ranks; with
// Begin::by_rank where a FIFO joins channels and no link is shared.
EqualThreadBlocks find_equal_channels(const CollectiveGraph&);

class ThreadBlockClasses;

// The same where most thread blocks begin together and few at other times, again and again on one graph. May be used by
// several threads at once: runs of jobs that differ in costs or sizes alone ask for the same.
class EqualBegins {
 public:
  static constexpr std::uint32_t kUsual = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t kKept = 24;

  explicit EqualBegins(const CollectiveGraph&);  // Requires: it outlives this
  ~EqualBegins();
  EqualBegins(const EqualBegins&) = delete;
  EqualBegins& operator=(const EqualBegins&) = delete;

  const CollectiveGraph& graph() const { return graph_; }
  // begins: by thread block; what have the same number begin together, most of them kUsual. Nothing where that
  // takes more than `most` classes. Cost: as many FIFOs as are told apart from what they are if all begin together;
  // little where it is one of the last kKept that were found, of any thread.
  std::shared_ptr<const EqualThreadBlocks> find(std::span<const std::uint32_t> begins,
                                                std::size_t most) const;

 private:
  struct Found {
    std::vector<std::uint32_t> begins;
    std::size_t most = 0;
    std::shared_ptr<const EqualThreadBlocks> classes;
  };

  const CollectiveGraph& graph_;
  mutable std::once_flag once_;
  mutable std::unique_ptr<ThreadBlockClasses> together_;  // made once; nothing: too many
  mutable std::mutex mutex_;
  mutable std::list<Found> found_;  // last used first
};

}  // namespace paceline
