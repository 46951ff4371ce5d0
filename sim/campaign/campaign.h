// Runs a campaign: steps, checkpoints, failures and restarts on a clock of its own.
//
// Between two things that happen, steps are counted, not simulated, and so are checkpoints that are alike: what a
// campaign costs grows with its failures (with a log: with its checkpoints; with drawn steps: with its steps), not with
// its GPUs. A step has the state that its beginning has.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/names.h"
#include "sim/campaign/campaign_spec.h"

namespace paceline {

// Where the time of a campaign goes that is not goodput. Each instant counts once.
enum class CampaignLoss : std::uint8_t {
  detection,          // from a failure until the job knows
  stop,               // of the processes that are left
  waiting_for_nodes,  // spares that take their places, repairs
  rendezvous,
  start,
  initialisation,
  load,
  redone_steps,  // steps, or parts of them, that a failure undid
  checkpoint,    // training stands for it
  slow_states,   // what steps of slow nodes and flapping links take longer
  fewer_nodes,   // what steps with fewer nodes take longer than their samples do with all
  first_step     // what the first step after a restart takes longer
};
template <>
inline constexpr auto kNames<CampaignLoss> =
    names<CampaignLoss>({{"detection", CampaignLoss::detection},
                         {"stop", CampaignLoss::stop},
                         {"waiting_for_nodes", CampaignLoss::waiting_for_nodes},
                         {"rendezvous", CampaignLoss::rendezvous},
                         {"start", CampaignLoss::start},
                         {"initialisation", CampaignLoss::initialisation},
                         {"load", CampaignLoss::load},
                         {"redone_steps", CampaignLoss::redone_steps},
                         {"checkpoint", CampaignLoss::checkpoint},
                         {"slow_states", CampaignLoss::slow_states},
                         {"fewer_nodes", CampaignLoss::fewer_nodes},
                         {"first_step", CampaignLoss::first_step}});
using CampaignLosses = std::array<CampaignTime, kNames<CampaignLoss>.size()>;

enum class CampaignEnd : std::uint8_t { work_done, length, max_restarts, no_progress };
template <>
inline constexpr auto kNames<CampaignEnd> = names<CampaignEnd>({{"work_done", CampaignEnd::work_done},
                                                                {"length", CampaignEnd::length},
                                                                {"max_restarts", CampaignEnd::max_restarts},
                                                                {"no_progress", CampaignEnd::no_progress}});

// From when to when what was done; a failure takes no time.
struct CampaignEvent {
  CampaignTime from, to;
  std::string what;  // "steps", a loss's name, "failure"
  std::string
      which;  // of a failure: kind and part; of steps: how many nodes, and who is in which passing state
  std::int64_t steps = 0;  // done until then, those that failures undid left out
  // Of steps: their last part, which a failure or the end undid, in all redone_steps; and of the rest what is goodput.
  CampaignTime undone, useful;
};

struct CampaignReport {
  CampaignTime wall;
  CampaignTime goodput;  // of the steps that survive, at the rate without faults; with the losses: wall
  CampaignLosses losses{};
  CampaignEnd end = CampaignEnd::work_done;
  std::int64_t steps = 0, samples = 0;  // that survive
  std::int64_t restarts = 0, resubmissions = 0, checkpoints = 0, membership_changes = 0;
  std::vector<std::int64_t> failures;  // by kind
  std::vector<CampaignEvent> events;   // where asked for
  double goodput_share() const {
    return wall.ps == 0 ? 1 : static_cast<double>(goodput.ps) / static_cast<double>(wall.ps);
  }
};

// A campaign gives up after as many restarts in a row without a new checkpoint.
inline constexpr int kMostRestartsWithoutProgress = 1000;

// Over all that it counts.
std::uint64_t fingerprint_of(const CampaignReport&);

// Requires: a spec whose parts exist, length above 0, work or not; steps above 0.
CampaignReport run_campaign(const CampaignSpec&, const StepsOf&);

}  // namespace paceline
