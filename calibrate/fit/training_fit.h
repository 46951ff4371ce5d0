// Measured training throughput of a few GPUs -> a prediction for more.
//
// What is fitted: the rate of one GPU (the anchor, training.measured) and one parameter, the delays that a
// GPU meets in an iteration: variability.per_iteration, exponential with a coefficient of variation `cv`. A
// step of n GPUs waits for the slowest: it grows by cv * (1/2 + 1/3 + ... + 1/n), that is with log n. A row
// with several GPUs determines cv; without one it keeps its default by precision, and sharded training has none.
//
// What doesn't fit into one GPU has no such row: then its rate is the one with which the simulated step of the
// smallest row, on its GPUs and with its accumulation, takes the time that was measured.
//
// What no row of one node can tell is whether gradients are reduced during backward or after it. Where the
// scenario doesn't know, the prediction is the geometric mean of both, and the interval holds both.
//
// Cost: a fit is some ten simulations of each row with several GPUs, a prediction two to six.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "calibrate/measurement.h"
#include "core/names.h"
#include "scenarios/scenario.h"

namespace paceline {

enum class Overlap : std::uint8_t {
  as_stated,  // as training.ddp says
  unknown,    // that, or everything reduced at once after backward
};
template <>
inline constexpr auto kNames<Overlap> =
    names<Overlap>({{"stated", Overlap::as_stated}, {"unknown", Overlap::unknown}});

// A fitted value and its interval of 90 %.
struct FittedValue {
  double value = 0, low = 0, high = 0;
  bool determined = false;  // by the rows; else its default
  std::string why;          // where the value comes from, for reports
};

struct TrainingFit {
  FittedValue one_gpu_rate;  // samples/s
  FittedValue delay_cv;
  Overlap overlap = Overlap::as_stated;
  int most_ranks = 1;     // of the rows
  int most_nodes = 1;     // of the rows
  double mean_error = 0;  // mean |ln(predicted / measured)| of the rows with several GPUs
};

// `base`: model, node, batch and fabric of the machine; its number of nodes and GPUs doesn't matter. Without
// a one-GPU row base.training.measured is the anchor, or, failing that, what explains the smallest row.
// Throws InputError: no row, a row that isn't positive or doesn't fit base's node, a one-GPU rate that the
// model can't reach, a smallest row whose step is shorter than its communication.
TrainingFit fit_training(const Scenario& base, std::span<const TrainingMeasurement> rows,
                         Overlap = Overlap::as_stated);

// The scenario with the fitted anchor and delays; training.ddp stays as it is.
Scenario apply(const TrainingFit&, Scenario);

// The scenario on a row's GPUs, with its accumulation where it states one.
Scenario on_row(Scenario, const TrainingMeasurement&);

struct ThroughputPrediction {
  double samples_per_second = 0;
  double low = 0, high = 0;  // interval of 90 %
};

// apply()s the fit and simulates, with enough iterations for the mean of the slowest GPU.
ThroughputPrediction predict_throughput(const TrainingFit&, const Scenario&);

}  // namespace paceline
