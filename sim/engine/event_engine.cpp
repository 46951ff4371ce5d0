#include "sim/engine/event_engine.h"

#include <algorithm>
#include <cassert>

#include "sim/report/account.h"

namespace paceline {
namespace {

std::uint32_t last_stream_op(const Program& program) {
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
    if (program.ops[i].kind == OpKind::kernel || program.ops[i].kind == OpKind::wait) {
      last = i;
    }
  }
  return last;
}

std::vector<std::uint32_t> collective_ops(const Program& program) {
  std::vector<std::uint32_t> ops;
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
    if (program.ops[i].kind == OpKind::collective) {
      ops.push_back(i);
    }
  }
  return ops;
}

// Events that can be pending at once: three per rank, the stale ends of slowed kernels, and per hop one
// occupancy and the chunks that its latency holds.
std::size_t most_pending(const TrainingJob& job) {
  const Communicator& wires = job.communicator;
  std::size_t pending = job.ranks() * (3 + job.steady.collectives.size());
  for (const Channel& channel : wires.channels) {
    for (const std::uint32_t hop_class : wires.patterns[channel.pattern]) {
      std::int64_t in_flight = 1;
      for (const CollectivePlan& plan : job.plans) {
        const std::int64_t stay =
            std::max<std::int64_t>(1, occupancy(plan.chunk, wires.classes[hop_class]).ps);
        const std::int64_t held = wires.classes[hop_class].latency.ps / stay + 2;
        in_flight = std::max(in_flight, std::min(plan.chunks, held));
      }
      pending += 1 + static_cast<std::size_t>(in_flight);
    }
  }
  return pending;
}

}  // namespace

EventEngine::EventEngine(const TrainingJob& job, const RunSpec& run, const TraceRequest& trace)
    : job_(job),
      run_(run),
      trace_(trace),
      ranks_(static_cast<std::uint32_t>(job.ranks())),
      channels_(static_cast<std::uint32_t>(job.communicator.channels.size())),
      last_iteration_(static_cast<std::uint32_t>(run.iterations)),
      variability_(job.variability, job.ranks(), run.seed),
      input_jitter_(job.input ? job.input->jitter : Distribution{}),
      timeline_(most_pending(job)),
      rank_(ranks_),
      hops_(std::size_t{channels_} * ranks_),
      position_(hops_.size()),
      slots_(static_cast<std::size_t>(job.host_runs_ahead) + 3),
      previous_rank_end_(ranks_),
      last_stream_op_{last_stream_op(job.warm_up), last_stream_op(job.steady)} {
  const Communicator& wires = job.communicator;
  for (std::uint32_t c = 0; c < channels_; ++c) {
    root_position_.push_back(static_cast<std::uint32_t>(root_position(wires.channels[c])));
    for (std::uint32_t p = 0; p < ranks_; ++p) {
      position_[c * ranks_ + wires.channels[c].order[p].index()] = p;
    }
  }
  hop_class_.reserve(hops_.size());
  for (const Channel& channel : wires.channels) {
    const std::vector<std::uint32_t>& pattern = wires.patterns[channel.pattern];
    hop_class_.insert(hop_class_.end(), pattern.begin(), pattern.end());
  }
  for (const Program* each : {&job.warm_up, &job.steady}) {
    collective_op_.push_back(collective_ops(*each));
  }
  for (std::uint32_t i = 0; i < wires.shared_hops.size(); ++i) {
    hops_[wires.shared_hops[i].channel * ranks_ + wires.shared_hops[i].position].shared = i;
  }
  if (!wires.shared_capacity.empty()) {
    network_.emplace(wires.shared_capacity, wires.shared_hops.size() + wires.background.size());
    ended_flows_.reserve(wires.shared_hops.size());
  }
  for (const CollectivePlan& plan : job.plans) {
    std::vector<SimTime>& stays = occupancy_.emplace_back();
    for (const HopClass& hop : wires.classes) {
      stays.push_back(occupancy(plan.chunk, hop));
    }
  }
  const std::size_t ops = std::max(job.warm_up.ops.size(), job.steady.ops.size());
  const std::size_t collectives = std::max(job.warm_up.collectives.size(), job.steady.collectives.size());
  for (IterationSlot& s : slots_) {
    s = {std::vector<OpSpan>(ops * ranks_), std::vector<CollectiveRecord>(collectives),
         std::vector<SimTime>(ranks_), 0};
  }
  last_launch_.resize(collectives);
  result_.engine = EngineKind::event;
  result_.breakdown.resize(ranks_);
  result_.blame.resize(ranks_);
  result_.timing.resize(job.steady.collectives.size());
  result_.iteration_end.reserve(last_iteration_ + 1);
}

void EventEngine::run() {
  SimTime now;
  for (std::size_t i = 0; network_ && i < job_.communicator.background.size(); ++i) {
    const SharedFlow& flow = job_.communicator.background[i];
    network_->start(flow.links, flow.rate, std::nullopt, 0, now);
  }
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    rank_[r].factor = variability_.rank_factor(Rank(r), 0);
    advance_loader(r, now);
    advance_host(r, now);
  }
  if (network_) {
    network_->share(now);
  }
  while (result_.iteration_end.size() <= last_iteration_) {
    const std::optional<SimTime> flow_end = network_ ? network_->next() : std::nullopt;
    assert(flow_end || !timeline_.empty());
    now = timeline_.empty() ? *flow_end : flow_end ? std::min(*flow_end, timeline_.next()) : timeline_.next();
    while (!timeline_.empty() && timeline_.next() == now) {
      ++result_.events;
      handle(timeline_.pop(), now);
    }
    if (network_) {
      if (flow_end && *flow_end == now) {
        ended_flows_.clear();
        network_->take_ended(now, ended_flows_);
        for (const std::uint64_t hop : ended_flows_) {
          ++result_.events;
          end_send(static_cast<std::uint32_t>(hop), now);
        }
      }
      network_->share(now);  // once per instant, after everything that starts in it
    }
  }
}

void EventEngine::handle(const Event& event, SimTime now) {
  const std::uint32_t subject = event.subject;
  switch (event.kind) {
    case EventKind::send_end:
      end_send(subject, now);
      break;
    case EventKind::arrival:
      ++hops_[subject].received;
      try_send(subject, now);
      finish_hop_if_done(subject, now);
      break;
    case EventKind::host_done:
      end_issue(subject, now);
      break;
    case EventKind::kernel_end:
      if (event.sequence == rank_[subject].kernel_event) {
        end_kernel(subject, now);
      }
      break;
    case EventKind::batch_ready:
      rank_[subject].loader_busy = false;
      ++rank_[subject].produced;
      advance_loader(subject, now);
      advance_host(subject, now);
      break;
  }
}

// ---------------------------------------------------------------------------------------------- host and
// data loader

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
  if (++state.host.op == program(state.host.iteration).ops.size()) {
    state.host = {state.host.iteration + 1, 0};
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

// ----------------------------------------------------------------------------------------------------
// compute stream

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
      record.ready = std::max(record.ready, now);
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
      span(rank, at).end = now;
      leave_stream_op(rank, now);
      return true;
    case OpKind::take_batch:
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
    fingerprint_.add(subject(Fact::iteration_end, at.iteration), rank, now);
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
  state.work = Work{disturbed(op.duration, state.factor, jitter).ps} * job_.slowdown.numerator;
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
  span(rank, state.stream).end = now;
  leave_stream_op(rank, now);
  advance_stream(rank, now);
  advance_host(rank, now);
}

// -----------------------------------------------------------------------------------------------------
// communication

void EventEngine::launch_next(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  if (state.communicating || state.launched == state.reached) {
    return;
  }
  const Place at = state.collective;
  const std::uint32_t plan = program(at.iteration).collectives[at.op];
  slot(at.iteration).collectives[at.op].launch.add(rank, now);
  fingerprint_.add(subject(Fact::launch, at.iteration, at.op), rank, now);
  record_collective(rank, at, now, kNever);
  ++state.launched;
  state.channels_left = channels_;
  set_communicating(rank, true, now);
  for (std::uint32_t c = 0; c < channels_; ++c) {
    start_hop(c * ranks_ + position_[c * ranks_ + rank], plan, now);
  }
}

void EventEngine::start_hop(std::uint32_t index, std::uint32_t plan, SimTime now) {
  Hop& hop = hops_[index];
  const auto chunks = static_cast<std::uint32_t>(job_.plans[plan].chunks);
  hop.plan = plan;
  hop.sent = 0;
  hop.active = true;
  if (job_.plans[plan].kind == CollectiveKind::all_reduce) {
    hop.sends = hop.receives = chunks;
    hop.lag = 0;
  } else {
    const std::uint32_t in_chain = (index % ranks_ + ranks_ - root_position_[index / ranks_]) % ranks_;
    hop.receives = in_chain == 0 ? 0 : chunks;
    hop.sends = in_chain == ranks_ - 1 ? 0 : chunks;
    hop.lag = 1;
  }
  try_send(index, now);
  finish_hop_if_done(index, now);
}

void EventEngine::try_send(std::uint32_t index, SimTime now) {
  Hop& hop = hops_[index];
  if (!hop.active || hop.sending || hop.sent == hop.sends ||
      (hop.receives > 0 && hop.received - hop.received_before < hop.sent + hop.lag)) {
    return;
  }
  hop.sending = true;
  const Communicator& wires = job_.communicator;
  if (hop.shared != kNotShared) {
    network_->start(wires.shared_hops[hop.shared].links, wires.classes[hop_class_[index]].rate,
                    job_.plans[hop.plan].chunk, index, now);
  } else {
    timeline_.push(now + occupancy_[hop.plan][hop_class_[index]], EventKind::send_end, index);
  }
}

void EventEngine::end_send(std::uint32_t index, SimTime now) {
  Hop& hop = hops_[index];
  hop.sending = false;
  ++hop.sent;
  const SimTime latency = job_.communicator.classes[hop_class_[index]].latency;
  timeline_.push(now + latency, EventKind::arrival,
                 index % ranks_ == ranks_ - 1 ? index + 1 - ranks_ : index + 1);
  try_send(index, now);
  finish_hop_if_done(index, now);
}

void EventEngine::finish_hop_if_done(std::uint32_t index, SimTime now) {
  Hop& hop = hops_[index];
  if (!hop.active || hop.sent < hop.sends || hop.received - hop.received_before < hop.receives) {
    return;
  }
  hop.active = false;
  hop.received_before += hop.receives;
  const std::uint32_t rank = job_.communicator.channels[index / ranks_].order[index % ranks_].value;
  if (--rank_[rank].channels_left == 0) {
    end_collective(rank, now);
  }
}

void EventEngine::end_collective(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  const Place at = state.collective;
  CollectiveRecord& record = slot(at.iteration).collectives[at.op];
  record.end = std::max(record.end, now);
  fingerprint_.add(subject(Fact::collective_end, at.iteration, at.op), rank, now);
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

// ------------------------------------------------------------------------------------------------------------
// report

void EventEngine::close_iteration(std::uint32_t iteration) {
  IterationSlot& closed = slot(iteration);
  const SimTime began = iteration == 0 ? SimTime{} : result_.iteration_end.back();
  result_.iteration_end.push_back(*std::max_element(closed.rank_end.begin(), closed.rank_end.end()));
  const Program& done = program(iteration);
  for (std::size_t k = 0; k < done.collectives.size(); ++k) {
    const CollectiveRecord& record = closed.collectives[k];
    last_launch_[k] = record.launch.last;
    if (iteration > 0) {
      result_.timing[k].ready += record.ready - began;
      result_.timing[k].launch += record.launch.last - began;
      result_.timing[k].end += record.end - began;
      if (record.launch.last > record.launch.second) {
        ++result_.blame[record.launch.rank].count;
        result_.blame[record.launch.rank].total += record.launch.last - record.launch.second;
      }
    }
  }
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    const std::span<const OpSpan> spans(&closed.spans[r * done.ops.size()], done.ops.size());
    if (iteration > 0) {
      account({done, spans, last_launch_, previous_rank_end_[r], closed.rank_end[r], began,
               result_.iteration_end[0]},
              result_.breakdown[r]);
    }
    if (iteration < trace_.iterations && r < trace_.ranks) {
      result_.trace.push_back({iteration, Rank(r), {spans.begin(), spans.end()}});
    }
  }
  previous_rank_end_ = closed.rank_end;
  closed.ranks_done = 0;
  std::fill(closed.collectives.begin(), closed.collectives.end(), CollectiveRecord{});
}

Result EventEngine::finish() {
  const SimTime last = result_.iteration_end.back(), total = last - result_.iteration_end.front();
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    Breakdown& b = result_.breakdown[r];
    b.straggler_wait += last - previous_rank_end_[r];
    b.other = total - (b.compute + b.exposed_communication + b.straggler_wait + b.input_wait);
  }
  result_.fingerprint = fingerprint_.value();
  return std::move(result_);
}

Result run_event_engine(const TrainingJob& job, const RunSpec& run, const TraceRequest& trace) {
  EventEngine engine(job, run, trace);
  engine.run();
  return engine.finish();
}

}  // namespace paceline
