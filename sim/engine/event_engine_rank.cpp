// The event engine's actors of one thread: host, data loader, compute stream.
#include <algorithm>

#include "sim/engine/event_engine.h"

namespace paceline {

// The host thread and the data loader.

void EventEngine::advance_host(ThreadId thread, SimTime now) {
  ThreadState& state = thread_[thread.index()];
  while (!state.host_busy && (state.host.iteration <= last_iteration_ || own_iterations()) &&
         host_may_issue(thread, now)) {
    const Op& op = program(thread, state.host.iteration).ops[state.host.op];
    if (op.runs_in(state.host.iteration)) {
      state.host_busy = true;
      SimTime cost = op.host_cost;
      if (op.poll > SimTime{}) {  // it looked when it came, and sleeps between two looks
        const std::int64_t since = (now - span(thread, state.host).start).ps;
        cost += SimTime{(op.poll.ps - since % op.poll.ps) % op.poll.ps};
      }
      timeline_.push(now + cost, EventKind::host_done, thread.value);
    } else {
      leave_host_op(thread);
      advance_stream(thread, now);
    }
  }
}

// Whether the host has all that its next operation needs; records its wait otherwise.
bool EventEngine::host_may_issue(ThreadId thread, SimTime now) {
  ThreadState& state = thread_[thread.index()];
  if (state.host.op == 0 &&
      completed(thread) + static_cast<std::uint32_t>(job_.host_runs_ahead) < state.host.iteration) {
    return false;
  }
  const Op& op = program(thread, state.host.iteration).ops[state.host.op];
  if ((op.kind != OpKind::take_batch && op.kind != OpKind::synchronize) ||
      !op.runs_in(state.host.iteration)) {
    return true;
  }
  OpSpan& waited = span(thread, state.host);
  if (!state.host_waits) {
    waited.start = now;
  }
  const bool released = op.kind == OpKind::take_batch ? state.produced > state.consumed
                        : op.stream == kWholeDevice
                            ? device_idle(thread)
                            : !(state.kernel_runs && state.kernel_stream == 0) && state.stream == state.host;
  state.host_waits = !released;
  if (released) {
    waited.end = now;
    if (op.kind == OpKind::take_batch) {
      ++state.consumed;
      advance_loader(thread, now);
    }
  }
  return released;
}

// Iterations that a host knows to be complete: those of its process.
std::uint32_t EventEngine::completed(ThreadId thread) const {
  std::uint32_t least = thread_[thread.index()].completed;
  for (std::uint32_t r = 0; job_.one_process && r < ranks_; ++r) {
    least = std::min(least, thread_[r].completed);
  }
  return least;
}

void EventEngine::end_issue(ThreadId thread, SimTime now) {
  ThreadState& state = thread_[thread.index()];
  state.host_busy = false;
  const Op& op = program(thread, state.host.iteration).ops[state.host.op];
  if (!traced_.empty() && is_rank(thread) && traced_[thread.index()] != kNotTraced) {
    slot(state.host.iteration).issued[traced_[thread.index()] * most_ops_ + state.host.op] = now;
  }
  if (job_.negotiation && is_rank(thread)) {
    note_queued(state.host, now);
  }
  leave_host_op(thread);
  if (op.kind == OpKind::collective && op.after != After::compute) {
    launch_next(queue_of(thread, op.queue), now);
  }
  offer_kernel(thread);
  advance_stream(thread, now);
  advance_host(thread, now);
}

void EventEngine::leave_host_op(ThreadId thread) {
  ThreadState& state = thread_[thread.index()];
  if (++state.host.op == program(thread, state.host.iteration).ops.size()) {
    state.host = {state.host.iteration + 1, 0};
    if (is_rank(thread) && !own_iterations()) {
      open_iteration(state.host.iteration);
    }
  }
}

void EventEngine::advance_loader(ThreadId rank, SimTime now) {
  ThreadState& state = thread_[rank.index()];
  if (!job_.input || state.loader_busy ||
      state.produced - state.consumed >= static_cast<std::uint32_t>(job_.input->prefetch)) {
    return;
  }
  state.loader_busy = true;
  const Rank whose(job_.one_process ? 0 : rank.value);
  const double jitter = input_jitter_.draw({run_.seed, Stream::input, state.produced}, whose, 0);
  timeline_.push(now + disturbed(job_.input->batch_time, 1.0, jitter), EventKind::batch_ready, rank.value);
}

// The compute stream.

void EventEngine::advance_stream(ThreadId thread, SimTime now) {
  ThreadState& state = thread_[thread.index()];
  while (!(state.kernel_runs && state.kernel_stream == 0) && state.stream < state.host &&
         run_stream_op(thread, now)) {
  }
}

// Runs the operation at the stream's head. False: it has not ended yet.
bool EventEngine::run_stream_op(ThreadId thread, SimTime now) {
  ThreadState& state = thread_[thread.index()];
  const OpPlace at = state.stream;
  const Op& op = program(thread, at.iteration).ops[at.op];
  if (!op.runs_in(at.iteration)) {
    leave_stream_op(thread, now);
    return true;
  }
  switch (op.kind) {
    case OpKind::kernel:
      if (op.stream > 0) {
        leave_stream_op(thread, now);
        return true;
      }
      if (streams_beside(thread) == 0) {
        start_kernel(thread, 0, at, now);
      } else if (state.kernel_ready == kNever) {
        state.kernel_ready = now;
        offer_kernel(thread);
      }
      return false;
    case OpKind::collective:
      if (op.after == After::compute) {
        const OpPlace collective{at.iteration, op.index};
        SimTime& ready = record(thread, collective).ready;
        ready = std::max(ready, state.idle_from);
        own_at(thread, collective) = state.own;
        leave_stream_op(thread, now);
        launch_next(queue_of(thread, op.queue), now);
      } else {
        leave_stream_op(thread, now);
      }
      return true;
    case OpKind::wait:
      return wait_on_stream(thread, at.iteration < op.lag || ended(thread, {at.iteration - op.lag, op.index}),
                            now);
    case OpKind::gate:
      return wait_on_stream(thread, pass_gate(thread, op, now), now);
    case OpKind::join:
      return wait_on_stream(thread, ended_beside(thread, {at.iteration, op.after_op}), now);
    case OpKind::send:
      send(thread, op, now);
      leave_stream_op(thread, now);
      return true;
    case OpKind::take_batch:
      if (own_input_) {
        state.own += overlap(span(thread, at).start, span(thread, at).end, state.idle_from, kNever);
      }
      leave_stream_op(thread, now);
      return true;
    case OpKind::synchronize:
      leave_stream_op(thread, now);
      return true;
  }
  return false;
}

// The stream is at a wait, which is over or not.
bool EventEngine::wait_on_stream(ThreadId thread, bool over, SimTime now) {
  ThreadState& state = thread_[thread.index()];
  OpSpan& waited = span(thread, state.stream);
  if (!state.stream_waits) {
    waited.start = now;
  }
  state.stream_waits = !over;
  if (over) {
    waited.end = state.idle_from = now;
    state.own = {};
    leave_stream_op(thread, now);
  }
  return over;
}

void EventEngine::leave_stream_op(ThreadId thread, SimTime now) {
  ThreadState& state = thread_[thread.index()];
  const OpPlace at = state.stream;
  const ProgramLayout& layout = this->layout(thread, at.iteration);
  if (at.op == layout.last_stream_op) {  // what may follow is the host's
    ++state.completed;
    state.idle_from = now;
    if (is_rank(thread)) {
      if (own_iterations()) {
        end_own_iteration(thread, at.iteration, now);
      } else {
        end_rank_iteration(thread, at.iteration, now);
      }
    }
  }
  if (++state.stream.op == layout.program->ops.size()) {
    state.stream = {at.iteration + 1, 0};
    if (is_rank(thread)) {
      if (at.iteration < last_iteration_ || own_iterations()) {
        state.factor = variability_.rank_factor(Rank(thread.value), at.iteration + 1);
      }
      if (!own_iterations()) {
        ++slot(at.iteration).ranks_done;
        close_complete_iterations();
      }
    }
  }
  if (job_.negotiation && is_rank(thread)) {  // a tensor may have come to be
    launch_next(queue_of(thread, 0), now);
    advance_background(thread, now);
  }
  if (!layout.followers[at.op].empty() && runs_on_compute_stream(layout.program->ops[at.op])) {
    release_followers(thread, at, state.own, now);
  }
  for (std::uint32_t r = 0; job_.one_process && at.op == layout.last_stream_op && r < ranks_; ++r) {
    advance_host(ThreadId(r), now);
  }
}

void EventEngine::end_rank_iteration(ThreadId rank, std::uint32_t iteration, SimTime now) {
  slot(iteration).rank_end[rank.index()] = now;
  slot(iteration).own_at_end[rank.index()] = thread_[rank.index()].own;
  note(Fact::iteration_end, {iteration, 0}, rank, now);
}

void EventEngine::start_kernel(ThreadId thread, std::uint32_t stream, OpPlace at, SimTime now) {
  ThreadState& state = thread_[thread.index()];
  const double jitter = is_rank(thread)
                            ? variability_.per_operation().draw(variability_.operation_address(at.iteration),
                                                                Rank(thread.value), at.op)
                            : 1.0;
  span(thread, at).start = now;
  state.kernel_runs = true;
  state.kernel_stream = stream;
  state.kernel = at;
  const double factor = at.iteration == state.stream.iteration || !is_rank(thread)
                            ? state.factor
                            : variability_.rank_factor(Rank(thread.value), at.iteration);
  const SimTime duration = disturbed(program(thread, at.iteration).ops[at.op].duration, factor, jitter);
  (stream == 0 ? state.own : beside(thread, stream).own) += duration;
  state.work = Work{duration.ps} * job_.slowdown.numerator;
  state.work_left_at = now;
  schedule_kernel_end(thread);
}

// Work is counted in units of 1/p picosecond: p per picosecond when the communication queues are free, q while
// one is busy; the kernel ends at the ceiling.
void EventEngine::schedule_kernel_end(ThreadId thread) {
  ThreadState& state = thread_[thread.index()];
  const Work rate = state.communicating > 0 ? job_.slowdown.denominator : job_.slowdown.numerator;
  const auto left = static_cast<std::int64_t>((state.work + rate - 1) / rate);
  state.kernel_event =
      timeline_.push(state.work_left_at + SimTime{left}, EventKind::kernel_end, thread.value);
}

// A queue's collective begins, or has ended.
void EventEngine::set_communicating(ThreadId thread, bool begins, SimTime now) {
  ThreadState& state = thread_[thread.index()];
  const std::uint32_t before = state.communicating;
  state.communicating = begins ? before + 1 : before - 1;
  const bool changes = (before == 0) != (state.communicating == 0);
  if (changes && state.kernel_runs && job_.slowdown.slows()) {
    const Work rate = before > 0 ? job_.slowdown.denominator : job_.slowdown.numerator;
    state.work = std::max(Work{0}, state.work - Work{(now - state.work_left_at).ps} * rate);
    state.work_left_at = now;
    schedule_kernel_end(thread);
  }
}

void EventEngine::end_kernel(ThreadId thread, SimTime now) {
  ThreadState& state = thread_[thread.index()];
  state.kernel_runs = false;
  span(thread, state.kernel).end = now;
  if (state.kernel_stream == 0) {
    state.idle_from = now;
    leave_stream_op(thread, now);
  } else {
    end_kernel_beside(thread, now);
  }
  offer_kernel(thread);
  advance_stream(thread, now);
  advance_host(thread, now);
}

}  // namespace paceline
