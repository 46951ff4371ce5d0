// How far a predicted step may be off, by what the profile doesn't know: by re-simulation.
#pragma once

#include <string>

#include "scenarios/profile.h"
#include "scenarios/scenario.h"

namespace paceline {

struct TrainingInterval {
  Seconds step, low, high;  // 90 %
  bool extrapolated = false;
  bool kernels_measured = true;  // else the interval is of communication alone
  std::string why;
  bool own_rate = false, own_delays = false;  // the scenario's stand in place of the profile's
};

// `fitted`: with_profile(scenario, profile). The step's interval: all collectives at the ends of a full
// bucket's interval (FSDP: of the largest unit's all-gather), and, where the profile was fitted to training,
// predict_throughput's (training_prediction.h), whose middle it then has unless the scenario says its own rate or
// delays. Cost: two simulations, and those of predict_throughput.
TrainingInterval training_interval(const Scenario& fitted, const Profile&);

std::string interval_text(const TrainingInterval&);  // for the terminal

}  // namespace paceline
