// Every way into Paceline as a function of some bytes.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace paceline {

struct FuzzTarget {
  std::string_view name;
  void (*run)(const std::string& input);
};

std::span<const FuzzTarget> fuzz_targets();
const FuzzTarget* fuzz_target(std::string_view name);  // nullptr: none of that name

// An InputError is the answer to a wrong input; anything else that is thrown, or a property that doesn't hold,
// ends the process.
void run_target(const FuzzTarget&, const std::string& input);

}  // namespace paceline
