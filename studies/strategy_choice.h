// Ways to train, as they are typed, and what they make of a scenario.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "studies/edit.h"

namespace paceline {

// One way to train: "ddp", "fsdp", "zero1" to "zero3", each with options changed: "fsdp:shard_group=node".
struct StrategyChoice {
  std::string name;                          // as it was asked for
  std::vector<Edit> edits;                   // of the scenario
  StrategyKind options = StrategyKind::ddp;  // whose keys it takes
  int stage = 0;                             // of ZeRO, where the name says it; else 0
};

// Of a list with commas. Throws InputError for an unknown strategy or key, with the nearest one.
std::vector<StrategyChoice> strategy_choices(const std::string& list);

// The file's compression is for those that have hooks; where none has, it stays for the reader to refuse.
std::vector<StrategyChoice> with_hooks_where_they_are(std::vector<StrategyChoice>, const Json& scenario);

// The scenario, as it is written in a file, with what each choice changes, adjusted; measured rates hold for
// what the file has. What `adjust` throws of a scenario begins with the choice.
std::vector<Scenario> scenarios_of(const std::vector<StrategyChoice>&, const Json& scenario,
                                   const std::string& file, const std::function<Scenario(Scenario)>& adjust);

// Options of the file that don't count for some of the choices.
std::vector<std::string> remarks_on(const Json& scenario, const std::vector<StrategyChoice>&);

}  // namespace paceline
