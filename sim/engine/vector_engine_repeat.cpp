// The vector engine where steps are alike: when all that decides what follows is at the end of an iteration what it was
// at the end of the one before, only later, all that is to come is what has just been, only later.
#include <algorithm>
#include <utility>

#include "sim/engine/alike_steps.h"
#include "sim/engine/vector_engine.h"

namespace paceline {
namespace {

// What has been added up, once more what the last iteration has added to it.
template <class T>
void add_again(T& total, T& before) {
  before = std::exchange(total, total + (total - before));
}
void add_again(Blame& total, Blame& before) {
  add_again(total.count, before.count);
  add_again(total.total, before.total);
}
void add_again(CollectiveTiming& total, CollectiveTiming& before) {
  add_again(total.ready, before.ready);
  add_again(total.launch, before.launch);
  add_again(total.end, before.end);
}
void add_again(CollectiveWaits& total, CollectiveWaits& before) {
  add_again(total.straggler, before.straggler);
  add_again(total.exposed, before.exposed);
}
template <class T>
void add_again(std::vector<T>& totals, std::vector<T>& before) {
  for (std::size_t i = 0; i < totals.size(); ++i) {
    add_again(totals[i], before[i]);
  }
}

}  // namespace

bool VectorEngine::may_repeat(const TrainingJob& job) {
  return draws_alike(job) && in_every_iteration(job.main().warm_up) && in_every_iteration(job.main().steady);
}

// All that decides what follows, as seen from the end of the last iteration; nothing where more does than these times.
std::optional<std::vector<SimTime>> VectorEngine::describe() const {
  const SimTime next = std::ranges::min(host_);  // no collective is launched before it
  if (!times_.settled_by(next)) {
    return std::nullopt;
  }
  std::vector<SimTime> state;
  for (const SimTime own : own_) {
    state.push_back(own - own_.front());
  }
  const auto add = [&](SimTime t) { state.push_back(t - previous_end_); };
  std::ranges::for_each(host_, add);
  std::ranges::for_each(stream_, add);
  // What is over when the rank's host, or its loader, comes to it doesn't count.
  const auto add_all = [&](const std::vector<SimTime>& times, const std::vector<SimTime>& since) {
    for (std::size_t r = 0; r < times.size(); ++r) {
      add(std::max(times[r], since[r]));
    }
  };
  for (const std::vector<SimTime>& queue : communication_) {
    add_all(queue, host_);
  }
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    add_all(ends_[(iteration_ + i) % ends_.size()], host_);
  }
  if (job_.input) {
    std::ranges::for_each(batch_ready_, add);
  }
  for (std::size_t i = 0; i < consumed_.size(); ++i) {
    add_all(consumed_[(batches_ + i) % consumed_.size()], batch_ready_);
  }
  for (const std::vector<std::vector<OpSpan>>& queue : slowing_) {
    for (std::size_t r = 0; r < queue.size(); ++r) {
      for (const OpSpan& span : queue[r]) {
        if (span.end > stream_[r]) {
          add(span.start);
          add(span.end);
        }
      }
      state.push_back(kNever);
    }
  }
  times_.for_each_switch_end([&](SimTime end) { add(std::max(end, next)); });
  return state;
}

// After an iteration, which took `period`.
void VectorEngine::compare_with_before(SimTime period) {
  std::optional<std::vector<SimTime>> state = describe();
  const bool all_counted = std::ranges::min(stream_) - period >= counted_from_;
  alike_ = state && state == state_before_ && all_counted;
  state_before_ = std::move(state);
}

bool VectorEngine::repeats() const {
  const std::uint64_t traced = std::uint64_t{trace_.first} + trace_.iterations;
  return alike_ && (trace_.ranks.empty() || traced <= iteration_);
}

void VectorEngine::repeat() {
  const SimTime period = previous_end_ - result_.iteration_end[iteration_ - 2];
  for (SimTime& end : stream_) {
    end += period;
  }
  for (std::uint32_t number = 0; number < layout().collectives.size(); ++number) {
    Busy& of = busy(iteration_, number);
    for (std::uint32_t r = 0; r < job_.ranks(); ++r) {
      of.launch[r] += period;
      of.end[r] += period;
    }
    add_facts(number);
  }
  for (std::size_t last = layouts_.steady_records; last > 0; --last) {
    result_.last_to_launch.push_back(*(result_.last_to_launch.end() - layouts_.steady_records));
  }
  add_again(totals_.compute, totals_before_.compute);
  add_again(totals_.exposed, totals_before_.exposed);
  add_again(totals_.straggler, totals_before_.straggler);
  add_again(totals_.waited_for_input, totals_before_.waited_for_input);
  add_again(totals_.waited_for, totals_before_.waited_for);
  add_again(totals_.blame, totals_before_.blame);
  add_again(totals_.timing, totals_before_.timing);
  add_again(totals_.waits, totals_before_.waits);
  close_iteration(previous_end_ + period, result_.last_to_end.back());
  ++repeated_;
}

}  // namespace paceline
