// Files that a test writes and imports.
#pragma once

#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "calibrate/import/import.h"
#include "tests/error_of.h"
#include "tests/files.h"

namespace paceline {

inline std::string write_gz(const TemporaryFolder& folder, const std::string& name,
                            const std::string& content) {
  const gzFile file = gzopen(folder.file(name).c_str(), "wb");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
  return folder.file(name);
}

inline MeasuredData import_text(const std::string& content, const std::string& name = "run.txt") {
  const TemporaryFolder folder;
  return import_file(folder.write(name, content));
}

inline std::string import_error(const std::string& content, const std::string& name = "run.txt") {
  return error_of([&] { import_text(content, name); });
}

inline std::string remarks_of(const MeasuredData& data) {
  std::string all;
  for (const Remark& each : data.remarks) {
    all += std::to_string(each.origin.line) + ": " + each.text + '\n';
  }
  return all;
}

}  // namespace paceline
