// Who includes whom: only along the arrows of docs/architecture.md; and no state that outlives a call.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::set<std::string>> kMayInclude{
    {"core", {"core"}},
    {"topology", {"core", "topology"}},
    {"kernels", {"core", "kernels"}},
    {"sim", {"core", "topology", "kernels", "sim"}},
    {"scenarios", {"core", "topology", "kernels", "sim", "scenarios"}},
    {"app", {"core", "topology", "kernels", "sim", "scenarios", "app"}},
};

// Inside sim the arrows run: collective, network <- strategy, engine <- report; engine and report share their
// records.
std::vector<fs::path> sources(const std::string& room) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(PACELINE_SOURCE_DIR) / room)) {
    if (entry.path().extension() == ".h" || entry.path().extension() == ".cpp") {
      files.push_back(entry.path());
    }
  }
  return files;
}

std::vector<std::string> lines(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> all;
  for (std::string line; std::getline(in, line);) {
    all.push_back(line);
  }
  return all;
}

TEST_CASE("every room includes only what its arrows allow") {
  const std::regex own(R"(^\s*#include\s+"([a-z_]+)/.*)");
  for (const auto& [room, allowed] : kMayInclude) {
    const std::vector<fs::path> files = sources(room);
    REQUIRE_FALSE(files.empty());
    for (const fs::path& file : files) {
      for (const std::string& line : lines(file)) {
        std::smatch match;
        if (std::regex_match(line, match, own)) {
          INFO(file << ": " << line);
          CHECK(allowed.count(match[1]) == 1);
        }
      }
    }
  }
}

TEST_CASE("JSON is known in scenarios only, the command line in app only, Boost in topology only") {
  const std::vector<std::pair<std::regex, std::string>> library_of{
      {std::regex(R"(^\s*#include\s+<nlohmann/.*)"), "scenarios"},
      {std::regex(R"(^\s*#include\s+<CLI/.*)"), "app"},
      {std::regex(R"(^\s*#include\s+<boost/.*)"), "topology"},
      {std::regex(R"(^\s*#include\s+<fstream>.*)"), "scenarios"},
  };
  for (const auto& [room, allowed] : kMayInclude) {
    for (const fs::path& file : sources(room)) {
      for (const std::string& line : lines(file)) {
        for (const auto& [include, owner] : library_of) {
          INFO(file << ": " << line);
          CHECK((!std::regex_match(line, include) || room == owner));
        }
      }
    }
  }
}

TEST_CASE("no mutable static, no environment, no exit in a library") {
  const std::regex mutable_static(
      R"(^\s*(static|thread_local)\s+(?!const|constexpr|inline|auto\s|void|bool\s+\w+\(|[\w:<>*& ]+\().*;.*)");
  const std::regex forbidden(R"(.*\b(getenv|setenv|exit|abort|std::rand|srand)\s*\(.*)");
  for (const auto& [room, allowed] : kMayInclude) {
    for (const fs::path& file : sources(room)) {
      for (const std::string& line : lines(file)) {
        INFO(file << ": " << line);
        CHECK_FALSE(std::regex_match(line, mutable_static));
        CHECK_FALSE((room != "app" && std::regex_match(line, forbidden)));
      }
    }
  }
}

}  // namespace
