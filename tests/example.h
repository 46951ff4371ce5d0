#pragma once

#include <string>

#include "scenarios/scenario.h"
#include "tests/files.h"

namespace paceline {

inline std::string example_path(const std::string& name) {
  return (kSource / "scenarios" / (name + ".json")).string();
}

inline Scenario example(const std::string& name) { return load_scenario(example_path(name)); }

inline Scenario example(const std::string& name, int iterations) {
  Scenario scenario = example(name);
  scenario.run.iterations = iterations;
  return scenario;
}

}  // namespace paceline
