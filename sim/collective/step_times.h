// A plan on its graph as flat tables, for those who run it: the scripts' steps with all slices counted, how
// long each takes, and where a thread block is in them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/collective/plan.h"

namespace paceline {

// How long a slice occupies a hop, and a thread block that sends nothing; `hides`: where links hide what they
// can.
SimTime least_of(Bytes slice, const HopCost&);  // even where nobody else uses the hop's links
SimTime stay_of(Bytes slice, const HopCost&);
HopCost hop_in(const CollectivePlan&, std::size_t phase, std::size_t hop);  // phase: of its loops
SimTime copy_of(Bytes slice, const CollectivePlan&, bool hides);

struct FlatStep {
  std::uint32_t times = 1;  // chunks
  Ports receive, send;
  std::uint32_t width = 0;    // index of the step's width in StepTimes
  bool pauses = false;        // sends nothing, but other steps of its thread block do
  bool before_pause = false;  // sends what the receiver's loop ends with, in a pause
};

// Where a thread block is: the step's next move, of one slice. done() when there is none. A script of one
// step runs through many loops as if they were one.
struct Cursor {
  std::uint32_t phase = 0, step = 0, moves_left = 0;
  std::int64_t loops_left = 0;
};

class StepTimes {
 public:
  StepTimes(const CollectiveGraph&, const CollectivePlan&);

  Cursor begin(std::uint32_t script) const;
  bool done(const Cursor& at) const { return at.phase == phases_.size(); }
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
  // Moves from here on of slices of one size, within the step.
  std::uint32_t alike(const Cursor& at) const {
    const Phase& phase = phases_[at.phase];
    if (phase.equal) {
      return at.moves_left;
    }
    const std::uint32_t of_chunk = (at.moves_left - 1) % phase.slices;  // beyond this one
    return of_chunk == 0 ? 1 : of_chunk;
  }
  // How long the next move occupies a hop, and how long it takes where it sends nothing.
  SimTime stay(const Cursor& at, const FlatStep& step, std::uint32_t hop) const {
    return stay_[row(at, step) * hops_ + hop];
  }
  SimTime copy(const Cursor& at, const FlatStep& step) const {
    return (step.pauses && !in_last_loop(at) ? hidden_copy_ : copy_)[row(at, step)];
  }
  // From leaving the sender to being there; negative where the receiver begins before.
  SimTime latency(const Cursor& at, const FlatStep& step, std::uint32_t hop) const {
    return (step.before_pause && !in_last_loop(at) ? hidden_latency_ : latency_)[row(at, step) * hops_ + hop];
  }
  Bytes bytes(const Cursor& at, const FlatStep& step) const { return bytes_[row(at, step)]; }
  // How often the moves between two cursors of a script can be made again from `to` on, each taking as long as it took:
  // where all are of one step, or of whole loops before the last one.
  std::int64_t times_again(const Cursor& from, const Cursor& to) const {
    if (done(to) || to.phase != from.phase || to.step != from.step) {
      return 0;
    }
    const std::int64_t loops = from.loops_left - to.loops_left;
    const std::int64_t moves = std::int64_t{from.moves_left} - to.moves_left;
    if (loops == 0 && moves > 0 && (phases_[to.phase].equal || moves % phases_[to.phase].slices == 0)) {
      return (to.moves_left - 1) / moves;
    }
    return loops > 0 && moves == 0 ? std::max<std::int64_t>(to.loops_left - 2, 0) / loops : 0;
  }
  // Where the thread block is then.
  static Cursor after_again(const Cursor& from, Cursor to, std::int64_t times) {
    to.moves_left -= static_cast<std::uint32_t>(times * (std::int64_t{from.moves_left} - to.moves_left));
    to.loops_left -= times * (from.loops_left - to.loops_left);
    return to;
  }
  SimTime shortest_stay(std::uint32_t hop) const;
  // Slices that a FIFO may hold: the plan's slots; where it has any number, twice what a thread block sends before it
  // must receive, at least 64.
  std::uint32_t window() const { return window_; }
  // How long a thread block of the graph is occupied by all its moves. Its cost doesn't grow with the number
  // of loops.
  SimTime occupancy(const CollectiveGraph&, const ThreadBlock&) const;

 private:
  struct Phase {  // of plan.loops
    std::int64_t loops = 0;
    std::uint32_t slices = 1;  // of a chunk
    bool equal = true;         // the last of them as long as the others
  };

  // Of a phase, a width, and the slices of a chunk or its last one.
  std::size_t row(const Cursor& at, const FlatStep& step) const {
    const Phase& phase = phases_[at.phase];
    const bool last = !phase.equal && at.moves_left % phase.slices == 1;
    return (at.phase * widths_ + step.width) * 2 + (last ? 1 : 0);
  }
  bool in_last_loop(const Cursor& at) const { return at.loops_left == 1 && at.phase == last_phase_; }
  void next_step(std::uint32_t script, Cursor&) const;
  void enter(std::uint32_t script, Cursor&) const;
  void begin_loop(std::uint32_t script, Cursor&) const;

  std::vector<Phase> phases_;
  std::vector<std::uint32_t> first_step_;  // by script, and the end
  std::vector<FlatStep> steps_;
  std::size_t widths_ = 0, hops_ = 0;
  std::uint32_t last_phase_ = 0, window_ = 0;
  std::vector<SimTime> stay_, copy_, hidden_copy_;  // hidden_: where the links' sharing hides some
  std::vector<SimTime> latency_, hidden_latency_;
  std::vector<Bytes> bytes_;
};

}  // namespace paceline
