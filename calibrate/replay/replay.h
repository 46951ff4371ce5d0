// A scenario's training step for the measuring program, which runs it for real, and the comparison of the
// two.
#pragma once

#include <string>

#include "calibrate/measurement.h"
#include "scenarios/predict.h"

namespace paceline {

// The steady step's operations as `--train` of calibrate/measure reads them (op,index,duration_us,bytes,
// label): kernels between two collectives or waits as one. Throws InputError for what the trainer doesn't do:
// collectives other than all-reduce (buffers that are broadcast).
std::string steps_csv(const TrainingJob&);

// What `paceline calibrate replay` prints: measured and predicted step time, one line. Throws InputError when
// `measured` has no steps of the scenario's number of ranks.
std::string replay_table(const Prediction&, const MeasuredData& measured);

}  // namespace paceline
