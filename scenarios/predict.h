// The main path: from a scenario to a prediction; and how a prediction is written.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "scenarios/json.h"
#include "scenarios/machines.h"
#include "scenarios/scenario.h"
#include "sim/report/report.h"

namespace paceline {

// A link of the scenario's degraded ones.
struct LinkReport {
  std::size_t degraded = 0;  // which of them
  std::string link;          // "node3/nic0", "node0/gpu1 - node0/gpu2"
  Seconds step_delay;        // by which the mean step shortens when this link is healthy, all else equal
};

struct Prediction {
  Scenario scenario;
  std::shared_ptr<const Topology> topology;
  TrainingJob job;
  Result result;
  Report report;
  std::vector<LinkReport> links;      // most delay first
  std::vector<std::int64_t> batches;  // by rank, where `balance` set them: at last
};

// Builds topology and job, runs it and its one-GPU reference, and, for at most kMostLinksExamined degraded
// links, the same run without that degradation. `progress`: of its own run alone.
inline constexpr std::size_t kMostLinksExamined = 16;
Prediction predict(const Scenario&, const TraceRequest& = {});
Prediction predict(const Scenario&, const TraceRequest&, Machines&, const StepProgress& = {});

// The mean steady step alone, as predict's report has it.
Seconds mean_step_of(const Scenario&, Machines&);

// result.json, and trace.json (Chrome / Perfetto trace events: a process per rank, a track per stream).
std::string result_json(const Prediction&, Json::Object more = {});  // `more`: further members
std::string trace_json(const Prediction&);

// "node3/gpu5", as Topology names it.
std::string gpu_name(const Scenario&, Rank);

}  // namespace paceline
