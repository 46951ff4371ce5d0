#include "sim/engine/event_engine.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "sim/collective/equal_thread_blocks.h"
#include "sim/engine/alike_steps.h"

namespace paceline {
namespace {

// Slices on their way on a FIFO at once: no more than it holds, or than its latency does.
std::int64_t most_in_flight(const CollectivePlan& plan, const StepTimes& times, std::uint32_t hop) {
  const std::int64_t shortest = std::max<std::int64_t>(1, times.shortest_stay(hop).ps);
  const std::int64_t held = plan.hops[hop].latency.ps / shortest + 2;
  return plan.slots > 0 ? std::min<std::int64_t>(plan.slots + 1, held) : held;
}

std::size_t threads_of(const TrainingJob& job) {
  std::size_t threads = 0;
  for (std::size_t r = 0; r < job.ranks(); ++r) {
    threads += job.roles[job.role_of(r)].threads.size();
  }
  return threads;
}

// Events that can be pending at once: three per thread, the stale ends of slowed kernels (one per launch and
// per end), one per thread block and what is on its way on each FIFO. Beyond kMostReserved (tiny chunks, long
// latencies, thousands of ranks) the timeline grows when it must.
std::size_t most_pending(const TrainingJob& job, const JobLayout& layouts) {
  constexpr std::size_t kMostReserved = 1 << 20;
  std::size_t pending = threads_of(job) * (3 + 2 * layouts.rows.size());
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

// Whether every iteration has the same operations, which depend on nothing but this iteration, nor act on another.
bool operations_alike(const TrainingJob& job) {
  const bool slowed = job.slowdown.slows();
  const auto alike = [slowed](const Op& op) {
    const bool runs_ahead = op.kind == OpKind::collective && (op.queue > 0 || op.after != After::compute);
    return op.kind != OpKind::send && op.kind != OpKind::gate && !(slowed && (runs_ahead || op.stream > 0));
  };
  const auto all_alike = [&](const Program& program) {
    return in_every_iteration(program) && std::ranges::all_of(program.ops, alike);
  };
  return job.roles.size() == 1 && job.roles.front().threads.size() == 1 && all_alike(job.main().warm_up) &&
         all_alike(job.main().steady);
}

// By channel: which thread of a role waits for its messages; kNoIndex: none does, or several do.
std::vector<std::uint32_t> readers_of_channels(const Role& role) {
  std::vector<std::uint32_t> reader;
  std::vector<bool> several;
  for (std::uint32_t t = 0; t < role.threads.size(); ++t) {
    for (const Program* program : {&role.threads[t].warm_up, &role.threads[t].steady}) {
      for (const Op& op : program->ops) {
        if (op.kind != OpKind::gate) {
          continue;
        }
        if (op.index >= reader.size()) {
          reader.resize(op.index + 1, kNoIndex);
          several.resize(op.index + 1);
        }
        several[op.index] = several[op.index] || (reader[op.index] != kNoIndex && reader[op.index] != t);
        reader[op.index] = several[op.index] ? kNoIndex : t;
      }
    }
  }
  return reader;
}

}  // namespace

EventEngine::EventEngine(const TrainingJob& job, const RunSpec& run, const TraceRequest& trace,
                         AlikeSteps alike, CollectiveEnds ends)
    : job_(job),
      run_(run),
      trace_(trace),
      ranks_(static_cast<std::uint32_t>(job.ranks())),
      last_iteration_(static_cast<std::uint32_t>(run.iterations)),
      variability_(job.variability, job.ranks(), run.seed),
      input_jitter_(job.input ? job.input->jitter : Distribution{}),
      own_input_(job.input && job.input->jitter.kind != DistributionKind::none),
      may_repeat_(alike == AlikeSteps::repeated && draws_alike(job) && operations_alike(job) &&
                  !job.negotiation),
      groups_(job),
      layouts_(job),
      timeline_(most_pending(job, layouts_)),
      ahead_(ends == CollectiveEnds::by_times),
      mailboxes_(job),
      outboxes_(job.serving.window.value > 0 ? job.ranks() : 0),
      servers_(job),
      ranks_left_(ranks_),
      slots_(static_cast<std::size_t>(job.host_runs_ahead) + 3),
      previous_rank_end_(ranks_),
      own_before_(ranks_),
      waits_(layouts_.records) {
  seen_collectives_.reserve(layouts_.rows.size());
  plans_.assign(job_.plans.begin(), job_.plans.end());
  graph_list_ = job_.communicator.graphs;
  place_threads();
  meetings_.resize(job_.communicator.graphs.size());
  if (ends == CollectiveEnds::by_times) {
    prepare_meetings();
  }
  if (ahead_ && ranks_ > 1 && !job_.negotiation) {
    graph_list_ = {};
    for (std::size_t g = 0; g < job_.communicator.graphs.size(); ++g) {
      if (meetings_[g]) {
        graph_list_.share(job_.communicator.graphs, g);
      } else {
        graph_list_.push_back(find_equal_channels(job_.communicator.graphs[g]).graph);
      }
    }
  }
  if (ranks_ > 1) {
    graphs_ = lay_out(graph_list_, ranks_);
    for (const CollectivePlan& plan : plans_) {
      step_times_.emplace_back(graph_list_[plan.graph], plan);
      if (times_) {
        times_->add(plan);
      }
    }
    prepare_slices();
  }
  if (!job_.communicator.shared_capacity.empty()) {
    const auto shared = static_cast<std::size_t>(std::ranges::count_if(
        graphs_.fifos, [](const FifoState& fifo) { return fifo.shared != FifoState::kNotShared; }));
    network_.emplace(job_.communicator.shared_capacity, shared + job_.communicator.background.size());
    ended_flows_.reserve(shared);
  }
  traced_ = place_traced(trace_, ranks_);
  std::ranges::generate(slots_, [this] { return empty_slot(); });
  prepare_result();
}

// The first threads of all ranks, then the others.
void EventEngine::place_threads() {
  const auto add = [this](std::uint32_t member, const ThreadLayout& layout) {
    place_.push_back(
        {&layout, member, QueueId(queues_.size()), static_cast<std::uint32_t>(beside_.size()), kNoIndex, {}});
    beside_.resize(beside_.size() + layout.streams_beside);
    for (std::uint32_t q = 0; q < layout.queues; ++q) {
      thread_of_queue_.emplace_back(place_.size() - 1);
      queues_.emplace_back();
    }
  };
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    const std::uint32_t role = job_.role_of(r);
    add(r, layouts_.roles[role].front());
    place_.back().first_span = spans_;
    const Thread& thread = job_.roles[role].threads.front();
    const std::size_t ops = std::max(thread.warm_up.ops.size(), thread.steady.ops.size());
    spans_ += static_cast<std::uint32_t>(ops);
    most_ops_ = std::max(most_ops_, ops);
  }
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    const std::uint32_t role = job_.role_of(r);
    ThreadId last(r);
    for (std::size_t t = 1; t < layouts_.roles[role].size(); ++t) {
      add(r, layouts_.roles[role][t]);
      const ThreadId added(place_.size() - 1);
      place_[last.index()].next_of_member = added;
      last = added;
    }
  }
  thread_.resize(place_.size());
  for (const Role& role : job_.roles) {
    reader_of_channel_.push_back(readers_of_channels(role));
  }
  ranks_of_role_.resize(job_.roles.size());
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    ++ranks_of_role_[job_.role_of(r)];
  }
}

// Of what is decided while the run goes, each graph when it comes.
void EventEngine::prepare_meetings() {
  const bool in_stages = job_.negotiation && job_.negotiation->reduced_by != ReducedBy::one_all_reduce;
  if (ranks_ == 1 || !job_.communicator.shared_capacity.empty() || in_stages || job_.workers > 0) {
    return;
  }
  std::vector<bool> all_meet(meetings_.size(), true);
  for (const CollectivePlan& plan : job_.plans) {
    const bool meet = plan.kind == CollectiveKind::all_reduce || plan.kind == CollectiveKind::all_gather ||
                      plan.kind == CollectiveKind::reduce_scatter;
    all_meet[plan.graph] = all_meet[plan.graph] && meet && plan.family == kWorld && plan.stages.empty();
  }
  for (std::size_t g = 0; g < meetings_.size(); ++g) {
    if (all_meet[g]) {
      meetings_[g] = empty_meeting();
    }
  }
  times_.emplace(ranks_, graph_list_);
  meeting_end_.resize(ranks_);
}

EventEngine::Meeting EventEngine::empty_meeting() const {
  return {0, std::vector<SimTime>(ranks_), std::vector<QueueId>(ranks_), std::vector<SimTime>(ranks_)};
}

void EventEngine::prepare_result() {
  const std::size_t collectives = job_.main().steady.collectives.size();
  result_.engine = EngineKind::event;
  result_.breakdown.resize(ranks_);
  result_.blame.resize(ranks_);
  result_.timing.resize(collectives);
  result_.waits.resize(collectives);
  result_.waited_for.resize(ranks_);
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    result_.as_late_as.emplace_back(r);
  }
  result_.own_ends.resize(own_iterations() ? ranks_ : 0);
  result_.iteration_end.reserve(last_iteration_ + 1);
  result_.last_to_end.reserve(last_iteration_ + 1);
  result_.last_to_launch.reserve(std::size_t{last_iteration_} * layouts_.steady_records);
  result_.rank_steps.resize(std::size_t{std::min(trace_.rank_steps, last_iteration_)} * ranks_);
}

// Switches wait for nobody's launch: each is in its graph's first collective from the beginning.
void EventEngine::start_switches(SimTime now) {
  if (job_.negotiation) {  // nobody knows yet what comes
    return;
  }
  for (const ThreadBlockId each : graphs_.switches) {
    if (times_ && meetings_[graphs_[each].graph]) {
      continue;
    }
    graphs_[each].use = {0, ~std::uint32_t{0}};
    start_switch(each, now);
  }
}

// Background traffic, what queues and threads do first, and all that begins with it.
void EventEngine::start() {
  constexpr OpPlace kStart{0, ~std::uint32_t{0}};  // before the first
  const SimTime now;
  for (std::size_t i = 0; network_ && i < job_.communicator.background.size(); ++i) {
    const SharedFlow& flow = job_.communicator.background[i];
    network_->start(flow.links, flow.rate, std::nullopt, 0, now);
  }
  start_switches(now);
  start_negotiating(now);
  for (std::uint32_t q = 0; q < queues_.size(); ++q) {
    const ThreadId thread = thread_of_queue_[q];
    queues_[q].collective = following(thread, kStart, q - place_[thread.index()].first_queue.value);
  }
  for (std::uint32_t t = 0; t < thread_.size(); ++t) {
    const ThreadId thread(t);
    thread_[t].collective = job_.workers > 0 ? following(thread, kStart) : OpPlace{};
    for (std::uint32_t stream = 1; stream <= streams_beside(thread); ++stream) {
      skip_to_kernel(thread, stream);
    }
    if (is_rank(thread)) {
      thread_[t].factor = variability_.rank_factor(Rank(t), 0);
      advance_loader(thread, now);
    }
    advance_host(thread, now);
  }
  choose_kernels(now);
  if (network_) {
    network_->share(now);
  }
}

// When something happens next: an event, or the end of a flow.
SimTime EventEngine::next_instant(SimTime flow_end) const {
  const SimTime next = timeline_.empty() ? flow_end : std::min(flow_end, timeline_.next());
  if (next == kNever) {
    throw InputError("expected a job that comes to its end, found one in which all wait for each other",
                     "/training");
  }
  if (next > kLongestRun) {
    throw InputError("expected a run within " + std::to_string(kLongestRunDays) +
                         " days, half of the clock's range, found one that went on beyond it",
                     "/run/iterations");
  }
  return next;
}

void EventEngine::end_flows(SimTime now) {
  ended_flows_.clear();
  network_->take_ended(now, ended_flows_);
  for (const std::uint64_t tag : ended_flows_) {
    ++result_.events;
    if (tag < kMessage) {
      end_flow(FifoId(tag), now);
    } else {
      end_sending(MessageId(tag), now);
    }
  }
}

// Of the iterations that have closed at this instant; those that are like the last one close, too.
void EventEngine::clear_closed(SimTime now) {
  if (result_.iteration_end.size() > cleared_) {
    const auto last_closed = static_cast<std::uint32_t>(result_.iteration_end.size() - 1);
    repeat_if_alike(last_closed, now);
    for (; cleared_ <= last_closed; ++cleared_) {
      clear_slot(cleared_);
    }
  }
}

void EventEngine::run(const StepProgress& progress) {
  const std::size_t all = std::size_t{last_iteration_} + 1;
  std::size_t told = 0;
  start();
  while (own_iterations() ? ranks_left_ > 0 : result_.iteration_end.size() <= last_iteration_) {
    const SimTime flow_end = network_ ? network_->next().value_or(kNever) : kNever;
    const SimTime now = next_instant(flow_end);
    while (!timeline_.empty() && timeline_.next() == now) {
      ++result_.events;
      handle(timeline_.pop(), now);
    }
    if (network_) {
      if (flow_end == now) {
        end_flows(now);
      }
      network_->share(now);  // once per instant, after everything that starts in it
    }
    choose_kernels(now);
    clear_closed(now);
    const std::size_t ended =
        own_iterations() ? result_.own_ends.front().size() : result_.iteration_end.size();
    if (progress && ended > told && ended <= all) {
      told = ended;
      progress(told, all);
    }
  }
}

void EventEngine::handle(const Event& event, SimTime now) {
  const std::uint32_t subject = event.subject;
  switch (event.kind) {
    case EventKind::move_end:
      end_move(ThreadBlockId(subject), now);
      break;
    case EventKind::arrival:
      arrive(FifoId(subject), now);
      break;
    case EventKind::transfer:
      begin_transfer(FifoId(subject), now);
      break;
    case EventKind::collective_start:
      start_thread_blocks(QueueId(subject), now);
      break;
    case EventKind::collective_end:
      end_collective(QueueId(subject), now);
      break;
    case EventKind::host_done:
      end_issue(ThreadId(subject), now);
      break;
    case EventKind::kernel_end:
      if (event.sequence == thread_[subject].kernel_event) {
        end_kernel(ThreadId(subject), now);
      }
      break;
    case EventKind::batch_ready:
      thread_[subject].loader_busy = false;
      ++thread_[subject].produced;
      advance_loader(ThreadId(subject), now);
      advance_host(ThreadId(subject), now);
      break;
    case EventKind::sent:
      end_sending(MessageId(subject), now);
      break;
    case EventKind::message:
      deliver(MessageId(subject), now);
      break;
    case EventKind::served:
      end_serving(subject, now);
      break;
    case EventKind::background:
      run_background(ThreadId(subject), now);
      break;
    case EventKind::agreed:
      agree(now);
      break;
  }
}

// Where each rank counts iterations of its own they are accounted for when it ends them. Steps that are asked for
// count.
void EventEngine::end_own_iteration(ThreadId rank, std::uint32_t iteration, SimTime now) {
  ThreadState& state = thread_[rank.index()];
  std::vector<SimTime>& ends = result_.own_ends[rank.index()];
  const Program& done = program(rank, iteration);
  const std::span<OpSpan> spans(&slot(iteration).spans[place_[rank.index()].first_span], done.ops.size());
  if (iteration > 0 && iteration <= last_iteration_) {
    Breakdown& sum = result_.breakdown[rank.index()];
    account({done, iteration, spans, {}, {}, {}, ends.back(), ends.back(), ends.front()}, sum);
    sum.exposed_communication = sum.exposed_communication - state.server_wait;
    sum.server_wait += state.server_wait;
    keep_rank_step(rank.value, iteration);
  }
  keep_trace(rank, iteration, spans);
  Fingerprint facts;
  facts.add(subject(Fact::iteration_end, iteration), rank.value, now);
  result_.fingerprint += facts.value();
  ends.push_back(now);
  state.server_wait = {};
  std::ranges::fill(spans, OpSpan{});
  ranks_left_ -= iteration == last_iteration_ ? 1 : 0;
}

void EventEngine::keep_trace(ThreadId rank, std::uint32_t iteration, std::span<const OpSpan> spans) {
  if (trace_.wants(iteration) && !traced_.empty() && traced_[rank.index()] != kNotTraced) {
    const std::span<const SimTime> issued(&slot(iteration).issued[traced_[rank.index()] * most_ops_],
                                          spans.size());
    result_.trace.push_back(
        {iteration, Rank(rank.value), {spans.begin(), spans.end()}, {issued.begin(), issued.end()}});
  }
}

// How many collectives all ranks together launch.
std::uint64_t EventEngine::collectives_in(std::uint32_t iteration) const {
  if (job_.negotiation) {
    return slots_[iteration % slots_.size()].decided.size() * ranks_;
  }
  std::uint64_t all = 0;
  for (std::size_t role = 0; role < layouts_.roles.size(); ++role) {
    const ProgramLayout& of = layouts_.roles[role].front().of(iteration);
    const auto launched = std::ranges::count_if(of.collectives, [&](const CollectiveLayout& collective) {
      return of.program->ops[collective.op].runs_in(iteration);
    });
    all += static_cast<std::uint64_t>(launched) * ranks_of_role_[role];
  }
  return all;
}

// In order; an iteration is complete when all ranks have ended it and all its collectives.
void EventEngine::close_complete_iterations() {
  for (auto next = static_cast<std::uint32_t>(result_.iteration_end.size()); next <= last_iteration_;
       ++next) {
    const IterationSlot& open = slot(next);
    if (open.ranks_done < ranks_ || open.collectives_ended < collectives_in(next)) {
      return;
    }
    close_iteration(next);
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
  if (iteration > 0) {
    close_collectives(iteration, began);
  }
  PicosecondSum finished = 0;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    const ThreadId rank(r);
    const Program& done = program(rank, iteration);
    const std::span<const OpSpan> spans(&closed.spans[place_[r].first_span], done.ops.size());
    if (iteration > 0) {
      see_collectives(rank, iteration);
      finished += account({done, iteration, spans, seen_collectives_, own_before_[r],
                           own_before_[result_.last_to_end.back().index()], previous_rank_end_[r], began,
                           result_.iteration_end[0]},
                          result_.breakdown[r])
                      .ps;
    }
    keep_trace(rank, iteration, spans);
  }
  if (iteration > 0) {
    charge_waits(iteration);
    charge_end(finished);
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      keep_rank_step(r, iteration);
    }
  }
  result_.last_to_end.emplace_back(last - closed.rank_end.begin());
  previous_rank_end_ = closed.rank_end;
  own_before_ = closed.own_at_end;
  result_.fingerprint += closed.facts.value();
  for (std::size_t k = 0; k < closed.decided.size(); ++k) {
    const CollectiveRecord& met =
        closed.collectives[layouts_.main().of(iteration).collectives[k].first_record];
    closed.decided[k].start = met.launch.last.at;
    closed.decided[k].end = met.end;
  }
  if (job_.negotiation) {
    result_.decisions.iterations.push_back(closed.decided);
  }
}

// What a rank has done by the end of a steady iteration.
void EventEngine::keep_rank_step(std::uint32_t rank, std::uint32_t iteration) {
  if (iteration <= trace_.rank_steps) {
    result_.rank_steps[std::size_t{iteration - 1} * ranks_ + rank] =
        done_by(result_.breakdown[rank], result_.waited_for[rank]);
  }
}

// What ranks met of the collectives of a steady iteration, and who came last.
void EventEngine::close_collectives(std::uint32_t iteration, SimTime began) {
  const IterationSlot& closed = slot(iteration);
  for (const CollectiveRow& row : layouts_.rows) {
    if (!row.steady) {
      continue;
    }
    for (std::uint32_t g = 0; g < groups_.count(row.family); ++g) {
      const CollectiveRecord& record = closed.collectives[row.first_record + g];
      const auto& [last, second] = record.launch;
      result_.last_to_launch.emplace_back(last.rank);
      if (last.at >= SimTime{} && groups_.size(row.family, g) > 1) {
        result_.blame[last.rank].total += straggling(last.at - second.at, second.own, last.own);
      }
    }
    const bool launched = closed.collectives[row.first_record].launch.last.at >= SimTime{};
    if (row.of_main != kNoIndex && launched) {
      const auto latest = [&](const auto& time) {
        SimTime found = time(closed.collectives[row.first_record]);
        for (std::uint32_t g = 1; g < groups_.count(row.family); ++g) {
          found = std::max(found, time(closed.collectives[row.first_record + g]));
        }
        return found - began;
      };
      CollectiveTiming& timing = result_.timing[row.of_main];
      timing.ready += latest([](const CollectiveRecord& record) { return record.ready; });
      timing.launch += latest([](const CollectiveRecord& record) { return record.launch.last.at; });
      timing.end += latest([](const CollectiveRecord& record) { return record.end; });
    }
  }
}

// The collectives of a steady iteration as a rank met them.
void EventEngine::see_collectives(ThreadId rank, std::uint32_t iteration) {
  const IterationSlot& closed = slot(iteration);
  const std::vector<CollectiveLayout>& collectives = layout(rank, iteration).collectives;
  seen_collectives_.resize(collectives.size());
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const std::uint32_t at = collectives[k].first_record + groups_.group(collectives[k].family, rank.value);
    const LastLaunch::Launch& last = closed.collectives[at].launch.last;
    seen_collectives_[k] = {last.at, closed.own[collectives[k].row * ranks_ + rank.value], last.own,
                            &waits_[at]};
  }
}

EventEngine::IterationSlot EventEngine::empty_slot() const {
  return {std::vector<OpSpan>(spans_),
          std::vector<CollectiveRecord>(layouts_.records),
          std::vector<SimTime>(layouts_.rows.size() * ranks_),
          std::vector<SimTime>(ranks_),
          std::vector<SimTime>(ranks_),
          0,
          0,
          false,
          std::vector<SimTime>(most_ops_ * trace_.ranks.size()),
          {},
          {},
          std::vector<SimTime>(job_.negotiation ? job_.negotiation->tensors.size() : 0),
          0};
}

// A rank's host comes to this iteration. Where nothing keeps ranks together there may be any number of open ones.
void EventEngine::open_iteration(std::uint32_t iteration) {
  while (iteration - cleared_ >= slots_.size()) {
    const auto before = static_cast<std::uint32_t>(slots_.size());
    std::vector<IterationSlot> more(2 * slots_.size());
    for (std::uint32_t i = cleared_; i < cleared_ + more.size(); ++i) {
      more[i % more.size()] = i < cleared_ + before ? std::move(slot(i)) : empty_slot();
    }
    slots_ = std::move(more);
  }
}

// Makes room for the iteration that comes to this place.
void EventEngine::clear_slot(std::uint32_t iteration) {
  auto& [spans, collectives, own, rank_end, own_at_end, ranks_done, collectives_ended, launched, issued,
         facts, decided, queued, tensors_decided] = slot(iteration);
  std::ranges::fill(spans, OpSpan{});
  std::ranges::fill(collectives, CollectiveRecord{});
  for (std::vector<SimTime>* times : {&own, &rank_end, &own_at_end, &issued, &queued}) {
    std::ranges::fill(*times, SimTime{});
  }
  ranks_done = 0;
  collectives_ended = 0;
  launched = false;
  facts = {};
  decided.clear();
  tensors_decided = 0;
}

// Who is charged for the waits for the collectives of a steady iteration: the last to launch.
void EventEngine::charge_waits(std::uint32_t iteration) {
  const IterationSlot& closed = slot(iteration);
  for (std::uint32_t row = 0; row < layouts_.rows.size(); ++row) {
    const auto& [family, first_record, of_main, steady, first_steady] = layouts_.rows[row];
    const std::span<const SimTime> own(&closed.own[std::size_t{row} * ranks_], ranks_);
    for (std::uint32_t g = 0; g < groups_.count(family); ++g) {
      const CollectiveWaits waited = std::exchange(waits_[first_record + g], {});
      if (of_main != kNoIndex) {
        result_.waits[of_main].straggler += waited.straggler;
        result_.waits[of_main].exposed += waited.exposed;
      }
      if (waited.straggler > 0) {
        const std::uint32_t last = closed.collectives[first_record + g].launch.last.rank;
        result_.waited_for[last] += waited.straggler;
        ++result_.blame[last].count;
        groups_.for_each(family, g,
                         [&](std::uint32_t r) { note_if_as_late(r, own, last, result_.as_late_as); });
      }
    }
  }
}

// Who is charged for the waits at the beginning of an iteration: the last to end the one before.
void EventEngine::charge_end(PicosecondSum waited) {
  const std::uint32_t last = result_.last_to_end.back().value;
  result_.waited_for[last] += waited;
  if (waited > 0) {
    note_as_late(own_before_, last, result_.as_late_as);
  }
}

Result EventEngine::finish() {
  if (own_iterations()) {
    return finish_own();
  }
  const SimTime last = result_.iteration_end.back(), total = last - result_.iteration_end.front();
  const SimTime own_of_last = own_before_[result_.last_to_end.back().index()];
  PicosecondSum waited = 0;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    Breakdown& b = result_.breakdown[r];
    const SimTime straggler =
        straggling(overlap(previous_rank_end_[r], last, result_.iteration_end.front(), kNever),
                   own_before_[r], own_of_last);
    b.straggler_wait += straggler;
    waited += straggler.ps;
    b.other = total - (b.compute + b.exposed_communication + b.straggler_wait + b.input_wait);
  }
  charge_end(waited);
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    keep_rank_step(r, last_iteration_);
  }
  take_differences(result_.rank_steps, ranks_);
  if (job_.negotiation) {
    result_.decisions.plans.assign(plans_.begin(), plans_.end());
    result_.decisions.graphs = graph_list_;
  }
  return std::move(result_);
}

// An iteration ends with the latest rank's of this number.
Result EventEngine::finish_own() {
  for (std::uint32_t i = 0; i <= last_iteration_; ++i) {
    const auto latest = std::ranges::max_element(result_.own_ends, {},
                                                 [i](const std::vector<SimTime>& ends) { return ends[i]; });
    result_.iteration_end.push_back((*latest)[i]);
    result_.last_to_end.emplace_back(latest - result_.own_ends.begin());
  }
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    Breakdown& b = result_.breakdown[r];
    const SimTime total = result_.own_ends[r][last_iteration_] - result_.own_ends[r].front();
    b.other = total - (b.compute + b.exposed_communication + b.server_wait + b.input_wait);
  }
  std::ranges::stable_sort(result_.trace, {}, &TracedIteration::rank);
  std::ranges::stable_sort(result_.trace, {}, &TracedIteration::iteration);
  result_.served = servers_.served();
  take_differences(result_.rank_steps, ranks_);
  return std::move(result_);
}

Result run_event_engine(const TrainingJob& job, const RunSpec& run, const TraceRequest& trace,
                        const StepProgress& progress) {
  EventEngine engine(job, run, trace);
  engine.run(progress);
  return engine.finish();
}

}  // namespace paceline
