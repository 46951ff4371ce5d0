// The CSV file: one line per measurement, flushed at once, so that whatever happens later is not lost.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace paceline::measure {

// The columns, in order.
struct ResultRow {
  std::string kind{}, name{}, precision{};
  int ranks = 1, nodes = 1, gpus_per_node = 1;
  std::int64_t size_bytes = 0;
  std::int64_t m = 0, n = 0, k = 0;
  double work_flop = 0;
  std::int64_t traffic_bytes = 0;
  double time_us = 0, min_us = 0, max_us = 0;
  int repeats = 0;
  std::string condition{}, backend{}, library{}, device{}, host{}, driver{};
  int clock_mhz = 0;
  std::string date{};  // ISO 8601, UTC
};

std::string csv_header();                // of a file, without the line's end
std::string csv_line(const ResultRow&);  // without the line's end; quoted as RFC 4180 says
// The fields of a line. Throws InputError for a quote that is not closed.
std::vector<std::string> csv_fields(const std::string& line);
// Equal for rows that measure the same thing on the same machine with the same library: all columns but the
// times, repeats, clock and date.
std::string row_key(const ResultRow&);
std::string utc_date();

// Open for appending. A file that exists must have the header; an unfinished last line (the writer was
// killed) counts for nothing and is closed off. Two runs can't write one file at the same time.
class ResultFile {
 public:
  explicit ResultFile(std::string path);  // throws InputError

  bool has(const ResultRow& row) const { return keys_.contains(row_key(row)); }
  void append(const ResultRow&);  // throws std::runtime_error when the disk is full
  // Rows that the file holds, those of earlier runs included.
  int rows() const { return rows_; }  // from any thread
  const std::string& path() const { return path_; }

 private:
  enum class State : std::uint8_t { empty, whole, unfinished };
  State read_existing();

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, std::fclose};
  std::set<std::string> keys_;
  std::atomic<int> rows_{0};
};

}  // namespace paceline::measure
