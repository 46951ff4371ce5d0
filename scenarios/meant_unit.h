// What a unit that isn't one of ours was meant to be: never another quantity.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/quantities.h"

namespace paceline {

// A quantity as it should be written, and what that says.
struct Proposal {
  std::string text, meaning;
};

// Of `number` with `unit`, where the wanted dimension is expected; none: nobody can tell.
std::vector<Proposal> meant_quantities(const Dimension& wanted, std::string_view number,
                                       std::string_view unit);

}  // namespace paceline
