// Reading and writing whole files, with errors that name the file.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "core/error.h"

namespace paceline {

inline constexpr std::size_t kLargestFile = 64u << 20;

// Throws InputError when the file can't be read or is larger than kLargestFile (it is then not read to its
// end: a device or a pipe may have none).
std::string read_file(const std::string& path);

// Files that are read once, however often their text is asked for, and by whatever thread: what is made of
// them fits together even if they change meanwhile.
class FileTexts {
 public:
  struct Entry {
    std::string text;
    std::optional<InputError> failure;
  };
  struct Known {
    std::string folder;                    // that relative paths start from
    std::map<std::string, Entry> entries;  // by path, without "." and ".."
  };

  FileTexts();  // paths start from the current folder
  // What another process read; no other files are there.
  explicit FileTexts(Known);

  // As read_file, of the first time.
  const std::string& text(const std::string& path);
  Known known() const;  // so far
  const std::string& folder() const { return known_.folder; }

 private:
  mutable std::mutex mutex_;
  bool closed_ = false;
  Known known_;
};

struct OutputFile {
  std::string path, content;
};

// Writes each to a temporary file beside its place and, once all are on the disk, renames them: all or none
// appears. A file that is replaced leaves its permissions. What is no regular file (/dev/stdout) is written
// directly. Throws InputError when a place can't be written.
void write_files(std::span<const OutputFile>);
void write_file(const std::string& path, const std::string& content);

// Throws InputError when write_files would, as far as one can tell before writing.
void require_writable(const std::string& path);

// Returns when the name of this file is on the disk, as fsync does for its content.
void sync_folder(const std::string& path);

// A file of a command, and what it is to it: "--out", "the scenario".
struct NamedFile {
  std::string name, path;
};
// Throws InputError where an output would replace an input or another output: compared as files, whatever
// their names are; an input that is a folder stands for the files in it. Before anything is done.
void require_apart(std::span<const NamedFile> inputs, std::span<const NamedFile> outputs);

}  // namespace paceline
