// paceline calibrate replay: a scenario's step for real, beside its prediction.
#pragma once

#include <optional>
#include <string>

namespace paceline {

struct ReplayOptions {
  std::string scenario, launcher;
  std::optional<std::string> steps, measured, profile;
  std::string with;  // who runs it: "", or "torch"
};

// Writes what ranks do, has the launcher run it, and prints the comparison; of several ranks without a
// launcher, how to run them. Where the measured file exists, the comparison alone.
void replay(const ReplayOptions&);

}  // namespace paceline
