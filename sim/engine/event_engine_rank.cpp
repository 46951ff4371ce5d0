// The event engine's actors of one rank: host thread, data loader, compute stream.
#include <algorithm>

#include "sim/engine/event_engine.h"

namespace paceline {

// The host thread and the data loader.

void EventEngine::advance_host(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  if (state.host_busy || state.host.iteration > last_iteration_ || !host_may_issue(rank, now)) {
    return;
  }
  state.host_busy = true;
  timeline_.push(now + program(state.host.iteration).ops[state.host.op].host_cost, EventKind::host_done,
                 rank);
}

// Whether the host has all that its next operation needs; records its wait otherwise.
bool EventEngine::host_may_issue(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  if (state.host.op == 0 &&
      state.completed + static_cast<std::uint32_t>(job_.host_runs_ahead) < state.host.iteration) {
    return false;
  }
  const OpKind kind = program(state.host.iteration).ops[state.host.op].kind;
  if (kind != OpKind::take_batch && kind != OpKind::synchronize) {
    return true;
  }
  OpSpan& waited = span(rank, state.host);
  if (!state.host_waits) {
    waited.start = now;
  }
  const bool released = kind == OpKind::take_batch ? state.produced > state.consumed
                                                   : !state.kernel_runs && state.stream == state.host;
  state.host_waits = !released;
  if (released) {
    waited.end = now;
    if (kind == OpKind::take_batch) {
      ++state.consumed;
      advance_loader(rank, now);
    }
  }
  return released;
}

void EventEngine::end_issue(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  state.host_busy = false;
  if (!traced_.empty() && traced_[rank] != kNotTraced) {
    slot(state.host.iteration)
        .issued[traced_[rank] * program(state.host.iteration).ops.size() + state.host.op] = now;
  }
  if (++state.host.op == program(state.host.iteration).ops.size()) {
    state.host = {state.host.iteration + 1, 0};
    open_iteration(state.host.iteration);
  }
  advance_stream(rank, now);
  advance_host(rank, now);
}

void EventEngine::advance_loader(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  if (!job_.input || state.loader_busy ||
      state.produced - state.consumed >= static_cast<std::uint32_t>(job_.input->prefetch)) {
    return;
  }
  state.loader_busy = true;
  const double jitter = input_jitter_.draw({run_.seed, Stream::input, state.produced}, Rank(rank), 0);
  timeline_.push(now + disturbed(job_.input->batch_time, 1.0, jitter), EventKind::batch_ready, rank);
}

// The compute stream.

void EventEngine::advance_stream(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  while (!state.kernel_runs && state.stream < state.host && run_stream_op(rank, now)) {
  }
}

// Runs the operation at the stream's head. False: it has not ended yet.
bool EventEngine::run_stream_op(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  const Place at = state.stream;
  const Op& op = program(at.iteration).ops[at.op];
  switch (op.kind) {
    case OpKind::kernel:
      start_kernel(rank, op, now);
      return false;
    case OpKind::collective: {
      CollectiveRecord& record = slot(at.iteration).collectives[op.index];
      record.ready = std::max(record.ready, state.idle_from);
      record.own[rank] = state.own;
      ++state.reached;
      leave_stream_op(rank, now);
      launch_next(rank, now);
      return true;
    }
    case OpKind::wait:
      if (!state.stream_waits) {
        span(rank, at).start = now;
      }
      state.stream_waits = !(Place{at.iteration, op.index} < state.collective);
      if (state.stream_waits) {
        return false;
      }
      span(rank, at).end = state.idle_from = now;
      state.own = {};
      leave_stream_op(rank, now);
      return true;
    case OpKind::take_batch:
      if (own_input_) {
        state.own += overlap(span(rank, at).start, span(rank, at).end, state.idle_from, kNever);
      }
      leave_stream_op(rank, now);
      return true;
    case OpKind::synchronize:
      leave_stream_op(rank, now);
      return true;
  }
  return false;
}

void EventEngine::leave_stream_op(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  const Place at = state.stream;
  if (at.op == last_stream_op_[at.iteration == 0 ? 0 : 1]) {  // what may follow is the host's
    ++state.completed;
    slot(at.iteration).rank_end[rank] = now;
    slot(at.iteration).own_at_end[rank] = state.own;
    note(Fact::iteration_end, {at.iteration, 0}, rank, now);
  }
  if (++state.stream.op < program(at.iteration).ops.size()) {
    return;
  }
  state.stream = {at.iteration + 1, 0};
  if (at.iteration < last_iteration_) {
    state.factor = variability_.rank_factor(Rank(rank), at.iteration + 1);
  }
  if (++slot(at.iteration).ranks_done == ranks_) {
    close_iteration(at.iteration);
  }
}

void EventEngine::start_kernel(std::uint32_t rank, const Op& op, SimTime now) {
  RankState& state = rank_[rank];
  const Place at = state.stream;
  const double jitter =
      variability_.per_operation().draw(variability_.operation_address(at.iteration), Rank(rank), at.op);
  span(rank, at).start = now;
  state.kernel_runs = true;
  const SimTime duration = disturbed(op.duration, state.factor, jitter);
  state.own += duration;
  state.work = Work{duration.ps} * job_.slowdown.numerator;
  state.work_left_at = now;
  schedule_kernel_end(rank);
}

// Work is counted in units of 1/p picosecond: p per picosecond when the communication stream is free, q while
// it is busy; the kernel ends at the ceiling.
void EventEngine::schedule_kernel_end(std::uint32_t rank) {
  RankState& state = rank_[rank];
  const Work rate = state.communicating ? job_.slowdown.denominator : job_.slowdown.numerator;
  const auto left = static_cast<std::int64_t>((state.work + rate - 1) / rate);
  state.kernel_event = timeline_.push(state.work_left_at + SimTime{left}, EventKind::kernel_end, rank);
}

void EventEngine::set_communicating(std::uint32_t rank, bool communicating, SimTime now) {
  RankState& state = rank_[rank];
  if (state.kernel_runs && job_.slowdown.numerator != job_.slowdown.denominator) {
    const Work rate = state.communicating ? job_.slowdown.denominator : job_.slowdown.numerator;
    state.work = std::max(Work{0}, state.work - Work{(now - state.work_left_at).ps} * rate);
    state.work_left_at = now;
    state.communicating = communicating;
    schedule_kernel_end(rank);
  }
  state.communicating = communicating;
}

void EventEngine::end_kernel(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  state.kernel_runs = false;
  span(rank, state.stream).end = state.idle_from = now;
  leave_stream_op(rank, now);
  advance_stream(rank, now);
  advance_host(rank, now);
}

}  // namespace paceline
