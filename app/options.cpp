#include "app/options.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <thread>

#include "core/error.h"

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

int thread_count(const std::string& text, const char* option) {
  constexpr std::uint64_t kMostThreads = 1024;
  return text.empty() ? static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))
                      : static_cast<int>(whole_number(text, 1, kMostThreads, option));
}

void print(const std::string& text) {
  if (!(std::cout << text << std::flush)) {
    throw InputError("can't write to the standard output");
  }
}

}  // namespace paceline
