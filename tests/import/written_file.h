// Files that a test writes and imports.
#pragma once

#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "calibrate/import/import.h"
#include "core/error.h"

namespace paceline {

// A folder of its own, gone at the end of the scope.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() / ("paceline_import_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }
  std::string write(const std::string& name, const std::string& content) const {
    const std::string path = (path_ / name).string();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  std::string write_gz(const std::string& name, const std::string& content) const {
    const std::string path = (path_ / name).string();
    const gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
    return path;
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

inline MeasuredData import_text(const std::string& content, const std::string& name = "run.txt") {
  const Folder folder;
  return import_file(folder.write(name, content));
}

inline std::string import_error(const std::string& content, const std::string& name = "run.txt") {
  try {
    import_text(content, name);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

inline std::string remarks_of(const MeasuredData& data) {
  std::string all;
  for (const Remark& each : data.remarks) {
    all += std::to_string(each.origin.line) + ": " + each.text + '\n';
  }
  return all;
}

}  // namespace paceline
