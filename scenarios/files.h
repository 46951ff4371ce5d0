// Reading and writing whole files, with errors that name the file.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace paceline {

inline constexpr std::size_t kLargestFile = 64u << 20;

// Throws InputError when the file can't be read or is larger than kLargestFile (it is then not read to its
// end: a device or a pipe may have none).
std::string read_file(const std::string& path);

struct OutputFile {
  std::string path, content;
};

// Writes each to a temporary file beside its place and, once all are written, renames them: all or none
// appears. What is no regular file (/dev/stdout) is written directly. Throws InputError when a place can't be
// written.
void write_files(std::span<const OutputFile>);
void write_file(const std::string& path, const std::string& content);

// Throws InputError when write_files would, as far as one can tell before writing.
void require_writable(const std::string& path);

}  // namespace paceline
