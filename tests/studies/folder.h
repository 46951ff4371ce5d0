// A folder of its own, and what stands in its files.
#pragma once

#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace paceline {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "paceline-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

inline std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::vector<std::string> sorted_lines(const std::string& path) {
  std::istringstream text(text_of(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    lines.push_back(line);
  }
  std::ranges::sort(lines);
  return lines;
}

// What a command of the shell, run in the folder, answered.
struct ShellOutcome {
  int status = -1;  // 128 and the signal where one ended it
  std::string out, error;
};
inline ShellOutcome shell(const TemporaryFolder& folder, const std::string& command) {
  const std::string line = "cd '" + folder.file("") + "' && { " + command + "; } >.out 2>.error </dev/null";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(folder.file(".out")),
          text_of(folder.file(".error"))};
}

// A scenario of milliseconds.
inline const std::string kSmall =
    R"({"cluster": {"node": "dgx-a100"}, "model": "resnet18", "training": {"batch_per_gpu": 8},
        "variability": {"per_operation": {"distribution": "lognormal", "cv": 0.05}}, "run": {"iterations": 2}})";

}  // namespace paceline
