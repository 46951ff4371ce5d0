// Does CTest run every test? It takes "a; b" for two names and "-a" for an option: Catch then finds no such
// test, which passes.
#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <string>

#include "tests/files.h"

namespace paceline {
namespace {

TEST_CASE("every test has a name that CTest can ask for") {
  const std::regex named(R"re(TEST_CASE\("((?:[^"\\]|\\.)*)")re");
  int names = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource / "tests")) {
    if (entry.path().extension() != ".cpp") {
      continue;
    }
    const std::string text = text_of(entry.path().string());
    for (std::sregex_iterator at(text.begin(), text.end(), named), end; at != end; ++at) {
      const std::string name = (*at)[1];
      CAPTURE(name);
      CHECK(name.find(';') == std::string::npos);
      CHECK_FALSE(name.starts_with('-'));
      ++names;
    }
  }
  CHECK(names > 500);
}

}  // namespace
}  // namespace paceline
