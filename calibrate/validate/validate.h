// `paceline validate`: predictions beside published measurements, and whether they keep their tolerances.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "calibrate/fit/collective_fit.h"

namespace paceline {

enum class ValidationForm : std::uint8_t {
  table,     // every row, then the figures of each case
  markdown,  // the figures of each case, for docs/accuracy.md
  json,
};

struct ValidationResult {
  bool holds = true;  // no tolerance is broken, and no known gap has grown or gone
  std::string text;
};

// `paths`: validation sets, or folders of them (scenarios/validation/README.md). Throws InputError with file,
// place and cure. `progress` is told of each set before it runs. Cost: that of the fits, 0.01 to 1 s for each.
ValidationResult run_validation(std::span<const std::string> paths, ValidationForm,
                                const FitProgress& progress = {});

}  // namespace paceline
