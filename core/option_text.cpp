#include "core/option_text.h"

#include <optional>

#include "core/text.h"

namespace paceline {

std::uint64_t whole_number(const std::string& text, std::uint64_t least, std::uint64_t most,
                           const char* option) {
  const std::optional<std::uint64_t> value = number_in<std::uint64_t>(text);
  if (!value || *value < least || *value > most) {
    throw InputError("expected a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
                         ", found \"" + text + '"',
                     option);
  }
  return *value;
}

}  // namespace paceline
