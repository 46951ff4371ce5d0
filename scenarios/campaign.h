// From a scenario with "faults" to what is left of its days (docs/model.md, "Campaigns").
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "scenarios/json.h"
#include "scenarios/machines.h"
#include "scenarios/scenario.h"
#include "sim/campaign/campaigns.h"
#include "sim/campaign/checkpoint_interval.h"

namespace paceline {

// The machines and what fails of them, as the scenario says, without times that need more than it. Requires: faults.
CampaignSpec campaign_machines(const Scenario&);
// All of it but the interval that a rule says. Throws InputError where bytes have no way.
CampaignSpec campaign_spec(const Scenario&);

// What a step of a campaign takes: what the scenario says, the mean of those that were simulated in its state, or
// one of them, drawn.
enum class StepTaken : std::uint8_t { given, mean, drawn };
template <>
inline constexpr auto kNames<StepTaken> =
    names<StepTaken>({{"given", StepTaken::given}, {"mean", StepTaken::mean}, {"drawn", StepTaken::drawn}});
inline constexpr double kMostDrawn = 3e8;  // steps, in all seeds and levers: more take the mean

// Steps in a state of the cluster, simulated when they are asked for first, or as the scenario gives them.
class CampaignSteps {
 public:
  CampaignSteps(const Scenario& scenario, Machines& machines) : scenario_(scenario), machines_(machines) {}
  const StateSteps& operator()(const ClusterState&);
  std::size_t states() const { return known_.size(); }
  // In all seeds and levers, if a step takes so long; 0: steps don't vary.
  double to_draw(SimTime step) const;

 private:
  StateSteps given(const ClusterState&) const;
  StateSteps simulated(const ClusterState&);

  const Scenario& scenario_;
  Machines& machines_;
  std::map<ClusterState, StateSteps> known_;
};

// What a share of goodput asks for, to first order: d / t + (t / 2 + R) / M <= 1 - share, t at least `least`.
struct GoalRow {
  Seconds restart, from, to;  // intervals t between which it holds; both 0: none
};
struct Goal {
  Seconds longest_restart;  // with which any interval does; below 0: none whatever the restart
  std::vector<GoalRow> rows;
};
Goal intervals_for(double share, Seconds d, Seconds m, Seconds least);

// Names of the failures that no checkpoint survives: memory alone has it, and loses both copies.
std::vector<std::string> fatal_failures(const CampaignSpec&);

struct LeverGoodput {
  CampaignLever lever;
  double goodput = 0;  // mean over the same seeds
};

struct CampaignPrediction {
  CampaignSpec spec;  // with its interval
  IntervalInputs inputs;
  StateSteps healthy;
  bool given = false;  // the step is
  StepTaken taken = StepTaken::mean;
  double to_draw = 0;                   // steps, if all were
  std::vector<CampaignReport> reports;  // by seed
  std::vector<LeverGoodput> levers;
  std::size_t states = 0;  // that were simulated, for all of this
};

// How many of its campaigns (each seed, as it is and with each lever) have ended.
using CampaignProgress = std::function<void(std::size_t done, std::size_t all)>;

struct CampaignWanted {
  bool log = false;    // of the first seed
  bool levers = true;  // four more campaigns a seed
  CampaignProgress progress;
};

// What is asked for, as far as no step need be simulated: campaign_spec, and what else is wrong with it.
CampaignSpec asked_campaign(const Scenario&);

// Throws InputError for a campaign that hardly ever gets anywhere, for a log that would be too long, and as the
// simulation does.
CampaignPrediction predict_campaign(const Scenario&, Machines&, const CampaignWanted& = {});
std::string why_taken(const CampaignPrediction&);

Spread goodput_of(const CampaignPrediction&);  // the share, over the seeds
// Over all its reports.
std::uint64_t fingerprint_of(const CampaignPrediction&);

Json::Object campaign_json(const Scenario&, const CampaignPrediction&);
// What a line of a sweep has of it: means over the seeds, of goodput 5 and 95 %, too.
Json::Object campaign_summary(const CampaignPrediction&);
std::string campaign_table(const Scenario&, const CampaignPrediction&);
// from_s,to_s,what,which,steps,undone_s,useful_s
std::string campaign_events_csv(const CampaignReport&);
// The result where the step is given, and there is nothing else to tell.
std::string campaign_result_json(const Scenario&, const CampaignPrediction&);
// Whether steps are simulated: else the campaign is all that there is.
inline bool simulates_steps(const Scenario& s) { return !s.faults || !s.faults->step; }

}  // namespace paceline
