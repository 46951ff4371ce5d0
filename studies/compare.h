// Side by side: one scenario, trained in several ways, or several scenarios.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "scenarios/predict.h"
#include "sim/report/traffic.h"
#include "studies/strategy_choice.h"

namespace paceline {

struct ComparedStrategy {
  StrategyChoice choice;  // of several scenarios: the name of one
  Prediction prediction;
  SentBytes sent;
};

// Whether its GPUs have the memory.
bool fits(const Prediction&);

struct Comparison {
  std::vector<ComparedStrategy> strategies;  // as asked for
  std::string verdict;                       // who is fastest of those that fit, and where the others lose it
  std::vector<std::string> remarks;          // options of the file that some of them don't have
  bool of_scenarios = false;
};

// Told how many steps of a strategy or a scenario have ended, and how many there will be. May be empty.
using ComparisonProgress = std::function<void(const std::string& name, std::size_t done, std::size_t all)>;

// The scenario (as it is written; what it names is relative to the file) trained in each of these ways, on `jobs`
// threads; adjust: what else is to be changed; progress: told by one thread at a time. Throws InputError as the
// reader and `predict` do.
Comparison compare(const Json& scenario, const std::string& file, const std::vector<StrategyChoice>&,
                   int jobs, const std::function<Scenario(Scenario)>& adjust,
                   const ComparisonProgress& progress = {});

struct NamedScenario {
  std::string name, file;  // the file: of messages
  Scenario scenario;
};

// What files of these paths are called beside each other: "network_400g", or the path where others end alike.
std::vector<std::string> short_names(const std::vector<std::string>& paths);

// Scenarios as they are. They may differ in everything: who is fastest is told where a sample is the same work, by the
// step where GPUs and samples of a step are as many, else by samples a second. Throws InputError as `predict`
// does, and for one whose step is given, or a name that stands twice.
Comparison compare_scenarios(const std::vector<NamedScenario>&, int jobs,
                             const ComparisonProgress& progress = {});

std::string comparison_text(const Comparison&);
std::string comparison_json(const Comparison&);

}  // namespace paceline
