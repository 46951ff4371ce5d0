// NCCL on one cluster, in pieces: what could run, what the tuner takes, and the plan of each.
#pragma once

#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "sim/collective/algorithms.h"
#include "sim/collective/communicator.h"
#include "sim/collective/costs.h"
#include "sim/collective/pricing.h"
#include "sim/collective/tuner.h"

namespace paceline {

class NcclCollectives {
 public:
  // Throws InputError as nccl_planner does. Requires: the topology outlives this; more than one rank.
  NcclCollectives(const Topology&, const CollectiveSpec&, std::span<const BackgroundFlow>);

  const CollectiveCosts& costs() const { return costs_; }

  // From now on as if the spec had these for NCCL_ALGO and NCCL_PROTO.
  void ask_for(const std::string& algorithm, const std::string& protocol);

  // What the spec allows: first the tuner's choice, then all others that the tuner's table has and does not
  // hold for more than kHopeless times as slow.
  std::vector<TunerChoice> possible(CollectiveKind, Bytes);
  TunerChoice tuned(CollectiveKind, Bytes);

  // Adds the graph that it needs to the communicator; priced with costs().
  CollectivePlan plan(Communicator&, CollectiveKind, Bytes, const TunerChoice&);
  void price(CollectivePlan&, const Communicator&, const CollectiveCosts&) const;

 private:
  struct Tuned {
    TunerOverrides allowed;
    TunerTable table;
  };

  const TunerTable& table(CollectiveKind);
  std::size_t channels_of(Algorithm) const;
  std::uint32_t graph(Communicator&, Algorithm, CollectiveKind, std::uint32_t channels);
  void require_memory(CollectiveKind, std::uint32_t channels) const;

  const Topology& topology_;
  CollectiveSpec spec_;
  RankLayout layout_;
  SharedLinks links_;
  TunerInput input_;
  CollectiveCosts costs_;
  std::map<CollectiveKind, Tuned> tables_;
  std::map<std::tuple<Algorithm, CollectiveKind, std::uint32_t>, std::uint32_t> graphs_;
};

// All its times are `factor` times as long.
void scale(CollectivePlan&, double factor);

}  // namespace paceline
