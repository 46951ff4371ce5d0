// The plans that could have run where collectives were measured, and their times under any costs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/collective/collective_times.h"
#include "sim/collective/host_collectives.h"
#include "sim/collective/nccl.h"
#include "topology/topology.h"

namespace paceline {

// One place where collectives of one kind were measured.
struct MeasuredPlace {
  CollectiveKind kind = CollectiveKind::all_reduce;
  ClusterSpec cluster;  // with the nodes and GPUs that took part
  CollectiveSpec spec;
  int nodes() const { return nodes_of_job(cluster); }
  int gpus_per_node() const { return gpus_of_node(cluster); }
  int ranks() const { return nodes() * gpus_per_node(); }
  // Said by all rows or by the request; else full nodes and the newest version are assumed.
  bool nodes_stated = true, nccl_stated = true;
  bool searched = false;  // cluster.graphs are what the search finds here, which takes longer than all else
};

// What the tuner holds for so many times as slow as its choice may be what runs: its bandwidths are round figures.
inline constexpr double kUncertain = 1.1;

// What besides the tuner's choice: what it holds for at most `near` times as slow, and what the tuners of other
// versions, and of an NCCL without NVLS, would take on the same channels.
struct OtherCandidates {
  double near = 1;
  std::vector<NcclVersion> versions{};
  bool without_nvls = false;
  bool alone = false;  // without the choice
};

// The times of one place's sizes under any costs. Cost of times(): some 20 us for each plan.
class PlaceModel {
 public:
  // tuner: for each size the tuner's plan, and others; fastest: all that may be that. threads: that simulate.
  PlaceModel(const MeasuredPlace&, std::span<const Bytes> sizes, AlgorithmChoice, const OtherCandidates& = {},
             int threads = 1);

  struct Candidate {
    std::size_t size = 0;  // which of `sizes`
    Algorithm algorithm = Algorithm::ring;
    Protocol protocol = Protocol::simple;
    bool choice = true;        // the tuner's
    double beside_choice = 1;  // its time over that of the tuner's choice, as the tuner has them
    std::string chosen_by{};   // if not near: whose tuner takes it, "NCCL 2.18"
  };
  const std::vector<Candidate>& candidates() const { return candidates_; }  // by size
  const CollectiveCosts& costs() const { return hosts_ ? hosts_->costs() : nccl_->costs(); }
  // NCCL's channels here: for another place on which the search would find the same (ClusterSpec::graphs).
  std::optional<ChannelGraphs> graphs() const {
    return hosts_ ? std::nullopt : std::optional(nccl_->graphs());
  }

  // Seconds of each candidate of which `wanted` is true; others keep what stands in `seconds`.
  void times(const CollectiveCosts&, const std::vector<bool>& wanted, std::span<double> seconds);
  // Likewise of all that may take no longer than `within` (by size) times the fastest of their size; infinity
  // of others.
  void times_of_fastest(const CollectiveCosts&, std::span<const double> within, std::span<double> seconds);
  // ln(seconds) of each size: of the tuner's choice, or of the fastest.
  std::vector<double> log_times(const CollectiveCosts&);

 private:
  void add(const Candidate&, CollectivePlan);
  void add_choices(const MeasuredPlace&, std::span<const Bytes> sizes, const OtherCandidates&);
  void price(std::size_t plan, const CollectiveCosts&);
  // Plans of some sizes, simulated one after the other.
  struct Part {
    std::size_t first, end;  // of plans_
    CollectiveTimes times;   // of these
    SimTime now;
  };
  double simulated(Part&, std::size_t plan);  // of a priced plan
  void times_of_fastest(Part&, const CollectiveCosts&, std::span<const double> within,
                        std::span<double> seconds);

  std::size_t sizes_;
  AlgorithmChoice choose_;
  int threads_;
  std::unique_ptr<Topology> topology_;
  std::unique_ptr<NcclCollectives> nccl_;  // one of the two
  std::unique_ptr<HostCollectives> hosts_;
  std::unique_ptr<Communicator> communicator_;
  std::vector<CollectivePlan> plans_;
  std::vector<Candidate> candidates_;
  std::vector<Part> parts_;
};

// Whether NCCL's search finds the same channels at both, of one kind of node each: it sees no slow links, and asks for
// no collective, algorithm or protocol.
bool finds_same_channels(const MeasuredPlace&, const MeasuredPlace&);
// The channels that were searched for the place, unless its cluster has some or several kinds of node.
void keep_channels(MeasuredPlace&, const PlaceModel&);
// Not any more, where the search would find others than it did: `changed` is what was made of `searched`.
void forget_channels(MeasuredPlace& changed, const MeasuredPlace& searched);
// Those of one of `known` on which the search finds the same, if there is one and the cluster has none.
void take_channels(MeasuredPlace&, const std::vector<MeasuredPlace>& known);

}  // namespace paceline
