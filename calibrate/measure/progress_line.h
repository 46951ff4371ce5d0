// How far the measurement is, on stderr: on a terminal one line, redrawn, with the time left; in a log one
// line per row.
#pragma once

#include <chrono>
#include <string>

namespace paceline::measure {

// "[ 3/42] all_reduce 1048576 B: 123.4 us"; with `eta_s` >= 0 also "  2 min left".
std::string progress_text(int done, int total, const std::string& title, double time_us, double eta_s);

class ProgressLine {
 public:
  // `shown`: false for --quiet and for ranks other than 0.
  ProgressLine(int total, bool shown);
  ~ProgressLine();  // leaves the terminal at the beginning of a line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void done(const std::string& title, double time_us);
  void skip();   // a row that is not measured
  void clear();  // before something else is printed

 private:
  int total_, done_ = 0, skipped_ = 0;
  bool shown_, terminal_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace paceline::measure
