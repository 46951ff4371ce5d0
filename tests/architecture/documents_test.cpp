// Do documents read well where they are read: in an editor, in a terminal, in a diff? And are the files there that
// newcomers are sent to?
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "tests/files.h"

namespace {

namespace fs = std::filesystem;
using paceline::kSource;

TEST_CASE("lines of documents have at most 120 characters, but for rows of tables and code") {
  constexpr std::size_t kLongest = 120;
  int documents = 0;
  for (const char* folder : {"", "docs", "scenarios/validation"}) {
    for (const auto& entry : fs::directory_iterator(kSource / folder)) {
      if (entry.path().extension() != ".md") {
        continue;
      }
      ++documents;
      std::ifstream in(entry.path());
      bool code = false;
      int number = 0;
      for (std::string line; std::getline(in, line);) {
        ++number;
        code = code != line.starts_with("```");
        INFO(entry.path() << ":" << number << ": " << line);
        CHECK((code || line.size() <= kLongest || line.starts_with("|")));
      }
    }
  }
  CHECK(documents > 10);
}

TEST_CASE("CONTRIBUTING names files that there are, and calls new those that there are not") {
  const std::regex named(R"re((new )?`([a-z]+/[\w./-]+\.\w+)`)re");
  int files = 0, new_files = 0;
  std::ifstream in(kSource / "CONTRIBUTING.md");
  for (std::string line; std::getline(in, line);) {
    for (std::sregex_iterator at(line.begin(), line.end(), named), end; at != end; ++at) {
      const std::string path = (*at)[2];
      const bool is_new = (*at)[1].matched;
      INFO(path);
      CHECK(fs::exists(kSource / path) != is_new);
      ++(is_new ? new_files : files);
    }
  }
  CHECK(files > 50);
  CHECK(new_files > 2);
}

}  // namespace
