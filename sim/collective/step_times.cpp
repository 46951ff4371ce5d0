#include "sim/collective/step_times.h"

#include <algorithm>

namespace paceline {
SimTime stay_of(Bytes slice, const HopCost& hop) {
  return std::max(to_sim_time(slice / hop.rate), hop.least);
}

StepTimes::StepTimes(const CollectiveGraph& graph, const CollectivePlan& plan)
    : loops_(plan.loops), hops_(plan.hops.size()) {
  std::vector<std::uint32_t> widths;
  for (const Script& script : graph.scripts) {
    first_step_.push_back(static_cast<std::uint32_t>(steps_.size()));
    for (const Step& step : script.steps) {
      const auto known = std::find(widths.begin(), widths.end(), step.width);
      const auto width = static_cast<std::uint32_t>(known - widths.begin());
      if (known == widths.end()) {
        widths.push_back(step.width);
      }
      steps_.push_back({step.times * plan.slices, step.receive, step.send, width});
    }
  }
  first_step_.push_back(static_cast<std::uint32_t>(steps_.size()));
  widths_ = widths.size();
  for (const Loops& phase : loops_) {
    for (const std::uint32_t width : widths) {
      const Bytes bytes((phase.chunk.value * width + plan.slices - 1) / plan.slices);
      for (const HopCost& hop : plan.hops) {
        stay_.push_back(stay_of(bytes, hop));
      }
      copy_.push_back(to_sim_time(bytes / plan.copy_rate));
      bytes_.push_back(bytes);
    }
  }
}

SimTime StepTimes::shortest_stay(std::uint32_t hop) const {
  SimTime shortest = kNever;
  for (std::size_t i = hop; i < stay_.size(); i += hops_) {
    shortest = std::min(shortest, stay_[i]);
  }
  return shortest;
}

Cursor StepTimes::begin(std::uint32_t script) const {
  Cursor at;
  if (first_step_[script] == first_step_[script + 1]) {
    at.phase = static_cast<std::uint32_t>(loops_.size());
  } else {
    enter(script, at);
  }
  return at;
}

// At the beginning of a phase.
void StepTimes::enter(std::uint32_t script, Cursor& at) const {
  while (at.phase < loops_.size() && loops_[at.phase].count == 0) {
    ++at.phase;
  }
  if (at.phase < loops_.size()) {
    at.loops_left = loops_[at.phase].count;
    begin_loop(script, at);
  }
}

void StepTimes::begin_loop(std::uint32_t script, Cursor& at) const {
  constexpr std::int64_t kMostMoves = std::int64_t{1} << 31;
  const std::int64_t moves = steps_[first_step_[script]].moves;
  const bool one_step = first_step_[script + 1] - first_step_[script] == 1;
  const std::int64_t loops = one_step ? std::clamp(kMostMoves / moves, std::int64_t{1}, at.loops_left) : 1;
  at.loops_left -= loops - 1;
  at.moves_left = static_cast<std::uint32_t>(moves * loops);
}

void StepTimes::next_step(std::uint32_t script, Cursor& at) const {
  const std::uint32_t steps = first_step_[script + 1] - first_step_[script];
  if (++at.step == steps) {
    at.step = 0;
    if (--at.loops_left == 0) {
      ++at.phase;
      enter(script, at);
    } else {
      begin_loop(script, at);
    }
    return;
  }
  at.moves_left = steps_[first_step_[script] + at.step].moves;
}

}  // namespace paceline
