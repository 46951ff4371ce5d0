// A file of results in a folder: lines that are never lost. It is locked against a second sweep as long as it is
// open.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace paceline {

inline constexpr const char* kResults = "results.jsonl";

class ResultLines {
 public:
  // Makes folder and file where they are not; what is there stays as it is. Throws InputError where the folder
  // can't be used, or another sweep holds it.
  explicit ResultLines(const std::string& folder, const std::string& name = kResults);
  ResultLines(const ResultLines&) = delete;
  ResultLines& operator=(const ResultLines&) = delete;
  ~ResultLines();

  const std::string& path() const { return path_; }
  // Cuts off a last line without an end. Before the first line that is appended, and after what is there was
  // found to be ours: throws InputError where the file holds nothing but the beginning of something else.
  void cut_unfinished();
  // Begins an empty file; what was written stays beside it under a name of its own, which is returned.
  std::string set_aside(const std::string& why);
  // Whether the lock keeps other processes out; on some network file systems none does.
  bool keeps_others_out() const;
  // Appends the line and its end with one write; a part of it that didn't fit on the disk is taken back.
  void append(std::string line);
  // Returns when all lines are on the disk.
  void sync();
  // The file is gone.
  void remove();

 private:
  void open();
  std::string path_;
  int fd_ = -1;
};

// A line's last member, "check": 16 hexadecimal digits of all before it (FNV-1a), so that no changed digit is
// believed. `line`: a JSON object.
std::string with_check(const std::string& line);
enum class LineCheck { none, wrong, right };
LineCheck check_of(const std::string& line);

// Every line with an end, its number from 1; one without is left out. Any size.
void for_each_line(const std::string& path, const std::function<void(std::size_t, const std::string&)>&);

}  // namespace paceline
