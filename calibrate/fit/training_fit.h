// Measured training throughput of a few GPUs -> what predicts more (calibrate/fit/training_prediction.h).
//
// What is fitted, all at once: one GPU's rate with each batch that was measured (training.measured), and what a
// step of several GPUs loses beside communication (variability.delays): a time per step, paid from two GPUs on,
// and a part of the kernels' time for each doubling of the GPUs. Rates are free; the delays have a prior, what
// published runs lose, so that few rows suffice: least squares of ln(predicted / measured) with it
// (maximum a posteriori; covariance from its curvature).
//
// Parameter servers serve one GPU as they serve several: its row tells what the layers take beside them, and
// training.measured is the rate of that GPU without servers.
//
// What does not fit into one GPU, or was not measured on one, needs no such row: then its rate is what explains
// the rows of several GPUs.
//
// What no row of one node can tell is whether gradients are reduced during backward or after it. Where the
// scenario's reduction is "unknown", the prediction is the geometric mean of both, and the interval holds both.
//
// Cost: some five simulations of each row, two of each prediction; nothing random is simulated.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/measurement.h"
#include "scenarios/profile.h"
#include "scenarios/scenario.h"

namespace paceline {

// How far submitters' delays are from kTypicalDelays: standard deviations of the prior.
inline constexpr DelaySpec kDelayDeviations{Seconds(1.5e-3), 0.01};

// A row, and what the fit makes of it.
struct TrainingRow {
  TrainingMeasurement row;
  double samples_per_second = 0;
};

struct TrainingFit {
  ProfileTraining result;
  std::vector<TrainingRow> rows;
};

// `base`: model, node, batch and fabric of the machine; its number of nodes and GPUs doesn't matter. Without a
// one-GPU row base.training.measured counts as one. `progress` is told of each simulation.
// Throws InputError: no row, a row that isn't positive or doesn't fit base's node, a one-GPU rate that the
// model can't reach, a smallest row whose step is shorter than its communication.
TrainingFit fit_training(const Scenario& base, std::span<const TrainingMeasurement> rows,
                         const FitProgress& progress = {});

// Rows in tokens/s in samples/s as well. Throws InputError where the model's samples aren't tokens.
std::vector<TrainingMeasurement> in_samples(std::vector<TrainingMeasurement>, const Model&);

// The scenario on a row's GPUs, with its batch, accumulation and parameter servers where it states them. Ranks that
// are named as slow or spared and aren't among them are left out. Throws InputError where it has batches by rank, a
// balance, or traffic of others.
Scenario on_row(Scenario, const TrainingMeasurement&);

// The fitted values, and a line for each row.
std::string fit_text(const TrainingFit&);

}  // namespace paceline
