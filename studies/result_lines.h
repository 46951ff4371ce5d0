// results.jsonl of a folder: lines that are never lost. It is locked against a second sweep as long as it is
// open.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace paceline {

class ResultLines {
 public:
  // Makes folder and file where they are not, and cuts off a last line without an end. Throws InputError
  // where the folder can't be used, or another sweep holds it.
  explicit ResultLines(const std::string& folder);
  ResultLines(const ResultLines&) = delete;
  ResultLines& operator=(const ResultLines&) = delete;
  ~ResultLines();

  const std::string& path() const { return path_; }
  // Appends the line and its end with one write; a part of it that didn't fit on the disk is taken back.
  void append(std::string line);

 private:
  std::string path_;
  int fd_ = -1;
};

// Every line with an end, its number from 1; one without is left out. Any size.
void for_each_line(const std::string& path, const std::function<void(std::size_t, const std::string&)>&);

}  // namespace paceline
