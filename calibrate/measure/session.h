// One run of the program on this rank: who takes part, and what the ranks agree on with each other.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/measure/backend.h"
#include "calibrate/measure/control.h"
#include "calibrate/measure/options.h"
#include "calibrate/measure/plan.h"
#include "calibrate/measure/result_file.h"
#include "calibrate/measure/statistics.h"
#include "calibrate/measure/steps.h"

namespace paceline::measure {

inline constexpr int kLeastRepeats = 5;

struct Session {
  const Options& options;
  const Place& place;
  Backend& backend;
  Control& control;
  int nodes = 1;
  bool one_clock = true;  // all ranks on one machine

  bool leads() const { return place.rank == 0; }
  // The fault that the tests want of this rank in this row or iteration.
  std::optional<Fault> fault_at(int row) const;

  // All ranks call these at the same point.
  double largest(double own);                                              // over ranks
  bool all(bool own);                                                      // over ranks
  void require_right(const std::string& title, const std::string& wrong);  // not empty: this rank disagrees
  // Times of every rank, by rank; on rank 0.
  std::vector<std::vector<double>> gather_times(const std::vector<double>& own);
  // Median and spread over repeats of the slowest rank; on rank 0.
  std::optional<Spread> spread_of_slowest(const std::vector<double>& own);

  // Makes one call `once()` (seconds) at least kLeastRepeats times, as often as the options allow, the same
  // number on every rank. `estimate_s`: of one call.
  std::vector<double> repeat(double estimate_s, const std::function<double()>& once);
};

// Measures one row of the plan; the times on rank 0. `row`: its number, for faults.
std::optional<Spread> measure_row(Session&, const PlanRow&, int row);
// What is common to both ways of running something beside something else (overlap.cpp).
std::optional<Spread> measure_overlap(Session&, const PlanRow&);

// Runs the trainer. Rank 0 hands a row per iteration, then the median with its times, to `write`.
void train(Session&, const std::vector<StepOperation>&, const ResultRow& median,
           const std::function<void(const ResultRow&)>& write);
// The row of the median, without times: a file that has it needs no training. `row`: the columns that do not depend on
// what is measured.
ResultRow train_row(ResultRow row, const Options&, const std::vector<StepOperation>&);

// Everything that main() does. Returns the exit status.
int run_session(const std::vector<std::string>& arguments, const std::string& program);

}  // namespace paceline::measure
