// A trace of failures: CSV with the columns time, what and which, named in its first line, in any order.
#pragma once

#include <string>
#include <vector>

#include "scenarios/faults.h"

namespace paceline {

// Throws InputError with the line.
std::vector<FailureEvent> read_failure_trace(const std::string& text);

}  // namespace paceline
