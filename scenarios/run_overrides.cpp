#include "scenarios/run_overrides.h"

#include <charconv>
#include <limits>

#include "core/error.h"
#include "core/names.h"

namespace paceline {
std::uint64_t whole_number(const std::string& text, std::uint64_t least, std::uint64_t most,
                           const char* option) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw InputError("expected a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
                         ", found \"" + text + '"',
                     option);
  }
  return value;
}

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
