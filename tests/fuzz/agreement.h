// What must not change a prediction: the engine, the order of keys, other threads, and being run again from
// its own result.
#pragma once

#include <cstdint>
#include <string>

#include "scenarios/json.h"
#include "scenarios/scenario.h"

namespace paceline {

// Simulated in milliseconds, by both engines.
bool is_small(const Scenario&);

// Runs a scenario in all these ways. Empty: the results are equal; else what differs. Throws InputError for a
// scenario that can't be run. `fingerprint`: the run's.
std::string disagreement(const std::string& scenario, const std::string& file,
                         std::uint64_t* fingerprint = nullptr);

}  // namespace paceline
