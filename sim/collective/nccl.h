// NCCL in the groups of one family, in pieces: what could run, what the tuner takes, and the plan of each.
//
// NCCL decides for each communicator; here the groups of a family are decided alike, because their FIFOs share
// links by what all send in a loop: as by those of the kind whose rings are the narrowest. Each kind runs that in
// its own orders of GPUs and NICs. An algorithm that some kind finds no channels for is not there. Where a group has
// nodes of several kinds, each has orders of its own, and all take the least of what was found (agree).
#pragma once

#include <compare>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/collective/algorithms.h"
#include "sim/collective/communicator.h"
#include "sim/collective/costs.h"
#include "sim/collective/placed_family.h"
#include "sim/collective/shared_links.h"
#include "sim/collective/tuner.h"

namespace paceline {

// Of errors about what is asked of the library, where a scenario asks.
inline constexpr std::string_view kCollectivePlace = "/training/collective";

// What the tuner holds for so many times as slow as its choice is never the fastest.
inline constexpr double kHopeless = 4;

class NcclCollectives {
 public:
  // Throws InputError as nccl_planner does. Requires: the topology outlives this; groups of more than one rank.
  NcclCollectives(const Topology&, const CollectiveSpec&, std::span<const BackgroundFlow>,
                  const GroupShape& = kAllRanks);

  const CollectiveCosts& costs() const { return costs_.front(); }  // of the first kind of node
  // What the search found, or was given, in groups of the first kind, on their first nodes.
  const ChannelGraphs& graphs() const { return found_.front().of_kind.front(); }

  // From now on as if the spec had these for NCCL_ALGO and NCCL_PROTO.
  void ask_for(const std::string& algorithm, const std::string& protocol);

  // What the spec allows: first the tuner's choice, then all others that the tuner holds for at most `within` times
  // as slow.
  std::vector<TunerChoice> possible(CollectiveKind, Bytes, double within);
  TunerChoice tuned(CollectiveKind, Bytes);
  // us, as the tuner has it; <= 0: the spec does not allow it.
  double time_of(CollectiveKind, Bytes, const TunerChoice&);

  // Adds the graph that it needs to the communicator; priced with costs().
  CollectivePlan plan(Communicator&, CollectiveKind, Bytes, const TunerChoice&, std::uint32_t root = 0);
  void price(CollectivePlan& plan, const Communicator& communicator, const CollectiveCosts& costs) const {
    price(plan, communicator, std::span(&costs, 1));
  }

 private:
  struct Tuned {
    TunerOverrides allowed;
    TunerTable table;
  };

  // In the groups of one kind.
  struct Found {
    std::vector<ChannelGraphs> of_kind;  // of node, in the order of their first ones
    std::vector<std::uint32_t> on_node;  // of which kind each node is; empty: all are of one
  };

  void price(CollectivePlan&, const Communicator&, std::span<const CollectiveCosts>) const;
  void select(CollectiveKind);  // what input_ and table() are of from now on
  const TunerTable& table() const;
  std::size_t channels_of(Algorithm) const;
  bool fills_faster(Algorithm, Protocol) const;
  void find_channels(const Topology&);
  void describe_nodes(const Topology&);
  struct GraphKey {
    Algorithm algorithm;
    CollectiveKind kind;
    std::uint32_t channels, root;
    friend auto operator<=>(const GraphKey&, const GraphKey&) = default;
  };
  std::uint32_t graph(Communicator&, const GraphKey&);
  void require_memory(CollectiveKind, std::uint32_t channels) const;

  CollectiveSpec spec_;
  std::string plugin_protocols_;  // NCCL_PROTO where the spec has none
  PlacedFamily family_;
  SharedLinks links_;
  std::vector<Found> found_;  // by kind of group
  TunerInput input_;
  std::vector<CollectiveCosts> costs_;  // by kind of node, or one for all
  std::map<CollectiveKind, Tuned> tables_;
  std::map<GraphKey, std::uint32_t> graphs_;
};

// All its times are `factor` times as long.
void scale(CollectivePlan&, double factor);

}  // namespace paceline
