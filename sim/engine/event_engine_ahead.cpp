// The thread blocks of collectives ahead of the clock: a move begins at the latest of the ends of those that it waits
// for, so its time is known as soon as theirs are, in whatever order they are made (as in sim/collective/passes.h).
// Only a transfer over shared links takes as long as what else crosses them lets it: it begins and ends as events, and
// its thread block waits for it. Equal to event by event (event_engine_collective.cpp) to the picosecond.
#include <algorithm>

#include "sim/engine/event_engine.h"

namespace paceline {

// The slices of the last collective may all be there yet when those of the next come.
void EventEngine::prepare_ahead() {
  constexpr std::uint32_t kOfEndless = 16;  // at first
  std::vector<std::uint32_t> room(graphs_.graphs.size(), kOfEndless);
  for (const CollectivePlan& plan : plans_) {
    room[plan.graph] = std::max(room[plan.graph], 2 * plan.slots);
  }
  for (const FifoState& fifo : graphs_.fifos) {
    slices_.add_fifo(room[graphs_[fifo.from].graph]);
  }
  ready_.resize(graphs_.thread_blocks.size());
}

void EventEngine::make_ready(ThreadBlockId id) {
  ThreadBlockState& state = graphs_[id];
  if (state.active && !state.ready) {
    state.ready = true;
    ready_[(first_ready_ + ready_count_++) % ready_.size()] = id;
  }
}

// The rank's thread blocks begin the collective that its queue has launched, at `begin`.
void EventEngine::start_ahead(QueueId queue, const Running& op, SimTime begin, SimTime now) {
  const ThreadId thread = thread_of_queue_[queue.index()];
  const LaidOutGraphs::Graph& graph = graphs_.graphs[plans_[op.plan].graph];
  const std::uint32_t first = graph.first_of_rank[thread.value], last = graph.first_of_rank[thread.value + 1];
  queues_[queue.index()].thread_blocks_left = last - first;
  queues_[queue.index()].left = begin;
  for (std::uint32_t i = first; i < last; ++i) {
    ThreadBlockState& state = graphs_[graph.of_rank[i]];
    state.queue = queue;
    state.free = begin;
    start_thread_block(graph.of_rank[i], op.plan);
    make_ready(graph.of_rank[i]);
  }
  if (first == last) {
    timeline_.push(begin + op.conclude, EventKind::collective_end, queue.value);
  }
  move_ahead(now);
}

// Makes all moves whose times are known. First come, first served: so orders stay from iteration to iteration.
void EventEngine::move_ahead(SimTime now) {
  for (; ready_count_ > 0; --ready_count_) {
    const ThreadBlockId id = ready_[first_ready_];
    while (make_move(id, now)) {
    }
    graphs_[id].ready = false;
    first_ready_ = first_ready_ + 1 == ready_.size() ? 0 : first_ready_ + 1;
  }
}

// The thread block's next move; false when it has none, or waits for what isn't known yet.
bool EventEngine::make_move(ThreadBlockId id, SimTime now) {
  ThreadBlockState& state = graphs_[id];
  if (!state.active || state.unfinished > 0) {
    return false;
  }
  const StepTimes& times = step_times_[state.plan];
  if (times.done(state.at)) {
    end_thread_block_ahead(id);
    return true;
  }
  const FlatStep& step = times.step(state.script, state.at);
  if (!may_move(state, step)) {
    return false;
  }
  const CollectivePlan& plan = plans_[state.plan];
  const FifoId* const in = &graphs_.in[state.first_in + step.receive.first];
  const FifoId* const out = &graphs_.out[state.first_out + step.send.first];
  SimTime begin = state.free;
  for (std::uint32_t p = 0; p < step.receive.count; ++p) {
    begin = std::max(begin, slices_(in[p], graphs_[in[p]].received));
  }
  for (std::uint32_t p = 0; plan.slots > 0 && p < step.send.count; ++p) {
    const FifoState& fifo = graphs_[out[p]];
    if (fifo.sent - fifo.sent_before >= plan.slots) {
      begin = std::max(begin, slices_(out[p], fifo.sent - plan.slots));
    }
  }
  state.free = step.send.count == 0 ? begin + times.copy(state.at, step) : begin;
  for (std::uint32_t p = 0; p < step.send.count; ++p) {
    FifoState& fifo = graphs_[out[p]];
    ++fifo.sent;
    if (fifo.shared == FifoState::kNotShared) {
      const SimTime left = begin + times.stay(state.at, step, fifo.hop);
      state.free = std::max(state.free, left);
      arrive_ahead(out[p], left + times.latency(state.at, step, fifo.hop));
    } else {
      ++state.unfinished;
      state.free = std::max(state.free, begin + plan.hops[fifo.hop].least);
      fifo.sent_at = begin;
      if (begin == now) {
        begin_transfer(out[p], now);
      } else {
        timeline_.push(begin, EventKind::transfer, out[p].value);
      }
    }
  }
  if (state.unfinished == 0) {
    end_move_ahead(id);
  }
  return true;
}

// The FIFO's next slice will be there at this time, or with the one before it.
void EventEngine::arrive_ahead(FifoId id, SimTime at) {
  FifoState& fifo = graphs_[id];
  fifo.last_arrival = std::max(fifo.last_arrival, at);
  slices_.make_room(id, fifo.received, fifo.arrived);
  slices_(id, fifo.arrived) = fifo.last_arrival;
  ++fifo.arrived;
  make_ready(fifo.to);
}

// The move's time is known: what it received leaves its slots then.
void EventEngine::end_move_ahead(ThreadBlockId id) {
  ThreadBlockState& state = graphs_[id];
  const StepTimes& times = step_times_[state.plan];
  const FlatStep& step = times.step(state.script, state.at);
  const std::uint32_t first = state.first_in + step.receive.first, last = first + step.receive.count;
  times.advance(state.script, state.at);
  for (std::uint32_t p = first; p < last; ++p) {
    FifoState& fifo = graphs_[graphs_.in[p]];
    slices_(graphs_.in[p], fifo.received) = state.free;
    ++fifo.received;
    make_ready(fifo.from);
  }
}

// A transfer over shared links has ended; its sender is occupied by it until `end`.
void EventEngine::end_transfer_ahead(FifoId id, SimTime arrival, SimTime end, SimTime now) {
  arrive_ahead(id, arrival);
  const ThreadBlockId sender = graphs_[id].from;
  ThreadBlockState& state = graphs_[sender];
  state.free = std::max(state.free, end);
  if (--state.unfinished == 0) {
    end_move_ahead(sender);
    make_ready(sender);
  }
  move_ahead(now);
}

// A switch goes on with its graph's next collective, a rank leaves when the last of its thread blocks has ended.
void EventEngine::end_thread_block_ahead(ThreadBlockId id) {
  ThreadBlockState& state = graphs_[id];
  state.active = false;
  if (state.rank == ThreadBlock::kSwitch) {
    next_use(id, state.use);
    if (state.use.iteration <= last_iteration_) {
      start_thread_block(id, program_on(state.graph, state.use.iteration).collectives[state.use.op].plan);
    }
    return;
  }
  QueueState& queue = queues_[state.queue.index()];
  queue.left = std::max(queue.left, state.free);
  if (--queue.thread_blocks_left == 0) {
    timeline_.push(queue.left + running(state.queue).conclude, EventKind::collective_end, state.queue.value);
  }
}

}  // namespace paceline
