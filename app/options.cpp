#include "app/options.h"

#include <algorithm>
#include <iostream>
#include <thread>

#include "core/error.h"
#include "core/text.h"
#include "scenarios/run_overrides.h"

namespace paceline {

int thread_count(const std::string& text, const char* option) {
  constexpr std::uint64_t kMostThreads = 1024;
  return text.empty() ? static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))
                      : static_cast<int>(whole_number(text, 1, kMostThreads, option));
}

void remark(const std::string& text) { std::cerr << "paceline: " << printable(text) << '\n'; }

Profile profile_in(const std::string& path) {
  Profile profile = load_profile(path);
  if (const std::string text = remark_on(profile); !text.empty()) {
    remark(path + ": " + text);
  }
  return profile;
}

void print(const std::string& text) {
  if (!(std::cout << printable(text) << std::flush)) {
    throw InputError("can't be written", {}, "the standard output");
  }
}

}  // namespace paceline
