#include "scenarios/run_overrides.h"

#include <limits>

#include "core/names.h"
#include "core/option_text.h"

namespace paceline {

void apply(const RunOverrides& overrides, RunSpec& run) {
  constexpr std::uint64_t kMostIterations = 100'000;
  if (overrides.engine) {
    run.engine = value_named<EngineChoice>("engine", *overrides.engine, "--engine");
  }
  if (overrides.seed) {
    run.seed = whole_number(*overrides.seed, 0, std::numeric_limits<std::uint64_t>::max(), "--seed");
  }
  if (overrides.iterations) {
    run.iterations =
        static_cast<int>(whole_number(*overrides.iterations, 1, kMostIterations, "--iterations"));
  }
}

}  // namespace paceline
