// How far a sweep or an explanation has come, on the standard error output.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include "calibrate/fit/collective_fit.h"
#include "studies/explain.h"
#include "studies/sweep.h"

namespace paceline {

// "120 of 1000 points, 2 failed, about 40 s left". `seconds`: since `found` points were there; before 2 s
// there is no time left.
std::string progress_text(const SweepProgress&, std::size_t found, double seconds);

// Lines for what may take long, at most one in five seconds; nothing for what is quick.
class ProgressLines {
 public:
  ProgressLines();
  void show(const std::string& part, std::size_t done, std::size_t all);

 private:
  std::chrono::steady_clock::time_point last_;
};
// What is told of progress, on these lines, which must outlive it.
FitProgress shown_on(ProgressLines&);

// A bar by pv on a terminal where pv is installed; else lines, at most one in five seconds and a last one.
// Its clock starts when the first point is shown: reading a study is not what the others will take.
class ProgressDisplay {
 public:
  explicit ProgressDisplay(std::size_t points);
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;
  ~ProgressDisplay();
  void show(const SweepProgress&);

 private:
  void start(const SweepProgress&);
  bool feed(const SweepProgress&);

  std::FILE* pv_ = nullptr;
  struct sigaction before_{};  // of SIGPIPE: pv may end first
  std::size_t points_ = 0, fed_ = 0, found_ = 0;
  std::chrono::steady_clock::time_point begin_, last_;
  bool started_ = false;
};

// One line on a terminal that says which change is the best so far; elsewhere nothing.
class ExplanationProgress {
 public:
  ExplanationProgress();
  ExplanationProgress(const ExplanationProgress&) = delete;
  ExplanationProgress& operator=(const ExplanationProgress&) = delete;
  ~ExplanationProgress() { clear(); }
  void show(std::size_t tried, std::size_t levers, const Sensitivity* best);
  void clear();  // before anything else is printed

 private:
  bool terminal_, shown_ = false;
};
// "7 of 23 changes tried, best so far: bucket cap x4 (100.0 MiB), -8.3 %"
std::string progress_text(std::size_t tried, std::size_t levers, const Sensitivity* best);

}  // namespace paceline
