// The event engine's communication queues, and the thread blocks of every collective.
#include <algorithm>
#include <utility>

#include "sim/engine/event_engine.h"

namespace paceline {

// Whether the thread has ended this collective.
bool EventEngine::ended(ThreadId thread, OpPlace collective) const {
  const std::uint32_t queue = layout(thread, collective.iteration).collectives[collective.op].queue;
  return collective < queues_[queue_of(thread, queue).index()].collective;
}

bool EventEngine::may_launch(ThreadId thread, OpPlace collective) const {
  const ProgramLayout& of = layout(thread, collective.iteration);
  const OpPlace at{collective.iteration, of.collectives[collective.op].op};
  if (!(at < thread_[thread.index()].host)) {
    return false;
  }
  const Op& op = of.program->ops[at.op];
  switch (op.after) {
    case After::compute:
      return at < thread_[thread.index()].stream;
    case After::op: {
      const Op& before = of.program->ops[op.after_op];
      return before.kind == OpKind::collective ? ended(thread, {at.iteration, before.index})
             : runs_beside_compute_stream(before)
                 ? ended_beside(thread, {at.iteration, op.after_op})
                 : OpPlace{at.iteration, op.after_op} < thread_[thread.index()].stream;
    }
    case After::nothing:
      return true;
    case After::decision:
      return may_launch_decided(thread, collective);
  }
  return false;
}

void EventEngine::launch_next(QueueId queue, SimTime now) {
  QueueState& state = queues_[queue.index()];
  const ThreadId thread = thread_of_queue_[queue.index()];
  const OpPlace at = state.collective;
  if (state.runs || at.iteration > last_iteration_ || waits_for_worker(thread, at) ||
      !may_launch(thread, at)) {
    return;
  }
  if (job_.workers > 0) {
    OpPlace& next = thread_[thread.index()].collective;
    next = following(thread, next);
  }
  const CollectiveLayout& collective = layout(thread, at.iteration).collectives[at.op];
  CollectiveRecord& met = record(thread, at);
  if (!std::exchange(slot(at.iteration).launched, true) &&
      std::ranges::any_of(
          queues_, [&](const QueueState& other) { return other.collective.iteration < at.iteration; })) {
    last_overlap_ = at.iteration;
  }
  const Running op = running(queue);
  if (op.after == After::nothing) {
    met.ready = std::max(met.ready, now);
  } else if (op.after == After::decision) {
    const std::uint32_t made_by = job_.negotiation->tensors[decided(at).tensors.back()].after_op;
    met.ready = std::max(met.ready, span(thread, {at.iteration, made_by}).end);
    own_at(thread, at) = thread_[thread.index()].own;
  }
  met.launch.add({now, own_at(thread, at), thread.value});
  note(Fact::launch, at, thread, now);
  span(thread, {at.iteration, collective.op}).start = now;
  state.runs = true;
  set_communicating(thread, true, now);
  if (ranks_ == 1) {
    conclude(queue, op.prepare + op.conclude, now);
    return;
  }
  if (times_ && meetings_[plans_[op.plan].graph]) {
    enter_meeting(queue, op, now);
    return;
  }
  const SimTime begin = now + op.prepare + plans_[op.plan].startup;
  if (ahead_) {
    start_ahead(queue, op, begin, now);
  } else {
    timeline_.push(begin, EventKind::collective_start, queue.value);
  }
}

// The last rank to enter decides when all leave.
void EventEngine::enter_meeting(QueueId queue, const Running& op, SimTime now) {
  Meeting& meeting = *meetings_[plans_[op.plan].graph];
  const std::size_t rank = thread_of_queue_[queue.index()].index();
  meeting.launch[rank] = now + op.prepare;
  meeting.queue[rank] = queue;
  meeting.conclude[rank] = op.conclude;
  if (++meeting.entered < ranks_) {
    return;
  }
  times_->end(op.plan, meeting.launch, meeting.launch.front(), meeting_end_);
  meeting.entered = 0;
  std::ranges::fill(meeting.launch, SimTime{});
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    timeline_.push(meeting_end_[r] + meeting.conclude[r], EventKind::collective_end, meeting.queue[r].value);
  }
}

// An operation has ended: what comes after it may be launched.
void EventEngine::release_followers(ThreadId thread, OpPlace ended, SimTime own, SimTime now) {
  const ProgramLayout& of = layout(thread, ended.iteration);
  for (const std::uint32_t number : of.followers[ended.op]) {
    const OpPlace collective{ended.iteration, number};
    SimTime& ready = record(thread, collective).ready;
    ready = std::max(ready, now);
    own_at(thread, collective) = own;
  }
  for (const std::uint32_t number : of.followers[ended.op]) {
    launch_next(queue_of(thread, of.collectives[number].queue), now);
  }
}

void EventEngine::start_thread_blocks(QueueId queue, SimTime now) {
  const ThreadId thread = thread_of_queue_[queue.index()];
  const auto [plan, prepare, conclude_in, after, stages] = running(queue);
  const LaidOutGraphs::Graph& graph = graphs_.graphs[plans_[plan].graph];
  const std::uint32_t first = graph.first_of_rank[thread.value], last = graph.first_of_rank[thread.value + 1];
  queues_[queue.index()].thread_blocks_left = last - first;
  for (std::uint32_t i = first; i < last; ++i) {
    graphs_[graph.of_rank[i]].queue = queue;
    start_thread_block(graph.of_rank[i], plan);
  }
  if (first == last) {
    conclude(queue, conclude_in, now);
  }
  for (std::uint32_t i = first; i < last; ++i) {
    advance_thread_block(graph.of_rank[i], now);
  }
}

void EventEngine::start_thread_block(ThreadBlockId id, std::uint32_t plan) {
  ThreadBlockState& state = graphs_[id];
  state.plan = plan;
  state.active = true;
  state.times = &step_times_[plan];
  state.planned = &plans_[plan];
  state.at = state.times->begin(state.script);
  for (std::uint32_t p = state.first_out; p < graphs_.thread_blocks[id.index() + 1].first_out; ++p) {
    FifoState& fifo = graphs_[graphs_.out[p]];
    fifo.sent_before = fifo.sent;
  }
}

bool EventEngine::may_move(const ThreadBlockState& state, const FlatStep& step, SimTime now) {
  for (std::uint32_t p = 0; p < step.receive.count; ++p) {
    const FifoState& fifo = graphs_[graphs_.in[state.first_in + step.receive.first + p]];
    if (fifo.arrived == fifo.received) {
      return false;
    }
  }
  const std::uint32_t slots = plans_[state.plan].slots;
  for (std::uint32_t p = 0; slots > 0 && p < step.send.count; ++p) {
    const FifoId id = graphs_.out[state.first_out + step.send.first + p];
    const FifoState& fifo = graphs_[id];
    // The receiver may still be in a collective before this one: what that left doesn't count.
    if (fifo.sent - std::max(fifo.received, fifo.sent_before) >= slots ||
        (fifo.sent - fifo.sent_before >= slots && slices_.ring(id)[fifo.sent - slots] > now)) {
      return false;
    }
  }
  return true;
}

// Begins the thread block's next move if it can, or ends its part of the collective.
void EventEngine::advance_thread_block(ThreadBlockId id, SimTime now) {
  ThreadBlockState& state = graphs_[id];
  if (!state.active || state.unfinished > 0) {
    return;
  }
  const StepTimes& times = step_times_[state.plan];
  if (times.done(state.at)) {
    finish_thread_block(id, now);
    return;
  }
  const FlatStep& step = times.step(state.script, state.at);
  if (!may_move(state, step, now)) {
    return;
  }
  const CollectivePlan& plan = plans_[state.plan];
  SimTime end = step.send.count == 0 ? now + times.copy(state.at, step) : now;
  state.unfinished = 1;
  for (std::uint32_t p = 0; p < step.send.count; ++p) {
    const FifoId f = graphs_.out[state.first_out + step.send.first + p];
    FifoState& fifo = graphs_[f];
    ++fifo.sent;
    if (fifo.shared != FifoState::kNotShared) {
      ++state.unfinished;
      fifo.sent_at = now;
      end = std::max(end, now + least_of(times.bytes(state.at, step), plan.hops[fifo.hop]));
      begin_transfer(f, now);
    } else {
      const SimTime left = now + times.stay(state.at, step, fifo.hop);
      end = std::max(end, left);
      fifo.last_arrival = std::max(fifo.last_arrival, left + times.latency(state.at, step, fifo.hop));
      timeline_.push(fifo.last_arrival, EventKind::arrival, f.value);
    }
  }
  timeline_.push(end, EventKind::move_end, id.value);
}

// A transfer over shared links begins, or waits for those on its socket.
void EventEngine::begin_transfer(FifoId id, SimTime now) {
  const FifoState& fifo = graphs_[id];
  if (fifo.socket == SharedFifo::kNoSocket) {
    start_flow(id, now);
  } else if (Socket& socket = graphs_.sockets[fifo.socket]; socket.first) {
    graphs_[*socket.last].behind = id;
    socket.last = id;
  } else {
    socket = {id, id};
    start_flow(id, now);
  }
}

void EventEngine::start_flow(FifoId id, SimTime now) {
  FifoState& fifo = graphs_[id];
  const ThreadBlockState& sender = graphs_[fifo.from];
  const CollectivePlan& plan = plans_[sender.plan];
  const StepTimes& times = step_times_[sender.plan];
  const BytesPerSecond rate = hop_in(plan, sender.at.phase, fifo.hop).rate;
  const Bytes bytes = times.bytes(sender.at, times.step(sender.script, sender.at));
  if (!network_->restart(fifo.flow, rate, bytes, id.value, now)) {
    const SharedFifo& shared = graph_list_[plan.graph].shared[fifo.shared];
    fifo.flow = network_->start(shared.links, rate, bytes, id.value, now, Clock::own, shared.alike);
  }
}

// A transfer over shared links has left its sender.
void EventEngine::end_flow(FifoId id, SimTime now) {
  FifoState& fifo = graphs_[id];
  if (fifo.socket != SharedFifo::kNoSocket) {
    Socket& socket = graphs_.sockets[fifo.socket];
    socket.first = std::exchange(fifo.behind, std::nullopt);
    if (socket.first) {
      start_flow(*socket.first, now);
    }
  }
  const ThreadBlockState& sender = graphs_[fifo.from];
  const StepTimes& times = step_times_[sender.plan];
  const HopCost& hop = plans_[sender.plan].hops[fifo.hop];
  const FlatStep& step = times.step(sender.script, sender.at);
  const SimTime left =
      std::max(now + hop.overhead, fifo.sent_at + least_of(times.bytes(sender.at, step), hop));
  const SimTime arrival = std::max(now, left + times.latency(sender.at, step, fifo.hop));
  if (ahead_) {
    end_transfer_ahead(id, arrival, now + hop.overhead, now);
    return;
  }
  fifo.last_arrival = std::max(fifo.last_arrival, arrival);
  timeline_.push(fifo.last_arrival, EventKind::arrival, id.value);
  if (hop.overhead > SimTime{}) {
    timeline_.push(now + hop.overhead, EventKind::move_end, fifo.from.value);
  } else {
    end_move(fifo.from, now);
  }
}

void EventEngine::end_move(ThreadBlockId id, SimTime now) {
  ThreadBlockState& state = graphs_[id];
  if (--state.unfinished > 0) {
    return;
  }
  const StepTimes& times = step_times_[state.plan];
  const FlatStep& step = times.step(state.script, state.at);
  const std::uint32_t first = state.first_in + step.receive.first, last = first + step.receive.count;
  times.advance(state.script, state.at);
  const CollectivePlan& plan = plans_[state.plan];
  for (std::uint32_t p = first; p < last; ++p) {
    const FifoId in = graphs_.in[p];
    FifoState& fifo = graphs_[in];
    slices_.make_room(in, fifo.received - std::min<std::uint64_t>(fifo.received, plan.slots), fifo.received);
    slices_.ring(in)[fifo.received++] = now;
  }
  advance_thread_block(id, now);
  for (std::uint32_t p = first; p < last; ++p) {
    advance_thread_block(graphs_[graphs_.in[p]].from, now);
  }
}

void EventEngine::arrive(FifoId id, SimTime now) {
  ++graphs_[id].arrived;
  advance_thread_block(graphs_[id].to, now);
}

void EventEngine::finish_thread_block(ThreadBlockId id, SimTime now) {
  ThreadBlockState& state = graphs_[id];
  state.active = false;
  if (state.rank == ThreadBlock::kSwitch) {
    start_switch(id, now);
  } else if (--queues_[state.queue.index()].thread_blocks_left == 0) {
    conclude(state.queue, running(state.queue).conclude, now);
  }
}

// A switch takes part in its graph's next collective, where there is one.
void EventEngine::start_switch(ThreadBlockId id, SimTime now) {
  if (!begin_next_use(id)) {
    return;
  }
  if (ahead_) {
    make_ready(id);
    move_ahead(now);
  } else {
    advance_thread_block(id, now);
  }
}

bool EventEngine::begin_next_use(ThreadBlockId id) {
  ThreadBlockState& state = graphs_[id];
  if (job_.negotiation) {
    const std::vector<std::uint32_t>& decided = uses_of_graph_[state.graph];
    if (state.use.op == decided.size()) {
      return false;
    }
    start_thread_block(id, decided[state.use.op++]);
    return true;
  }
  next_use(id, state.use);
  if (state.use.iteration > last_iteration_) {
    return false;
  }
  start_thread_block(id, program_on(state.graph, state.use.iteration).collectives[state.use.op].plan);
  return true;
}

// The next collective on a switch's graph, after `use`.
void EventEngine::next_use(ThreadBlockId id, OpPlace& use) const {
  const std::uint32_t graph = graphs_.thread_blocks[id.index()].graph;
  while (use.iteration <= last_iteration_) {
    const ProgramLayout& layout = program_on(graph, use.iteration);
    while (++use.op < layout.collectives.size()) {
      const CollectiveLayout& collective = layout.collectives[use.op];
      if (plans_[collective.plan].graph == graph &&
          layout.program->ops[collective.op].runs_in(use.iteration)) {
        return;
      }
    }
    use = {use.iteration + 1, ~std::uint32_t{0}};
  }
}

// What runs collectives on a graph.
const ProgramLayout& EventEngine::program_on(std::uint32_t graph, std::uint32_t iteration) const {
  return layouts_.roles[layouts_.role_of_graph[graph]].front().of(iteration);
}

EventEngine::Running EventEngine::running(QueueId queue) const {
  const OpPlace at = queues_[queue.index()].collective;
  const CollectiveLayout& of = layout(thread_of_queue_[queue.index()], at.iteration).collectives[at.op];
  const Op& op = program(thread_of_queue_[queue.index()], at.iteration).ops[of.op];
  if (op.after == After::decision) {
    const DecidedCollective& collective = decided(at);
    const std::span<const Stage> stages = plans_[collective.plan].stages;
    if (stages.empty()) {
      return {collective.plan, collective.margin, collective.margin, op.after, {}};
    }
    const std::uint32_t stage = queues_[queue.index()].stage;
    const SimTime last = stage + 1 == stages.size() ? collective.margin : SimTime{};
    return {stages[stage].plan, collective.margin, last, op.after, stages};
  }
  return {of.plan, op.prepare, op.conclude, op.after, {}};
}

// The collective has ended, but for what its queue does for so long after it.
void EventEngine::conclude(QueueId queue, SimTime left, SimTime now) {
  if (left == SimTime{}) {
    end_collective(queue, now);
  } else {
    timeline_.push(now + left, EventKind::collective_end, queue.value);
  }
}

void EventEngine::end_collective(QueueId queue, SimTime now) {
  if (job_.negotiation && next_stage(queue, now)) {
    return;
  }
  const ThreadId thread = thread_of_queue_[queue.index()];
  const OpPlace at = queues_[queue.index()].collective;
  CollectiveRecord& met = record(thread, at);
  met.end = std::max(met.end, now);
  note(Fact::collective_end, at, thread, now);
  const ProgramLayout& of = layout(thread, at.iteration);
  const std::uint32_t op = of.collectives[at.op].op;
  span(thread, {at.iteration, op}).end = now;
  queues_[queue.index()].runs = false;
  const std::uint32_t number = queue.value - place_[thread.index()].first_queue.value;
  queues_[queue.index()].collective = following(thread, at, number);
  ++slot(at.iteration).collectives_ended;
  set_communicating(thread, false, now);
  launch_next(queue, now);
  if (const OpPlace next = thread_[thread.index()].collective;
      job_.workers > 0 && next.iteration <= last_iteration_) {
    launch_next(queue_of(thread, layout(thread, next.iteration).collectives[next.op].queue), now);
  }
  if (!of.followers[op].empty()) {
    release_followers(thread, {at.iteration, op}, {}, now);
  }
  offer_kernel(thread);
  advance_stream(thread, now);
  advance_host(thread, now);
  close_complete_iterations();
}

// The collective that comes next in the thread's programs, of all queues or of one.
OpPlace EventEngine::following(ThreadId thread, OpPlace at, std::uint32_t queue) const {
  while (at.iteration <= last_iteration_) {
    const ProgramLayout& of = layout(thread, at.iteration);
    while (++at.op < of.collectives.size()) {
      const CollectiveLayout& next = of.collectives[at.op];
      if ((queue == kNoIndex || next.queue == queue) && of.program->ops[next.op].runs_in(at.iteration)) {
        skip_nothing(at);
        return at;
      }
    }
    at = {at.iteration + 1, ~std::uint32_t{0}};
  }
  return at;
}

// Whether others come first, or all workers are busy.
bool EventEngine::waits_for_worker(ThreadId thread, OpPlace collective) const {
  const ThreadState& state = thread_[thread.index()];
  return job_.workers > 0 && (state.collective < collective || state.communicating >= job_.workers);
}

}  // namespace paceline
