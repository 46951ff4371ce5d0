// The ranks that run collectives together: the graphs they run on, and what plans a collective.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/units.h"
#include "sim/collective/plan.h"
#include "sim/training.h"
#include "topology/topology.h"

namespace paceline {

struct SharedFlow {
  std::vector<LinkId> links;
  BytesPerSecond rate;
};

struct Communicator {
  std::uint32_t ranks = 1;
  std::vector<CollectiveGraph> graphs;
  // Empty unless other traffic crosses the graphs' FIFOs:
  std::vector<BytesPerSecond> shared_capacity;
  std::vector<SharedFlow> background;
};

// Plans collectives, and adds to the communicator the graphs that they need.
class CollectivePlanner {
 public:
  using Plan = std::function<CollectivePlan(Communicator&, CollectiveKind, Bytes)>;

  CollectivePlanner(Communicator start, Plan plan)
      : communicator_(std::move(start)), plan_(std::move(plan)) {}

  CollectivePlan plan(CollectiveKind kind, Bytes bytes) { return plan_(communicator_, kind, bytes); }
  const Communicator& communicator() const { return communicator_; }
  Communicator take() { return std::move(communicator_); }  // ends the planner's life

 private:
  Communicator communicator_;
  Plan plan_;
};

// One rank alone: every collective ends when it begins.
CollectivePlanner lone_planner();

// The factor on a collective's times: log-linear in the size between corrections, constant beyond them, 1
// where there is none. Requires: those of a kind ascend in size.
double correction(std::span<const Correction>, CollectiveKind, Bytes);

// As NCCL on this cluster: graph search, tuner, channels and chunks (sim/collective/communicator.cpp).
// Broadcasts and reductions have root 0. Throws InputError where the spec leaves no algorithm. Requires: the
// topology outlives the planner.
CollectivePlanner nccl_planner(const Topology&, const CollectiveSpec&,
                               std::span<const BackgroundFlow> background);

// As the library that the spec names.
CollectivePlanner collective_planner(const Topology&, const CollectiveSpec&,
                                     std::span<const BackgroundFlow> background);

}  // namespace paceline
