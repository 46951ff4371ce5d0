// Scenarios made at random from the schema that users have: a number gives the same one wherever it is made.
#pragma once

#include <cstdint>
#include <string>

namespace paceline {

// A scenario that is_small and that the reader takes. Most keys are there in some; sizes are those of a few
// nodes.
std::string made_scenario(std::uint64_t number);

}  // namespace paceline
