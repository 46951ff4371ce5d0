// Why a step takes as long as it does, and what would change it: all by simulating again.
#pragma once

#include <cstddef>
#include <functional>
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

// A change that this scenario's reader or its collectives refuse, and why.
struct Impossible {
  std::string change, reason;
};

struct Explanation {
  CriticalPath path;                       // of the first step that took the median time
  std::vector<Sensitivity> sensitivities;  // most time saved first
  std::vector<Impossible> not_possible;
  // Of the time per sample, what says nothing: how far steps still drift, or how much the mean step of Horovod's varies
  // where its cycles fall otherwise.
  double spread = 0;
  // Sentences: at most three of software, then at most three of hardware, each about another key; those that
  // save half a percent or more, and more than the spread.
  std::vector<std::string> best_levers;
};

// What is known while an explanation is made: one call at a time, from any of its threads. best: of those that
// can be had; nullptr while none saves time.
struct ExplanationSoFar {
  std::function<void(const CriticalPath&)> path = [](const CriticalPath&) {};
  std::function<void(std::size_t tried, std::size_t levers, const Sensitivity* best)> tried =
      [](std::size_t, std::size_t, const Sensitivity*) {};
};

// Cost: a run as far as the median step, and one for each lever, on `jobs` threads. The result is the
// same on any number of them.
Explanation explain(const Prediction&, int jobs, Machines&, const ExplanationSoFar& = {});

// Members of result.json: "critical_path" (times in whole picoseconds, which add up to the step),
// "sensitivities", "spread" (where there is one), "best_levers".
Json::Object explanation_json(const Prediction&, const Explanation&);
Json path_json(const Prediction&, const CriticalPath&);
// For the terminal, in this order: what is known from the run, and what the explanation adds.
std::string collectives_text(const Prediction&);
std::string path_text(const Prediction&, const CriticalPath&);
std::string levers_text(const Explanation&);

}  // namespace paceline
