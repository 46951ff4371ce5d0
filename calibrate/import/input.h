// The bytes of a file that is imported, plain or gzip, without UTF-8's byte order mark, block by block and
// line by line: memory doesn't grow with the file.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

class InputFile {
 public:
  // Throws InputError for what can't be read, is a folder or is written in UTF-16; and `read` for a gzip file
  // that unpacks to more than 64 MiB and more than 64 times its size.
  explicit InputFile(std::string path);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  std::string name() const;  // without the folders
  std::string_view beginning() const { return {start_.data() + mark_, start_.size() - mark_}; }

  // The next bytes, at most `most`; 0: the end.
  std::size_t read(char* to, std::size_t most);
  // Of what was read until now.
  std::uint64_t hash() const;
  // Why it ended before its end: a gzip stream that is cut off or damaged; empty: it didn't.
  const std::string& trouble() const { return trouble_; }

 private:
  std::size_t read_file(char* to, std::size_t most);
  void add_to_hash(std::string_view);
  void close();

  std::string path_, trouble_;
  gzFile file_ = nullptr;
  std::vector<char> start_;
  std::size_t mark_ = 0, start_given_ = 0;
  std::uint64_t hash_ = 0, pending_ = 0;  // pending: bytes that make no word yet, the first one lowest
  unsigned pending_bytes_ = 0;
  std::uint64_t total_ = 0, most_ = UINT64_MAX;  // bytes unpacked
};

inline constexpr std::size_t kLongestLine = 64u << 10;

class LineReader {
 public:
  explicit LineReader(InputFile& file) : file_(file), buffer_(std::size_t{1} << 20) {}

  // The next line, without its end; valid until the next call.
  bool next(std::string_view& line);
  std::int64_t number() const { return number_; }  // of that line; 1 is the first
  bool too_long() const { return too_long_; }     // it is longer than kLongestLine: left out, `line` is empty
  std::uint64_t bytes() const { return bytes_; }  // up to the end of that line

 private:
  InputFile& file_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, size_ = 0;
  std::int64_t number_ = 0;
  std::uint64_t bytes_ = 0;
  bool too_long_ = false, ended_ = false;
};

}  // namespace paceline
