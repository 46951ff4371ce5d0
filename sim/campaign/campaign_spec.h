// A campaign: days of training on machines that fail, as values. Times are resolved; where they come from is the
// caller's affair (docs/model.md, "Campaigns").
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/names.h"
#include "core/time.h"

namespace paceline {

// What fails. software: the job, of which there is one; switch: a leaf switch.
enum class FailingPart : std::uint8_t { gpu, node, nic, leaf_switch, software };
template <>
inline constexpr auto kNames<FailingPart> = names<FailingPart>({{"gpu", FailingPart::gpu},
                                                                {"node", FailingPart::node},
                                                                {"nic", FailingPart::nic},
                                                                {"switch", FailingPart::leaf_switch},
                                                                {"software", FailingPart::software}});

// What is gone with it: a process, which starts anew where it was; its node, or all nodes of a leaf, till repaired.
enum class FailureTakes : std::uint8_t { process, node, leaf };
template <>
inline constexpr auto kNames<FailureTakes> = names<FailureTakes>(
    {{"process", FailureTakes::process}, {"node", FailureTakes::node}, {"leaf", FailureTakes::leaf}});

struct FailureKind {
  std::string name;  // its draws are addressed by it
  FailingPart of = FailingPart::node;
  FailureTakes takes = FailureTakes::process;
  CampaignTime found_after;  // it happened, or, of a hang, after the begin of the step in which it did
  bool hangs = false;
  CampaignTime mtbf;  // of one part; 0: none is drawn
  double shape = 1;   // Weibull's; 1: exponential
  CampaignTime repair;
};

struct TracedFailure {
  CampaignTime at;
  std::size_t kind = 0;  // of CampaignSpec::failures
  std::uint32_t part = 0;
};

// A state that comes and passes: nodes that are slow for a while, links that flap.
struct PassingState {
  std::string name;    // its draws are addressed by it
  CampaignTime every;  // mean time until one part falls into it
  CampaignTime lasts;
  bool stands = false;  // steps don't advance meanwhile
};

// What a restart takes, phase by phase.
struct RestartTimes {
  CampaignTime stop, rendezvous, start, initialisation;
  CampaignTime load, load_from_memory, fetch_from_peer;  // the last where a node lost its memory
  CampaignTime replacement;                              // until a spare or repaired node has taken a place
  CampaignTime join_timeout,
      resubmit;            // a rendezvous that waits longer has failed: the job is submitted again
  CampaignTime last_call;  // of a rendezvous that fewer nodes may complete
  std::optional<std::int64_t> restarts;  // the job ends with the next one; none: never
};

// What says the interval between checkpoints.
enum class IntervalRule : std::uint8_t { fixed, young, daly, search };
template <>
inline constexpr auto kNames<IntervalRule> = names<IntervalRule>({{"fixed", IntervalRule::fixed},
                                                                  {"young", IntervalRule::young},
                                                                  {"daly", IntervalRule::daly},
                                                                  {"search", IntervalRule::search}});

// Checkpoints. Training stands for `stall`, the rest happens beside it; one counts when it is complete.
struct CheckpointTimes {
  IntervalRule rule = IntervalRule::fixed;
  CampaignTime interval;       // of training between two; 0: as `steps` says
  std::int64_t steps = 0;      // likewise; 0: as `interval` says
  CampaignTime stall, upload;  // upload: to storage, beside training
  bool storage = true;
  bool memory = false;             // kept in the memory of hosts, each node's on its peer too
  CampaignTime memory_copy;        // to the peer, beside training
  std::int64_t storage_every = 1;  // of both: every so many of memory's go to storage as well
};

struct CampaignSpec {
  int nodes = 1, gpus_per_node = 1, nics_per_node = 0, nodes_per_leaf = 1;
  int spares = 0;
  int min_nodes = 0;  // elastic: training goes on with at least as many; 0: with all alone
  std::vector<FailureKind> failures;
  std::vector<PassingState> passing;
  std::vector<TracedFailure> trace;  // in order of time
  RestartTimes restart;
  CheckpointTimes checkpoint;
  std::int64_t work_steps = 0, work_samples = 0;  // what is to be done; 0: no such end
  CampaignTime length;                            // the campaign's end in any case
  std::uint64_t seed = 1;
  bool log = false;  // what happened when, beside the sums
};

// What the cluster is like: it alone decides how long steps take.
struct ClusterState {
  int nodes = 0;
  std::vector<int> passing;  // how many parts are in each of CampaignSpec::passing
  friend auto operator<=>(const ClusterState&, const ClusterState&) = default;
};

// Steps in a state. With several times, one is drawn for each step.
struct StateSteps {
  std::vector<SimTime> steps;
  SimTime mean;
  SimTime first;  // after a restart
  std::int64_t samples = 1;
};
// Asked for at least once for each state that a campaign meets, and for the healthy ones beside it.
using StepsOf = std::function<const StateSteps&(const ClusterState&)>;

// How many parts there are.
std::uint32_t parts_of(const CampaignSpec&, FailingPart);
// Whether checkpoints in memory survive it: each node's part is there and on the next node. Requires: all nodes train.
bool memory_survives(const CampaignSpec&, const FailureKind&);
// Time between failures of the whole system, all kinds together; 0: none is drawn.
CampaignTime system_mtbf(const CampaignSpec&);

}  // namespace paceline
