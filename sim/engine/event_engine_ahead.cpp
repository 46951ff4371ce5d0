// The thread blocks of collectives ahead of the clock: a move begins at the latest of the ends of those that it waits
// for, so its time is known as soon as theirs are, in whatever order they are made (as in sim/collective/passes.h).
// Only a transfer over shared links takes as long as what else crosses them lets it: it begins and ends as events, and
// its thread block waits for it. Equal to event by event (event_engine_collective.cpp) to the picosecond.
#include <algorithm>

#include "sim/engine/event_engine.h"

namespace paceline {

// The slices of the last collective may all be there yet when those of the next come.
void EventEngine::prepare_slices() {
  constexpr std::uint32_t kOfEndless = 16;  // at first
  std::vector<std::uint32_t> room(graphs_.graphs.size(), kOfEndless);
  for (const CollectivePlan& plan : plans_) {
    room[plan.graph] = std::max(room[plan.graph], 2 * plan.slots);
  }
  for (std::uint32_t f = 0; f < graphs_.fifos.size(); ++f) {
    const FifoState& fifo = graphs_.fifos[f];
    const std::uint32_t graph = graphs_[fifo.from].graph;
    const std::uint32_t slices = ahead_ && meetings_[graph] ? 1 : room[graph];
    if (f == slices_.fifos()) {
      slices_.add_fifo(slices);
    } else if (ahead_) {  // a plan more on its graph; event by event they get room when they need it
      slices_.widen(FifoId(f), slices, fifo.arrived);
    }
  }
  ready_.resize(graphs_.thread_blocks.size());
}

// The thread block may have what it waited for: a slice on the FIFO, or a slot.
void EventEngine::wake(ThreadBlockId id, FifoId fifo) {
  if (graphs_[id].waits == fifo) {
    make_ready(id);
  }
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
    while (make_moves(id, now)) {
    }
    graphs_[id].ready = false;
    first_ready_ = first_ready_ + 1 == ready_.size() ? 0 : first_ready_ + 1;
  }
}

// How many moves of one size the thread block can make one after the other: what it needs of each is known. One where
// it is a transfer over shared links.
std::uint32_t EventEngine::possible_moves(ThreadBlockState& state, const FlatStep& step) const {
  std::uint64_t moves = std::min(kMostInRow, state.times->alike(state.at));
  for (std::uint32_t p = 0; p < step.receive.count; ++p) {
    const FifoId id = graphs_.in[state.first_in + step.receive.first + p];
    const FifoState& fifo = graphs_[id];
    if (fifo.arrived == fifo.received) {
      state.waits = id;
      return 0;
    }
    moves = std::min(moves, fifo.arrived - fifo.received);
  }
  const std::uint64_t slots = state.planned->slots;
  for (std::uint32_t p = 0; p < step.send.count; ++p) {
    const FifoId id = graphs_.out[state.first_out + step.send.first + p];
    const FifoState& fifo = graphs_[id];
    if (slots > 0) {
      const std::uint64_t filled = fifo.sent - std::max(fifo.received, fifo.sent_before);
      if (filled >= slots) {
        state.waits = id;
        return 0;
      }
      moves = std::min(moves, slots - filled);
    }
    moves = fifo.shared == FifoState::kNotShared ? moves : 1;
  }
  state.waits = FifoState::kNone;
  return static_cast<std::uint32_t>(moves);
}

// The thread block's next moves; false when it has none, or waits for what isn't known yet.
bool EventEngine::make_moves(ThreadBlockId id, SimTime now) {
  ThreadBlockState& state = graphs_[id];
  if (!state.active || state.unfinished > 0) {
    return false;
  }
  const StepTimes& times = *state.times;
  if (times.done(state.at)) {
    end_thread_block_ahead(id);
    return true;
  }
  const FlatStep& step = times.step(state.script, state.at);
  const std::uint32_t moves = possible_moves(state, step);
  if (moves == 0) {
    return false;
  }
  const FifoId* const in = graphs_.in.data() + state.first_in + step.receive.first;
  const FifoId* const out = graphs_.out.data() + state.first_out + step.send.first;
  const std::span<SimTime> begin = std::span(begin_).first(moves);
  std::ranges::fill(begin, state.free);
  for (std::uint32_t p = 0; p < step.receive.count; ++p) {
    const SliceTimes::Ring arrival = slices_.ring(in[p]);
    for (std::uint64_t i = 0, slice = graphs_[in[p]].received; i < moves; ++i) {
      begin[i] = std::max(begin[i], arrival[slice + i]);
    }
  }
  const std::uint64_t slots = state.planned->slots;
  SimTime occupied = step.send.count == 0 ? times.copy(state.at, step) : SimTime{};
  for (std::uint32_t p = 0; p < step.send.count; ++p) {
    const FifoState& fifo = graphs_[out[p]];
    if (slots > 0) {
      const SliceTimes::Ring emptied = slices_.ring(out[p]);
      const std::uint64_t free = slots - std::min(slots, fifo.sent - fifo.sent_before);  // never filled yet
      for (std::uint64_t i = free; i < moves; ++i) {
        begin[i] = std::max(begin[i], emptied[fifo.sent + i - slots]);
      }
    }
    occupied = std::max(occupied, fifo.shared == FifoState::kNotShared
                                      ? times.stay(state.at, step, fifo.hop)
                                      : least_of(times.bytes(state.at, step), state.planned->hops[fifo.hop]));
  }
  for (SimTime& each : begin) {
    each = std::max(each, state.free);
    state.free = each + occupied;
  }
  for (std::uint32_t p = 0; p < step.send.count; ++p) {
    FifoState& fifo = graphs_[out[p]];
    fifo.sent += moves;
    if (fifo.shared == FifoState::kNotShared) {
      const SimTime way = times.stay(state.at, step, fifo.hop) + times.latency(state.at, step, fifo.hop);
      for (std::uint32_t i = 0; i < moves; ++i) {
        arrive_ahead(out[p], begin[i] + way);
      }
      wake(fifo.to, out[p]);
    } else {
      ++state.unfinished;
      fifo.sent_at = begin[0];
      if (begin[0] == now) {
        begin_transfer(out[p], now);
      } else {
        timeline_.push(begin[0], EventKind::transfer, out[p].value);
      }
    }
  }
  if (state.unfinished == 0) {
    for (std::uint32_t p = 0; p < step.receive.count; ++p) {
      FifoState& fifo = graphs_[in[p]];
      const SliceTimes::Ring emptied = slices_.ring(in[p]);
      for (std::uint32_t i = 0; i < moves; ++i) {
        emptied[fifo.received + i] = begin[i] + occupied;
      }
      fifo.received += moves;
      wake(fifo.from, in[p]);
    }
    times.advance(state.script, state.at, moves);
  }
  return true;
}

// The FIFO's next slice will be there at this time, or with the one before it.
void EventEngine::arrive_ahead(FifoId id, SimTime at) {
  FifoState& fifo = graphs_[id];
  fifo.last_arrival = std::max(fifo.last_arrival, at);
  slices_.make_room(id, fifo.received, fifo.arrived);
  slices_.ring(id)[fifo.arrived] = fifo.last_arrival;
  ++fifo.arrived;
}

// A transfer over shared links has ended; its sender is occupied by it until `end`.
void EventEngine::end_transfer_ahead(FifoId id, SimTime arrival, SimTime end, SimTime now) {
  arrive_ahead(id, arrival);
  wake(graphs_[id].to, id);
  const ThreadBlockId sender = graphs_[id].from;
  ThreadBlockState& state = graphs_[sender];
  state.free = std::max(state.free, end);
  if (--state.unfinished == 0) {
    const FlatStep& step = state.times->step(state.script, state.at);
    for (std::uint32_t p = 0; p < step.receive.count; ++p) {
      const FifoId received = graphs_.in[state.first_in + step.receive.first + p];
      slices_.ring(received)[graphs_[received].received++] = state.free;
      wake(graphs_[received].from, received);
    }
    state.times->advance(state.script, state.at);
    make_ready(sender);
  }
  move_ahead(now);
}

// A switch goes on with its graph's next collective, a rank leaves when the last of its thread blocks has ended.
void EventEngine::end_thread_block_ahead(ThreadBlockId id) {
  ThreadBlockState& state = graphs_[id];
  state.active = false;
  if (state.rank == ThreadBlock::kSwitch) {
    begin_next_use(id);
    return;
  }
  QueueState& queue = queues_[state.queue.index()];
  queue.left = std::max(queue.left, state.free);
  if (--queue.thread_blocks_left == 0) {
    timeline_.push(queue.left + running(state.queue).conclude, EventKind::collective_end, state.queue.value);
  }
}

}  // namespace paceline
