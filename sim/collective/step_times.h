// A plan on its graph as flat tables, for those who run it: the scripts' steps with all slices counted, how
// long each takes, and where a worker is in them.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collective/plan.h"

namespace paceline {

// How long a slice occupies a hop.
SimTime stay_of(Bytes slice, const HopCost&);

struct FlatStep {
  std::uint32_t moves = 1;  // times * slices
  Ports receive, send;
  std::uint32_t width = 0;  // index of the step's width in StepTimes
};

// Where a worker is: the step's next move. done() when there is none. A script of one step runs through many
// loops as if they were one.
struct Cursor {
  std::uint32_t phase = 0, step = 0, moves_left = 0;
  std::int64_t loops_left = 0;
};

class StepTimes {
 public:
  StepTimes(const CollectiveGraph&, const CollectivePlan&);

  Cursor begin(std::uint32_t script) const;
  bool done(const Cursor& at) const { return at.phase == loops_.size(); }
  const FlatStep& step(std::uint32_t script, const Cursor& at) const {
    return steps_[first_step_[script] + at.step];
  }
  // Requires: moves <= at.moves_left.
  void advance(std::uint32_t script, Cursor& at, std::uint32_t moves = 1) const {
    at.moves_left -= moves;
    if (at.moves_left == 0) {
      next_step(script, at);
    }
  }
  // How long one move of a step occupies a hop, and how long one that sends nothing takes.
  SimTime stay(const Cursor& at, const FlatStep& step, std::uint32_t hop) const {
    return stay_[(at.phase * widths_ + step.width) * hops_ + hop];
  }
  SimTime copy(const Cursor& at, const FlatStep& step) const {
    return copy_[at.phase * widths_ + step.width];
  }
  Bytes bytes(const Cursor& at, const FlatStep& step) const {
    return bytes_[at.phase * widths_ + step.width];
  }
  SimTime shortest_stay(std::uint32_t hop) const;

 private:
  void next_step(std::uint32_t script, Cursor&) const;
  void enter(std::uint32_t script, Cursor&) const;
  void begin_loop(std::uint32_t script, Cursor&) const;

  std::vector<Loops> loops_;
  std::vector<std::uint32_t> first_step_;  // by script, and the end
  std::vector<FlatStep> steps_;
  std::size_t widths_ = 0, hops_ = 0;
  std::vector<SimTime> stay_, copy_;
  std::vector<Bytes> bytes_;
};

}  // namespace paceline
