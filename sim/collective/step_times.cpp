#include "sim/collective/step_times.h"

#include <algorithm>
#include <cassert>

namespace paceline {

SimTime least_of(Bytes slice, const HopCost& hop) {
  const SimTime moved = hop.channel_rate.value > 0 ? to_sim_time(slice / hop.channel_rate) : SimTime{};
  const bool at_once = hop.eager.value > 0 && slice <= hop.eager;
  return std::max(at_once ? SimTime{} : hop.least, hop.channel + moved);
}

SimTime stay_of(Bytes slice, const HopCost& hop) {
  return std::max(to_sim_time(slice / hop.rate) + hop.overhead, least_of(slice, hop));
}

HopCost hop_in(const CollectivePlan& plan, std::size_t phase, std::size_t hop) {
  HopCost cost = plan.hops[hop];
  const BytesPerSecond paced =
      plan.paced.empty() ? BytesPerSecond() : plan.paced[phase * plan.hops.size() + hop];
  cost.rate = paced.value > 0 ? paced : cost.rate;
  return cost;
}

SimTime copy_of(Bytes slice, const CollectivePlan& plan, bool hides) {
  return to_sim_time(slice / plan.copy_rate * (hides ? plan.copy_shown : 1));
}

namespace {

// By how much a slice's first lines are there before it has left.
SimTime earlier_of(Bytes slice, const HopCost& hop) {
  const bool whole = hop.cut_through.value == 0 || slice <= kLl128Lines;
  return whole ? SimTime{}
               : std::min(to_sim_time((slice - kLl128Lines) / hop.cut_through), stay_of(slice, hop));
}

std::uint32_t window_of(const CollectiveGraph& graph, const CollectivePlan& plan) {
  if (plan.slots > 0) {
    return plan.slots;
  }
  std::uint32_t most = 64, slices = 1;
  for (const Loops& loops : plan.loops) {
    slices = std::max(slices, slices_of(loops));
  }
  std::vector<std::uint32_t> moves(graph.scripts.size());
  for (std::size_t s = 0; s < moves.size(); ++s) {
    for (const Step& step : graph.scripts[s].steps) {
      most = std::max(most, step.receive.count == 0 ? 2 * step.times * slices : 0);
      moves[s] += step.times;
    }
  }
  for (const Fifo& fifo : graph.fifos) {  // before a word comes, all that it stands for
    if (fifo.wire == Wire::word) {
      most = std::max(most, 2 * moves[graph.thread_blocks[fifo.to].script] * slices);
    }
  }
  return most;
}

}  // namespace

StepTimes::StepTimes(const CollectiveGraph& graph, const CollectivePlan& plan)
    : hops_(plan.hops.size()), window_(window_of(graph, plan)) {
  std::vector<std::uint32_t> widths;
  for (const Script& script : graph.scripts) {
    first_step_.push_back(static_cast<std::uint32_t>(steps_.size()));
    const bool sends = std::ranges::any_of(script.steps, [](const Step& s) { return s.send.count > 0; });
    for (const Step& step : script.steps) {
      const auto known = std::find(widths.begin(), widths.end(), step.width);
      const auto width = static_cast<std::uint32_t>(known - widths.begin());
      if (known == widths.end()) {
        widths.push_back(step.width);
      }
      steps_.push_back({step.times, step.receive, step.send, width, sends && step.send.count == 0});
    }
    if (sends && script.steps.back().send.count == 0) {
      const auto last = std::ranges::find_if(steps_.rbegin(), steps_.rend(),
                                             [](const FlatStep& s) { return s.send.count > 0; });
      last->before_pause = true;
    }
  }
  first_step_.push_back(static_cast<std::uint32_t>(steps_.size()));
  widths_ = widths.size();
  for (std::size_t phase = 0; phase < plan.loops.size(); ++phase) {
    const Loops& loops = plan.loops[phase];
    last_phase_ = loops.count > 0 ? static_cast<std::uint32_t>(phases_.size()) : last_phase_;
    assert(loops.slice <= loops.chunk);
    const std::uint32_t slices = slices_of(loops);
    const Bytes slice = slices == 1 ? loops.chunk : loops.slice;
    const Bytes last(loops.chunk.value - (slices - 1) * slice.value);
    phases_.push_back({loops.count, slices, last == slice});
    for (const std::uint32_t width : widths) {
      for (const Bytes each : {slice, last}) {
        const Bytes bytes(each.value * width);
        for (std::size_t h = 0; h < hops_; ++h) {
          const HopCost hop = hop_in(plan, phase, h);
          stay_.push_back(stay_of(bytes, hop));
          latency_.push_back(hop.latency - earlier_of(bytes, hop));
          hidden_latency_.push_back(latency_.back() - hop.hidden);
        }
        copy_.push_back(copy_of(bytes, plan, false));
        hidden_copy_.push_back(copy_of(bytes, plan, true));
        bytes_.push_back(bytes);
      }
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

SimTime StepTimes::occupancy(const CollectiveGraph& graph, const ThreadBlock& thread_block) const {
  SimTime total;
  Cursor at;
  const auto move = [&](const FlatStep& flat, std::int64_t loops_left) {
    at.loops_left = loops_left;
    SimTime longest = flat.send.count == 0 ? copy(at, flat) : SimTime{};
    for (std::uint32_t p = 0; p < flat.send.count; ++p) {
      const std::uint32_t fifo = graph.out[thread_block.first_out + flat.send.first + p];
      longest = std::max(longest, stay(at, flat, graph.fifos[fifo].hop));
    }
    return longest;
  };
  const std::uint32_t steps = first_step_[thread_block.script + 1] - first_step_[thread_block.script];
  for (; at.phase < phases_.size(); ++at.phase) {
    const std::int64_t loops = phases_[at.phase].loops, last = std::min<std::int64_t>(loops, 1);
    for (at.step = 0; at.step < steps; ++at.step) {
      const FlatStep& flat = step(thread_block.script, at);
      for (at.moves_left = phases_[at.phase].slices; at.moves_left > 0; --at.moves_left) {
        total += (move(flat, 2) * (loops - last) + move(flat, 1) * last) * flat.times;
      }
    }
  }
  return total;
}

Cursor StepTimes::begin(std::uint32_t script) const {
  Cursor at;
  if (first_step_[script] == first_step_[script + 1]) {
    at.phase = static_cast<std::uint32_t>(phases_.size());
  } else {
    enter(script, at);
  }
  return at;
}

// At the beginning of a phase.
void StepTimes::enter(std::uint32_t script, Cursor& at) const {
  while (at.phase < phases_.size() && phases_[at.phase].loops == 0) {
    ++at.phase;
  }
  if (at.phase < phases_.size()) {
    at.loops_left = phases_[at.phase].loops;
    begin_loop(script, at);
  }
}

void StepTimes::begin_loop(std::uint32_t script, Cursor& at) const {
  constexpr std::int64_t kMostMoves = std::int64_t{1} << 31;
  const std::int64_t moves = std::int64_t{steps_[first_step_[script]].times} * phases_[at.phase].slices;
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
  at.moves_left = steps_[first_step_[script] + at.step].times * phases_[at.phase].slices;
}

}  // namespace paceline
