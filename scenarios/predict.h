// The main path: from a scenario to a prediction; and how a prediction is written.
#pragma once

#include <string>

#include "scenarios/scenario.h"
#include "sim/report/report.h"

namespace paceline {

struct Prediction {
  Scenario scenario;
  TrainingJob job;
  Result result;
  Report report;
};

// Builds topology and job, runs it and its one-GPU reference, and, for at most kMostLinksExamined degraded
// links, the same run without that degradation.
inline constexpr std::size_t kMostLinksExamined = 16;
Prediction predict(const Scenario&, const TraceRequest& = {});

// result.json, trace.json (Chrome / Perfetto trace events: a process per rank, a track per stream) and the
// terminal's table.
std::string result_json(const Prediction&);
std::string trace_json(const Prediction&);
std::string terminal_table(const Prediction&);

// build_topology, with the places of its errors as a file names them.
Topology build_checked_topology(const ClusterSpec&);

// "node3/gpu5", as Topology names it.
std::string gpu_name(const Scenario&, Rank);

}  // namespace paceline
