// Why a step takes as long as it does, and what would change it: all by simulating again.
#pragma once

#include <string>
#include <vector>

#include "scenarios/predict.h"
#include "sim/report/critical_path.h"
#include "studies/levers.h"

namespace paceline {

// A lever, pulled: the same run with its edits.
struct Sensitivity {
  Lever lever;
  Seconds step;       // mean, as the report of that run has it
  double change = 0;  // of the time per sample: -0.11 is 11 % faster
};

struct Explanation {
  CriticalPath path;                       // of the first step that took the median time
  std::vector<Sensitivity> sensitivities;  // most time saved first
  std::vector<std::string> not_possible;   // changes that this scenario's reader refuses
  std::vector<std::string> best_levers;    // at most three sentences; those that save half a percent or more
};

// Cost: a run as far as the median step, and one for each lever, on `jobs` threads.
Explanation explain(const Prediction&, int jobs);

// Members of result.json: "critical_path" (times in whole picoseconds, which add up to the step),
// "sensitivities", "best_levers".
Json::Object explanation_json(const Prediction&, const Explanation&);
std::string explanation_text(const Prediction&, const Explanation&);  // for the terminal

}  // namespace paceline
