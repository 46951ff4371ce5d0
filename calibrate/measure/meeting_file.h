// Where rank 0 listens, in a file that only this user can read: how the ranks of one machine find each other
// when the library that is measured can't tell them.
#pragma once

#include <optional>
#include <string>

namespace paceline::measure {

class MeetingFile {
 public:
  // The file of a job by its name, in a folder of this user alone below the system's one for temporary files.
  // Throws std::runtime_error where that folder is somebody else's or open to others.
  explicit MeetingFile(const std::string& job);
  ~MeetingFile();  // removes what this process has written
  MeetingFile(const MeetingFile&) = delete;
  MeetingFile& operator=(const MeetingFile&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& text);      // replaces what an earlier job has left
  std::optional<std::string> read() const;  // nullopt: not there yet

 private:
  std::string path_;
  bool written_ = false;
};

}  // namespace paceline::measure
