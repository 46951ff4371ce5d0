// What one file gives, while it is read: the measurements, and remarks that stay few however many rows are
// wrong.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "calibrate/measurement.h"

namespace paceline {

struct Json;

class Findings {
 public:
  Findings(std::string path, MeasuredData& data) : path_(std::move(path)), data_(data) {}

  MeasuredData& data() { return data_; }
  Origin at(std::int64_t line) const { return {path_, line}; }

  // The first kMostAlike of a kind stand on their own, the others are counted. `kind` says what they are in
  // the plural: "garbled rows".
  void remark(std::string kind, std::int64_t line, std::string text);
  // Counts a row that was read; false: it is one too many, and reading has to end.
  bool row();
  std::int64_t rows() const { return rows_; }
  // Adds the counts of the remarks.
  void end();

 private:
  struct Alike {
    std::int64_t count = 0, last_line = 0;
  };
  std::string path_;
  MeasuredData& data_;
  std::map<std::string, Alike> alike_;
  std::int64_t rows_ = 0;
};

inline constexpr std::int64_t kMostAlike = 8, kMostRows = 400'000;

// The number that a cell or token holds from its first to its last character; false where it is something
// else, infinite or no number.
bool read_number(std::string_view text, double& value);
bool read_number(const Json*, double& value);  // a number, or a text that is one
bool read_whole(std::string_view text, std::int64_t& value);
// A decimal number of 10^-6 s, without the rounding of a multiplication: "178.0" is 178e-6.
bool read_microseconds(std::string_view text, Seconds& value);
// Its inverse: the shortest text that reads back as the same.
std::string microseconds_text(Seconds);

std::string_view trimmed(std::string_view);
// "2.18.5+cuda12.2" and "v2.18" are 2.18; empty where there is no version, or more than one.
std::string nccl_version_in(std::string_view text);
// 22707 is 2.27, 2804 is 2.8.
std::string nccl_version_of_code(std::int64_t code);

}  // namespace paceline
