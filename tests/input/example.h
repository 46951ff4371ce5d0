#pragma once

#include <string>

#include "scenarios/scenario.h"
#include "tests/files.h"

namespace paceline {

inline Scenario example(const std::string& name) {
  return load_scenario((kSource / "scenarios" / (name + ".json")).string());
}

}  // namespace paceline
