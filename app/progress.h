// How far a sweep has come, on the standard error output.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include "studies/sweep.h"

namespace paceline {

// "120 of 1000 points, 2 failed, about 40 s left". `seconds`: since the first `found` were there.
std::string progress_text(const SweepProgress&, std::size_t found, double seconds);

// A bar by pv on a terminal where pv is installed; else lines, at most one in five seconds and a last one.
class ProgressDisplay {
 public:
  explicit ProgressDisplay(std::size_t points);
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;
  ~ProgressDisplay();
  void show(const SweepProgress&);

 private:
  bool feed(const SweepProgress&);

  std::FILE* pv_ = nullptr;
  struct sigaction before_ {};  // of SIGPIPE: pv may end first
  std::size_t fed_ = 0, found_ = 0;
  std::chrono::steady_clock::time_point begin_, last_;
  bool shown_ = false;
};

}  // namespace paceline
