#pragma once

#include <string>

#include "scenarios/scenario.h"
#include "tests/error_of.h"

namespace paceline {

// What a scenario's text is refused with; "" where it is taken.
inline std::string scenario_error(const std::string& text) {
  return error_of([&] { parse_scenario(text, "x.json"); });
}

}  // namespace paceline
