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

// Events that can be pending at once: three per rank, the stale ends of slowed kernels (one per launch and
// per end), and per hop one occupancy and the chunks that its latency holds. Beyond kMostReserved (tiny
// chunks, long latencies, thousands of ranks) the timeline grows when it must.
std::size_t most_pending(const TrainingJob& job) {
  const Communicator& wires = job.communicator;
  const std::size_t collectives = std::max(job.warm_up.collectives.size(), job.steady.collectives.size());
  std::size_t pending = job.ranks() * (3 + 2 * collectives);
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
  constexpr std::size_t kMostReserved = 1 << 24;
  return std::min(pending, kMostReserved);
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
