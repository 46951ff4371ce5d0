// The ranks that run collectives together: the graphs they run on, and what plans a collective.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/units.h"
#include "sim/collective/equal_thread_blocks.h"
#include "sim/collective/family.h"
#include "sim/collective/plan.h"
#include "sim/collective/spec.h"
#include "topology/topology.h"

namespace paceline {

struct SharedFlow {
  std::vector<LinkId> links;
  BytesPerSecond rate;
};

// A graph whose channels alike are one, and what is equal there besides.
struct MergedGraph {
  explicit MergedGraph(const CollectiveGraph& whole)
      : thread_blocks(std::make_shared<const EqualThreadBlocks>(find_equal_channels(whole))),
        equal(thread_blocks->graph) {}
  std::shared_ptr<const EqualThreadBlocks> thread_blocks;
  EqualBegins equal;
};

// Priced graphs, which any number of jobs hold together: at 16,384 GPUs one takes tens of megabytes.
class GraphList {
 public:
  std::size_t size() const { return graphs_.size(); }
  const CollectiveGraph& operator[](std::size_t g) const { return graphs_[g]->graph; }
  // Made when it is first asked for, by any job that holds the graph, and by any thread.
  const MergedGraph& merged(std::size_t g) const {
    const Held& held = *graphs_[g];
    std::call_once(held.once, [&] { held.merged = std::make_unique<const MergedGraph>(held.graph); });
    return *held.merged;
  }
  void push_back(CollectiveGraph graph) { graphs_.push_back(std::make_shared<const Held>(std::move(graph))); }
  void share(const GraphList& of, std::size_t g) { graphs_.push_back(of.graphs_[g]); }

 private:
  struct Held {
    explicit Held(CollectiveGraph whole) : graph(std::move(whole)) {}
    CollectiveGraph graph;
    mutable std::once_flag once{};
    mutable std::unique_ptr<const MergedGraph> merged{};
  };
  std::vector<std::shared_ptr<const Held>> graphs_;
};

struct Communicator {
  std::uint32_t ranks = 1;
  GraphList graphs;
  // Empty unless the graphs' FIFOs cross links that messages, collectives of another queue or others' traffic use:
  std::vector<LinkId> shared_links;  // of the topology
  std::vector<BytesPerSecond> shared_capacity;
  std::vector<SharedFlow> background;
};

// The communicator with just the graphs that these plans run on, in the order of their first use; the plans
// are numbered anew.
Communicator for_plans(const Communicator&, std::span<CollectivePlan> plans);

struct CollectiveRequest {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes bytes;  // as in CollectivePlan, of a group
  GroupShape groups = kAllRanks;
  std::uint32_t root = 0;  // of broadcast and reduce: its place in its group
  friend bool operator==(const CollectiveRequest&, const CollectiveRequest&) = default;
};

// Plans collectives, and adds to the communicator the graphs that they need. May be used for one job after
// the other.
class CollectivePlanner {
 public:
  using Plan = std::function<CollectivePlan(Communicator&, const CollectiveRequest&)>;

  CollectivePlanner(Communicator start, const RankLayout& layout, Plan plan)
      : communicator_(std::move(start)), layout_(layout), plan_(std::move(plan)) {}

  // CollectivePlan::family is left to the job that has the family. Throws InputError as family_of does, and
  // for a root that its group hasn't got.
  CollectivePlan plan(const CollectiveRequest& request) { return plan_(communicator_, request); }
  CollectivePlan plan(CollectiveKind kind, Bytes bytes) { return plan({.kind = kind, .bytes = bytes}); }
  const Communicator& communicator() const { return communicator_; }
  const RankLayout& layout() const { return layout_; }  // of all ranks

 private:
  Communicator communicator_;
  RankLayout layout_;
  Plan plan_;
};

// One rank alone: every collective ends when it begins.
CollectivePlanner lone_planner();

// Of all families of a job, each by a Plan of its own, which is made when the family is first asked for. In
// groups of one rank every collective ends when it begins. The spec's corrections are for all ranks together.
CollectivePlanner planner_of_families(const Topology&, const CollectiveSpec&,
                                      const std::function<CollectivePlanner::Plan(const GroupShape&)>& make);

// The factor on a collective's times: log-linear in the size between corrections, constant beyond them, 1
// where there is none. Requires: those of a kind ascend in size.
double correction(std::span<const Correction>, CollectiveKind, Bytes);

// As NCCL on this cluster: graph search, tuner, channels and chunks (sim/collective/communicator.cpp).
// Throws InputError where the spec leaves no algorithm. Requires: the
// topology outlives the planner.
CollectivePlanner nccl_planner(const Topology&, const CollectiveSpec&,
                               std::span<const BackgroundFlow> background);

// Background flows, those of other jobs among them. Requires: the topology is that of the cluster.
std::vector<BackgroundFlow> traffic_of_others(const Topology&, std::vector<BackgroundFlow> background,
                                              std::span<const OtherJob>);

// As the library that is named, beside all traffic of others. Requires: the topology is that of the cluster.
CollectivePlanner collective_planner(const Topology&, const ClusterUse&);

}  // namespace paceline
