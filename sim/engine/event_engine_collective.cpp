// The event engine's communication streams, and the thread blocks of every collective.
#include <algorithm>

#include "sim/engine/event_engine.h"

namespace paceline {

void EventEngine::launch_next(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  if (state.communicating || state.launched == state.reached) {
    return;
  }
  const Place at = state.collective;
  CollectiveRecord& record = slot(at.iteration).collectives[at.op];
  if (at.op == 0 && record.launch.last.at < SimTime{} &&
      std::ranges::any_of(rank_, [&](const RankState& other) { return other.collective < at; })) {
    last_overlap_ = at.iteration;
  }
  record.launch.add({now, record.own[rank], rank});
  note(Fact::launch, at, rank, now);
  record_collective(rank, at, now, kNever);
  ++state.launched;
  set_communicating(rank, true, now);
  if (ranks_ == 1) {
    end_collective(rank, now);
    return;
  }
  const std::uint32_t plan = program(at.iteration).collectives[at.op];
  timeline_.push(now + job_.plans[plan].startup, EventKind::collective_start, rank);
}

void EventEngine::start_thread_blocks(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  const std::uint32_t plan = program(state.collective.iteration).collectives[state.collective.op];
  const std::uint32_t graph = job_.plans[plan].graph;
  const std::uint32_t first = graphs_[graph].first_of_rank[rank],
                      last = graphs_[graph].first_of_rank[rank + 1];
  state.thread_blocks_left = last - first;
  for (std::uint32_t i = first; i < last; ++i) {
    start_thread_block(graphs_[graph].of_rank[i], plan);
  }
  if (first == last) {
    end_collective(rank, now);
  }
  for (std::uint32_t i = first; i < last; ++i) {
    advance_thread_block(graphs_[graph].of_rank[i], now);
  }
}

void EventEngine::start_thread_block(std::uint32_t index, std::uint32_t plan) {
  ThreadBlockState& state = thread_blocks_[index];
  state.plan = plan;
  state.active = true;
  state.at = step_times_[plan].begin(state.script);
  for (std::uint32_t p = state.first_out; p < thread_blocks_[index + 1].first_out; ++p) {
    fifos_[out_[p]].sent_before = fifos_[out_[p]].sent;
  }
}

bool EventEngine::may_move(const ThreadBlockState& state, const FlatStep& step) const {
  for (std::uint32_t p = 0; p < step.receive.count; ++p) {
    const FifoState& fifo = fifos_[in_[state.first_in + step.receive.first + p]];
    if (fifo.arrived == fifo.received) {
      return false;
    }
  }
  const std::uint32_t slots = job_.plans[state.plan].slots;
  for (std::uint32_t p = 0; slots > 0 && p < step.send.count; ++p) {
    const FifoState& fifo = fifos_[out_[state.first_out + step.send.first + p]];
    // The receiver may still be in a collective before this one: what that left doesn't count.
    if (fifo.sent - std::max(fifo.received, fifo.sent_before) >= slots) {
      return false;
    }
  }
  return true;
}

// Begins the thread block's next move if it can, or ends its part of the collective.
void EventEngine::advance_thread_block(std::uint32_t index, SimTime now) {
  ThreadBlockState& state = thread_blocks_[index];
  if (!state.active || state.unfinished > 0) {
    return;
  }
  const StepTimes& times = step_times_[state.plan];
  if (times.done(state.at)) {
    finish_thread_block(index, now);
    return;
  }
  const FlatStep& step = times.step(state.script, state.at);
  if (!may_move(state, step)) {
    return;
  }
  const CollectivePlan& plan = job_.plans[state.plan];
  SimTime end = step.send.count == 0 ? now + times.copy(state.at, step) : now;
  state.unfinished = 1;
  for (std::uint32_t p = 0; p < step.send.count; ++p) {
    const std::uint32_t f = out_[state.first_out + step.send.first + p];
    FifoState& fifo = fifos_[f];
    ++fifo.sent;
    if (fifo.shared != kNotShared) {
      ++state.unfinished;
      fifo.sent_at = now;
      end = std::max(end, now + plan.hops[fifo.hop].least);
      const SharedFifo& shared = job_.communicator.graphs[plan.graph].shared[fifo.shared];
      const BytesPerSecond rate = plan.hops[fifo.hop].rate;
      const Bytes bytes = times.bytes(state.at, step);
      if (!network_->restart(fifo.flow, rate, bytes, f, now)) {
        fifo.flow = network_->start(shared.links, rate, bytes, f, now);
      }
    } else {
      const SimTime left = now + times.stay(state.at, step, fifo.hop);
      end = std::max(end, left);
      fifo.last_arrival = std::max(fifo.last_arrival, left + times.latency(state.at, step, fifo.hop));
      timeline_.push(fifo.last_arrival, EventKind::arrival, f);
    }
  }
  timeline_.push(end, EventKind::move_end, index);
}

// A transfer over shared links has left its sender.
void EventEngine::end_flow(std::uint32_t f, SimTime now) {
  FifoState& fifo = fifos_[f];
  const ThreadBlockState& sender = thread_blocks_[fifo.from];
  const StepTimes& times = step_times_[sender.plan];
  const SimTime left = std::max(now, fifo.sent_at + job_.plans[sender.plan].hops[fifo.hop].least);
  const FlatStep& step = times.step(sender.script, sender.at);
  fifo.last_arrival = std::max(fifo.last_arrival, left + times.latency(sender.at, step, fifo.hop));
  timeline_.push(fifo.last_arrival, EventKind::arrival, f);
  end_move(fifo.from, now);
}

void EventEngine::end_move(std::uint32_t index, SimTime now) {
  ThreadBlockState& state = thread_blocks_[index];
  if (--state.unfinished > 0) {
    return;
  }
  const StepTimes& times = step_times_[state.plan];
  const FlatStep& step = times.step(state.script, state.at);
  const std::uint32_t first = state.first_in + step.receive.first, last = first + step.receive.count;
  times.advance(state.script, state.at);
  for (std::uint32_t p = first; p < last; ++p) {
    ++fifos_[in_[p]].received;
  }
  advance_thread_block(index, now);
  for (std::uint32_t p = first; p < last; ++p) {
    advance_thread_block(fifos_[in_[p]].from, now);
  }
}

void EventEngine::arrive(std::uint32_t f, SimTime now) {
  ++fifos_[f].arrived;
  advance_thread_block(fifos_[f].to, now);
}

void EventEngine::finish_thread_block(std::uint32_t index, SimTime now) {
  ThreadBlockState& state = thread_blocks_[index];
  state.active = false;
  const std::uint32_t rank = state.rank;
  if (rank == ThreadBlock::kSwitch) {
    next_use(index, state.use);
    if (state.use.iteration <= last_iteration_) {
      start_thread_block(index, program(state.use.iteration).collectives[state.use.op]);
      advance_thread_block(index, now);
    }
  } else if (--rank_[rank].thread_blocks_left == 0) {
    end_collective(rank, now);
  }
}

// The next collective on a switch's graph, after `use`.
void EventEngine::next_use(std::uint32_t index, Place& use) const {
  const std::uint32_t graph = thread_blocks_[index].graph;
  while (use.iteration <= last_iteration_) {
    const std::vector<std::uint32_t>& collectives = program(use.iteration).collectives;
    while (++use.op < collectives.size()) {
      if (job_.plans[collectives[use.op]].graph == graph) {
        return;
      }
    }
    use = {use.iteration + 1, ~std::uint32_t{0}};
  }
}

void EventEngine::end_collective(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  const Place at = state.collective;
  CollectiveRecord& record = slot(at.iteration).collectives[at.op];
  record.end = std::max(record.end, now);
  note(Fact::collective_end, at, rank, now);
  record_collective(rank, at, kNever, now);
  if (++state.collective.op == program(at.iteration).collectives.size()) {
    state.collective = {at.iteration + 1, 0};
  }
  set_communicating(rank, false, now);
  launch_next(rank, now);
  advance_stream(rank, now);
  advance_host(rank, now);
}

// Puts a collective's launch or end into the record of its operation.
void EventEngine::record_collective(std::uint32_t rank, Place at, SimTime launch, SimTime end) {
  const std::uint32_t op = collective_op_[at.iteration == 0 ? 0 : 1][at.op];
  OpSpan& recorded = span(rank, {at.iteration, op});
  (launch < kNever ? recorded.start : recorded.end) = std::min(launch, end);
}

}  // namespace paceline
