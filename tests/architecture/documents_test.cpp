// Do documents read well where they are read: in an editor, in a terminal, in a diff?
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;

TEST_CASE("lines of documents have at most 120 characters, but for rows of tables and code") {
  constexpr std::size_t kLongest = 120;
  int documents = 0;
  for (const char* folder : {"", "docs", "scenarios/validation"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(PACELINE_SOURCE_DIR) / folder)) {
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

}  // namespace
