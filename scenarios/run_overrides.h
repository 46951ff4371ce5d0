// What a user asks of a run beside the scenario.
#pragma once

#include <optional>
#include <string>

#include "sim/training.h"

namespace paceline {

// Instead of the scenario's.
struct RunOverrides {
  std::optional<std::string> engine, seed, iterations;
};

// Throws InputError that names --engine, --seed or --iterations.
void apply(const RunOverrides&, RunSpec&);

}  // namespace paceline
