#include "sim/engine/event_engine.h"

#include <algorithm>
#include <cassert>

#include "sim/engine/account.h"

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

// Slices on their way on a FIFO at once: no more than it holds, or than its latency does.
std::int64_t most_in_flight(const CollectivePlan& plan, const StepTimes& times, std::uint32_t hop) {
  const std::int64_t shortest = std::max<std::int64_t>(1, times.shortest_stay(hop).ps);
  const std::int64_t held = plan.hops[hop].latency.ps / shortest + 2;
  return plan.slots > 0 ? std::min<std::int64_t>(plan.slots + 1, held) : held;
}

// Events that can be pending at once: three per rank, the stale ends of slowed kernels (one per launch and
// per end), one per thread block and what is on its way on each FIFO. Beyond kMostReserved (tiny chunks, long
// latencies, thousands of ranks) the timeline grows when it must.
std::size_t most_pending(const TrainingJob& job) {
  const std::size_t collectives = std::max(job.warm_up.collectives.size(), job.steady.collectives.size());
  constexpr std::size_t kMostReserved = 1 << 24;
  std::size_t pending = job.ranks() * (3 + 2 * collectives);
  for (std::size_t g = 0; g < job.communicator.graphs.size(); ++g) {
    const CollectiveGraph& graph = job.communicator.graphs[g];
    std::vector<std::int64_t> in_flight(graph.hops.size(), 1);
    for (const CollectivePlan& plan : job.plans) {
      if (plan.graph != g) {
        continue;
      }
      const StepTimes times(graph, plan);
      for (std::uint32_t hop = 0; hop < in_flight.size(); ++hop) {
        in_flight[hop] = std::max(in_flight[hop], most_in_flight(plan, times, hop));
      }
    }
    pending += graph.thread_blocks.size();
    for (const Fifo& fifo : graph.fifos) {
      pending += static_cast<std::size_t>(in_flight[fifo.hop]);
    }
  }
  return std::min(pending, kMostReserved);
}

// Whether no draw differs from one iteration to the next.
bool draws_alike(const TrainingJob& job) {
  return job.variability.per_operation.kind == DistributionKind::none &&
         job.variability.per_iteration.kind == DistributionKind::none && job.variability.transient.empty() &&
         (!job.input || job.input->jitter.kind == DistributionKind::none);
}

}  // namespace

EventEngine::EventEngine(const TrainingJob& job, const RunSpec& run, const TraceRequest& trace,
                         AlikeSteps alike)
    : job_(job),
      run_(run),
      trace_(trace),
      ranks_(static_cast<std::uint32_t>(job.ranks())),
      last_iteration_(static_cast<std::uint32_t>(run.iterations)),
      variability_(job.variability, job.ranks(), run.seed),
      input_jitter_(job.input ? job.input->jitter : Distribution{}),
      own_input_(job.input && job.input->jitter.kind != DistributionKind::none),
      may_repeat_(alike == AlikeSteps::repeated && draws_alike(job)),
      timeline_(most_pending(job)),
      rank_(ranks_),
      slots_(static_cast<std::size_t>(job.host_runs_ahead) + 3),
      previous_rank_end_(ranks_),
      own_before_(ranks_),
      last_stream_op_{last_stream_op(job.warm_up), last_stream_op(job.steady)} {
  for (const Program* each : {&job.warm_up, &job.steady}) {
    collective_op_.push_back(collective_ops(*each));
  }
  if (ranks_ > 1) {
    lay_out_graphs();
  }
  while (!trace_.ranks.empty() && trace_.ranks.back().index() >= ranks_) {
    trace_.ranks.pop_back();
  }
  if (!trace_.ranks.empty() && trace_.iterations > 0) {
    traced_.assign(ranks_, kNotTraced);
    for (std::uint32_t i = 0; i < trace_.ranks.size(); ++i) {
      traced_[trace_.ranks[i].index()] = i;
    }
  }
  std::ranges::generate(slots_, [this] { return empty_slot(); });
  const std::size_t collectives = std::max(job.warm_up.collectives.size(), job.steady.collectives.size());
  for (std::vector<SimTime>* times : {&last_launch_, &own_, &own_of_last_}) {
    times->resize(collectives);
  }
  waits_.collectives.reserve(collectives);
  result_.engine = EngineKind::event;
  result_.breakdown.resize(ranks_);
  result_.blame.resize(ranks_);
  result_.timing.resize(job.steady.collectives.size());
  result_.waits.resize(job.steady.collectives.size());
  result_.waited_for.resize(ranks_);
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    result_.as_late_as.emplace_back(r);
  }
  result_.iteration_end.reserve(last_iteration_ + 1);
  result_.last_to_end.reserve(last_iteration_ + 1);
  result_.last_to_launch.reserve(last_iteration_ * job.steady.collectives.size());
}

void EventEngine::lay_out_graphs() {
  std::size_t shared = 0;
  for (std::uint32_t g = 0; g < job_.communicator.graphs.size(); ++g) {
    const CollectiveGraph& graph = job_.communicator.graphs[g];
    const auto first_thread_block = static_cast<std::uint32_t>(thread_blocks_.size());
    const auto first_fifo = static_cast<std::uint32_t>(fifos_.size());
    const auto first_in = static_cast<std::uint32_t>(in_.size()),
               first_out = static_cast<std::uint32_t>(out_.size());
    GraphState& state = graphs_.emplace_back();
    std::vector<std::vector<std::uint32_t>> of_rank(ranks_);
    for (const ThreadBlock& w : graph.thread_blocks) {
      if (w.rank != ThreadBlock::kSwitch) {
        of_rank[w.rank].push_back(static_cast<std::uint32_t>(thread_blocks_.size()));
      }
      thread_blocks_.push_back(
          {{}, w.rank, w.script, 0, g, first_in + w.first_in, first_out + w.first_out, 0, false, {}});
    }
    for (const std::vector<std::uint32_t>& thread_blocks : of_rank) {
      state.first_of_rank.push_back(static_cast<std::uint32_t>(state.of_rank.size()));
      state.of_rank.insert(state.of_rank.end(), thread_blocks.begin(), thread_blocks.end());
    }
    state.first_of_rank.push_back(static_cast<std::uint32_t>(state.of_rank.size()));
    for (const Fifo& fifo : graph.fifos) {
      fifos_.push_back({first_thread_block + fifo.from,
                        first_thread_block + fifo.to,
                        fifo.hop,
                        kNotShared,
                        0,
                        0,
                        0,
                        0,
                        {},
                        {},
                        {}});
    }
    for (std::uint32_t i = 0; i < graph.shared.size(); ++i) {
      fifos_[first_fifo + graph.shared[i].fifo].shared = i;
    }
    shared += graph.shared.size();
    for (const std::uint32_t fifo : graph.in) {
      in_.push_back(first_fifo + fifo);
    }
    for (const std::uint32_t fifo : graph.out) {
      out_.push_back(first_fifo + fifo);
    }
  }
  ThreadBlockState end;
  end.first_in = static_cast<std::uint32_t>(in_.size());
  end.first_out = static_cast<std::uint32_t>(out_.size());
  thread_blocks_.push_back(end);
  for (const CollectivePlan& plan : job_.plans) {
    step_times_.emplace_back(job_.communicator.graphs[plan.graph], plan);
  }
  if (!job_.communicator.shared_capacity.empty()) {
    network_.emplace(job_.communicator.shared_capacity, shared + job_.communicator.background.size());
    ended_flows_.reserve(shared);
  }
}

// Switches wait for nobody's launch: each is in its graph's first collective from the beginning.
void EventEngine::start_switches(SimTime now) {
  for (std::uint32_t w = 0; w + 1 < thread_blocks_.size(); ++w) {
    if (thread_blocks_[w].rank == ThreadBlock::kSwitch) {
      thread_blocks_[w].use = {0, ~std::uint32_t{0}};
      finish_thread_block(w, now);
    }
  }
}

void EventEngine::run() {
  SimTime now;
  for (std::size_t i = 0; network_ && i < job_.communicator.background.size(); ++i) {
    const SharedFlow& flow = job_.communicator.background[i];
    network_->start(flow.links, flow.rate, std::nullopt, 0, now);
  }
  start_switches(now);
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    rank_[r].factor = variability_.rank_factor(Rank(r), 0);
    advance_loader(r, now);
    advance_host(r, now);
  }
  if (network_) {
    network_->share(now);
  }
  while (result_.iteration_end.size() <= last_iteration_) {
    const SimTime flow_end = network_ ? network_->next().value_or(kNever) : kNever;
    now = timeline_.empty() ? flow_end : std::min(flow_end, timeline_.next());
    assert(now < kNever);
    while (!timeline_.empty() && timeline_.next() == now) {
      ++result_.events;
      handle(timeline_.pop(), now);
    }
    if (network_) {
      if (flow_end == now) {
        ended_flows_.clear();
        network_->take_ended(now, ended_flows_);
        for (const std::uint64_t fifo : ended_flows_) {
          ++result_.events;
          end_flow(static_cast<std::uint32_t>(fifo), now);
        }
      }
      network_->share(now);  // once per instant, after everything that starts in it
    }
    if (result_.iteration_end.size() > cleared_) {
      const auto last_closed = static_cast<std::uint32_t>(result_.iteration_end.size() - 1);
      repeat_if_alike(last_closed, now);
      for (; cleared_ <= last_closed; ++cleared_) {
        clear_slot(cleared_);
      }
    }
  }
}

void EventEngine::handle(const Event& event, SimTime now) {
  const std::uint32_t subject = event.subject;
  switch (event.kind) {
    case EventKind::move_end:
      end_move(subject, now);
      break;
    case EventKind::arrival:
      arrive(subject, now);
      break;
    case EventKind::collective_start:
      start_thread_blocks(subject, now);
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
  auto last = closed.rank_end.begin();  // of equally late ones as LastLaunch
  for (std::uint32_t r = 1; r < ranks_; ++r) {
    const auto at = static_cast<std::uint32_t>(last - closed.rank_end.begin());
    if (closed.rank_end[r] > *last ||
        (closed.rank_end[r] == *last && closed.own_at_end[r] > closed.own_at_end[at])) {
      last = closed.rank_end.begin() + r;
    }
  }
  result_.iteration_end.push_back(*last);
  const Program& done = program(iteration);
  for (std::size_t k = 0; k < done.collectives.size(); ++k) {
    const CollectiveRecord& record = closed.collectives[k];
    last_launch_[k] = record.launch.last.at;
    own_of_last_[k] = record.launch.last.own;
    if (iteration > 0) {
      result_.timing[k].ready += record.ready - began;
      result_.timing[k].launch += record.launch.last.at - began;
      result_.timing[k].end += record.end - began;
      if (ranks_ > 1) {
        const auto& [last_one, second] = record.launch;
        result_.blame[last_one.rank].total += straggling(last_one.at - second.at, second.own, last_one.own);
      }
      result_.last_to_launch.emplace_back(record.launch.last.rank);
    }
  }
  waits_.collectives.assign(done.collectives.size(), {});
  waits_.finished = 0;
  auto traced = trace_.ranks.begin();
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    const std::span<const OpSpan> spans(&closed.spans[r * done.ops.size()], done.ops.size());
    if (iteration > 0) {
      for (std::size_t k = 0; k < done.collectives.size(); ++k) {
        own_[k] = closed.collectives[k].own[r];
      }
      account({done, spans, last_launch_, own_, own_of_last_, own_before_[r],
               own_before_[result_.last_to_end.back().index()], previous_rank_end_[r], closed.rank_end[r],
               began, result_.iteration_end[0]},
              result_.breakdown[r], waits_);
    }
    if (trace_.wants(iteration) && traced != trace_.ranks.end() && *traced == Rank(r)) {
      const std::span<const SimTime> issued(&closed.issued[traced_[r] * done.ops.size()], done.ops.size());
      result_.trace.push_back(
          {iteration, Rank(r), {spans.begin(), spans.end()}, {issued.begin(), issued.end()}});
      ++traced;
    }
  }
  if (iteration > 0) {
    charge_waits(iteration);
  }
  result_.last_to_end.emplace_back(last - closed.rank_end.begin());
  previous_rank_end_ = closed.rank_end;
  own_before_ = closed.own_at_end;
  result_.fingerprint += closed.facts.value();
}

EventEngine::IterationSlot EventEngine::empty_slot() const {
  const std::size_t ops = std::max(job_.warm_up.ops.size(), job_.steady.ops.size());
  IterationSlot slot{std::vector<OpSpan>(ops * ranks_),
                     std::vector<CollectiveRecord>(
                         std::max(job_.warm_up.collectives.size(), job_.steady.collectives.size())),
                     std::vector<SimTime>(ranks_),
                     std::vector<SimTime>(ranks_),
                     0,
                     std::vector<SimTime>(ops * trace_.ranks.size()),
                     {}};
  for (CollectiveRecord& record : slot.collectives) {
    record.own.resize(ranks_);
  }
  return slot;
}

// A rank's host comes to this iteration. Where nothing keeps ranks together there may be any number of open ones.
void EventEngine::open_iteration(std::uint32_t iteration) {
  if (iteration - cleared_ < slots_.size()) {
    return;
  }
  std::vector<IterationSlot> more(2 * slots_.size());
  for (std::uint32_t i = cleared_; i < cleared_ + more.size(); ++i) {
    more[i % more.size()] = i < iteration ? std::move(slot(i)) : empty_slot();
  }
  slots_ = std::move(more);
}

// Makes room for the iteration that comes to this place.
void EventEngine::clear_slot(std::uint32_t iteration) {
  auto& [spans, collectives, rank_end, own_at_end, ranks_done, issued, facts] = slot(iteration);
  std::ranges::fill(spans, OpSpan{});
  for (CollectiveRecord& record : collectives) {
    record.launch = {};
    record.ready = record.end = {};
    std::ranges::fill(record.own, SimTime{});
  }
  for (std::vector<SimTime>* times : {&rank_end, &own_at_end, &issued}) {
    std::ranges::fill(*times, SimTime{});
  }
  ranks_done = 0;
  facts = {};
}

// Who is charged for the waits of a steady iteration: the last to launch, and to end the iteration before.
void EventEngine::charge_waits(std::uint32_t iteration) {
  for (std::size_t k = 0; k < waits_.collectives.size(); ++k) {
    result_.waits[k].straggler += waits_.collectives[k].straggler;
    result_.waits[k].exposed += waits_.collectives[k].exposed;
    if (waits_.collectives[k].straggler > 0) {
      const CollectiveRecord& record = slot(iteration).collectives[k];
      result_.waited_for[record.launch.last.rank] += waits_.collectives[k].straggler;
      ++result_.blame[record.launch.last.rank].count;
      note_as_late(record.own, record.launch.last.rank, result_.as_late_as);
    }
  }
  charge_end(waits_.finished);
}

void EventEngine::charge_end(PicosecondSum waited) {
  const std::uint32_t last = result_.last_to_end.back().value;
  result_.waited_for[last] += waited;
  if (waited > 0) {
    note_as_late(own_before_, last, result_.as_late_as);
  }
}

Result EventEngine::finish() {
  const SimTime last = result_.iteration_end.back(), total = last - result_.iteration_end.front();
  const SimTime own_of_last = own_before_[result_.last_to_end.back().index()];
  PicosecondSum waited = 0;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    Breakdown& b = result_.breakdown[r];
    const SimTime straggler = straggling(last - previous_rank_end_[r], own_before_[r], own_of_last);
    b.straggler_wait += straggler;
    waited += straggler.ps;
    b.other = total - (b.compute + b.exposed_communication + b.straggler_wait + b.input_wait);
  }
  charge_end(waited);
  for (const IterationSlot& open : slots_) {  // what ended after its iteration
    result_.fingerprint += open.facts.value();
  }
  return std::move(result_);
}

Result run_event_engine(const TrainingJob& job, const RunSpec& run, const TraceRequest& trace) {
  EventEngine engine(job, run, trace);
  engine.run();
  return engine.finish();
}

}  // namespace paceline
