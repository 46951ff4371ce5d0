// A campaign whose times are whole seconds, for what is counted by hand.
#pragma once

#include <map>
#include <numeric>
#include <string>

#include "sim/campaign/campaign.h"

namespace paceline {

inline CampaignTime seconds(double s) { return to_campaign_time(Seconds(s)); }
inline double in_seconds(CampaignTime t) { return to_seconds(t).value; }
inline double lost(const CampaignReport& r, CampaignLoss why) {
  return to_seconds(r.losses[static_cast<std::size_t>(why)]).value;
}
inline CampaignTime all_losses(const CampaignReport& r) {
  return std::accumulate(r.losses.begin(), r.losses.end(), CampaignTime());
}
// What of a log is wrong: its events follow each other from the begin to the end, and are the account to the picosecond.
inline std::string wrong_in_log(const CampaignReport& r) {
  CampaignTime at, undone, useful, slower;
  std::map<std::string, CampaignTime> by_name;
  for (const CampaignEvent& e : r.events) {
    if (e.from != at || e.to < at || (e.from == e.to) != (e.what == "failure")) {
      return "an event doesn't begin where the last one ended";
    }
    at = e.to;
    by_name[e.what] += e.to - e.from;
    undone += e.undone;
    useful += e.useful;
    if (e.what == "steps") {
      slower += e.to - e.from - e.undone - e.useful;
    } else if (e.undone.ps != 0 || e.useful.ps != 0) {
      return "what is no step is undone or useful";
    }
    if (e.undone.ps < 0 || e.useful.ps < 0 || e.undone + e.useful > e.to - e.from) {
      return "a piece has less time than is undone and useful";
    }
  }
  const auto loss = [&](CampaignLoss which) { return r.losses[static_cast<std::size_t>(which)]; };
  for (const auto& [name, which] : kNames<CampaignLoss>) {
    if (which < CampaignLoss::redone_steps || which == CampaignLoss::checkpoint) {
      if (by_name[std::string(name)] != loss(which)) {
        return std::string(name);
      }
    }
  }
  slower += by_name["slow_states"];
  return at != r.wall                                 ? "wall"
         : undone != loss(CampaignLoss::redone_steps) ? "redone_steps"
         : useful != r.goodput                        ? "goodput"
         : slower != loss(CampaignLoss::slow_states) + loss(CampaignLoss::fewer_nodes) +
                         loss(CampaignLoss::first_step)
             ? "slower steps"
             : "";
}
inline SimTime step_of(double s) { return to_sim_time(Seconds(s)); }

// Steps that take the same whatever the state.
inline StepsOf steady(double step, double first, std::int64_t samples = 1) {
  const StateSteps steps{{step_of(step)}, step_of(step), step_of(first), samples};
  return [steps](const ClusterState&) -> const StateSteps& { return steps; };
}

// Four nodes of two GPUs in two leaves; node failures are found after 15 s.
inline CampaignSpec small_campaign() {
  CampaignSpec spec;
  spec.nodes = 4;
  spec.gpus_per_node = 2;
  spec.nics_per_node = 1;
  spec.nodes_per_leaf = 2;
  spec.failures = {
      {"node", FailingPart::node, FailureTakes::node, seconds(15), false, {}, 1, seconds(3600)},
      {"process", FailingPart::gpu, FailureTakes::process, seconds(1), false, {}, 1, {}},
      {"hang", FailingPart::nic, FailureTakes::process, seconds(600), true, {}, 1, {}},
      {"switch", FailingPart::leaf_switch, FailureTakes::leaf, seconds(15), false, {}, 1, seconds(1000)}};
  spec.restart = {.stop = seconds(1),
                  .rendezvous = seconds(2),
                  .start = seconds(30),
                  .initialisation = seconds(3),
                  .load = seconds(20),
                  .load_from_memory = seconds(5),
                  .fetch_from_peer = seconds(2),
                  .replacement = seconds(60),
                  .join_timeout = seconds(600),
                  .resubmit = seconds(100),
                  .last_call = seconds(10),
                  .restarts = {}};
  spec.checkpoint.steps = 10;
  spec.checkpoint.stall = seconds(5);
  spec.work_steps = 30;
  spec.length = seconds(1e6);
  return spec;
}

}  // namespace paceline
