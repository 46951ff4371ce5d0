// From what rows of training told (calibrate/fit/training_fit.h) to the throughput of more GPUs, with its interval.
#pragma once

#include "scenarios/machines.h"
#include "scenarios/profile.h"
#include "scenarios/scenario.h"

namespace paceline {

// How far ln of a throughput differs when a run is repeated (repeated nccl-tests tables of one cluster by 0.5 %,
// MLPerf's runs by 0.2 %, CSC's over months by 1 %).
inline constexpr double kRepeatDeviation = 0.01;

// ln of the step's time, and how far it is from either way to reduce.
struct LogStep {
  double mean = 0, half_range = 0;
};

LogStep log_step(const Scenario&, Machines&);

// Steps are alike from the second on unless the scenario draws at random.
Scenario with_few_steps(Scenario);

double samples_of_step(const Scenario&);  // of all GPUs, in all passes

// The scenario with the fitted rates and delays.
Scenario apply(const ProfileTraining&, Scenario);

struct ThroughputPrediction {
  double samples_per_second = 0;
  double low = 0, high = 0;  // interval of 90 %
};

// apply()s the fit and simulates.
ThroughputPrediction predict_throughput(const ProfileTraining&, const Scenario&);

}  // namespace paceline
