// A folder of its own for the files of a test.
#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.h"

namespace paceline {

class SetFolder {
 public:
  SetFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "paceline-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("no temporary folder");
    }
    path_ = name;
  }
  SetFolder(const SetFolder&) = delete;
  SetFolder& operator=(const SetFolder&) = delete;
  ~SetFolder() { std::filesystem::remove_all(path_); }

  // Its path.
  std::string add(const std::string& name, const std::string& content) const {
    const std::string path = (path_ / name).string();
    std::ofstream(path) << content;
    return path;
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// What f() has to say against the input; "" where it takes it.
std::string error_of(const auto& f) {
  try {
    f();
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

}  // namespace paceline
