// The folder of a sweep that runs: what it holds already, what is left, and the one place where lines are written,
// wherever they are computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/json.h"
#include "studies/result_lines.h"
#include "studies/study.h"
#include "studies/sweep.h"

namespace paceline {

// Points of equal scenarios: computed once.
struct EqualPoints {
  std::vector<std::size_t> points;  // of the study
  std::string key;                  // content_key; empty where the scenario can't be read
  std::int64_t gpus = 0;            // of the job; 0 without a key
};

class OpenSweep {
 public:
  // Reads all points, takes what the folder holds, joins its shards. Throws InputError as sweep says. The study
  // outlives this.
  OpenSweep(const Study&, const SweepOptions&);

  const std::vector<EqualPoints>& left() const { return left_; }

  // Writes the lines of left()[left], whose members after "point" these are (point_members). Throws InputError where
  // they can't be written, std::logic_error where they are another scenario's. May be called by several threads.
  void write(std::size_t left, const Json::Object& members);
  // The same from another process: the line of the first of these points. Throws std::logic_error where this process
  // would write another one, InputError where it is no JSON.
  void write_line(std::size_t left, const std::string& line);
  // Those points have no line: what went wrong is not the input's fault.
  void fail(std::size_t left, const std::string& what);

  SweepProgress progress() const;
  // When all lines are on the disk. No calls may follow.
  SweepOutcome end();

 private:
  void fault(std::size_t point, const std::string& what);
  SweepProgress seen() const;

  const Study& study_;
  std::function<void(const SweepProgress&)> progress_;
  std::optional<ResultLines> lines_;
  std::vector<EqualPoints> left_;
  mutable std::mutex mutex_;
  std::size_t written_ = 0;
  SweepOutcome outcome_;
};

}  // namespace paceline
