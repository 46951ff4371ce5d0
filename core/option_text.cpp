#include "core/option_text.h"

#include <charconv>

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

}  // namespace paceline
