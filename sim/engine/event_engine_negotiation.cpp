// The event engine's background threads, which negotiate what is reduced together (Negotiation in sim/job.h).
#include <algorithm>
#include <functional>

#include "sim/engine/event_engine.h"

namespace paceline {

void EventEngine::start_negotiating(SimTime now) {
  if (!job_.negotiation) {
    return;
  }
  const Negotiation& rules = *job_.negotiation;
  planner_ = *rules.planner;
  if (rules.hosts) {
    host_planner_ = *rules.hosts;
  }
  queued_before_op_.assign(most_ops_ + 1, 0);
  for (std::size_t op = 0, tensor = 0; op <= most_ops_; ++op) {
    for (; tensor < rules.tensors.size() && rules.tensors[tensor].after_op < op; ++tensor) {
    }
    queued_before_op_[op] = static_cast<std::uint32_t>(tensor);
  }
  background_.resize(ranks_);
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    timeline_.push(now, EventKind::background, r);
  }
}

// The rank's background thread has slept, or issued a collective, or what is left of one.
void EventEngine::run_background(ThreadId rank, SimTime now) {
  Background& thread = background_[rank.index()];
  if (thread.does == Background::Does::issue_rest) {
    thread.does = Background::Does::awake;
    begin_stage(queue_of(rank, 0), now);
    advance_background(rank, now);
    return;
  }
  if (thread.does == Background::Does::issue) {
    const bool on_hosts = job_.negotiation->reduced_by == ReducedBy::stages_on_hosts;
    thread.does = on_hosts ? Background::Does::reduce : Background::Does::awake;
    ++thread.next.op;
    skip_nothing(thread.next);
    launch_next(queue_of(rank, 0), now);
    advance_background(rank, now);
    return;
  }
  thread.does = Background::Does::agree;
  thread.began = now;
  thread.queued = queued_by(rank);
  if (++asked_ == ranks_) {
    asked_ = 0;
    const Negotiation& rules = *job_.negotiation;
    const bool known = decided_ >= rules.tensors.size();
    timeline_.push(now + (known ? rules.cost : rules.first_cost), EventKind::agreed, 0);
  }
}

// All background threads know what every rank has queued.
void EventEngine::agree(SimTime now) {
  const std::uint64_t everywhere = std::ranges::min(background_, {}, &Background::queued).queued;
  const std::uint64_t tensors = job_.negotiation->tensors.size();
  std::vector<std::uint32_t> finished;
  while (decided_ < everywhere) {
    const auto iteration = static_cast<std::uint32_t>(decided_ / tensors);
    const std::uint64_t first = decided_ % tensors,
                        last = std::min(tensors, everywhere - iteration * tensors);
    decide(iteration, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last), now);
    decided_ += last - first;
    if (last == tensors) {
      finished.push_back(iteration);
    }
  }
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    const ThreadId rank(r);
    background_[r].does = Background::Does::awake;
    skip_nothing(background_[r].next);
    advance_background(rank, now);
  }
  for (std::uint32_t r = 0; r < ranks_ && !finished.empty(); ++r) {  // waits for what is nothing are over
    QueueState& queue = queues_[queue_of(ThreadId(r), 0).index()];
    if (!queue.runs) {
      skip_nothing(queue.collective);
    }
    advance_stream(ThreadId(r), now);
    advance_host(ThreadId(r), now);
  }
}

// Tensors [first, last) of the iteration are reduced.
void EventEngine::decide(std::uint32_t iteration, std::uint32_t first, std::uint32_t last, SimTime now) {
  const Negotiation& rules = *job_.negotiation;
  IterationSlot& open = slot(iteration);
  std::vector<FusedTensor> tensors;
  for (std::uint32_t t = first; t < last; ++t) {
    tensors.push_back({rules.tensors[t].bytes, static_cast<std::uint32_t>(rules.tensors[t].type)});
  }
  for (std::vector<std::uint32_t>& group : fusions(tensors, rules.threshold)) {
    DecidedCollective made;
    made.tensors = std::move(group);
    made.decided = now;
    for (std::uint32_t& tensor : made.tensors) {
      tensor += first;
      made.bytes = made.bytes + rules.tensors[tensor].bytes;
      made.queued = std::max(made.queued, open.queued[tensor]);
    }
    if (rules.reduced_by == ReducedBy::one_all_reduce) {
      made.plan = plan_of({.bytes = made.bytes});
    } else {
      made.plan = plan_in_stages(
          made.bytes, node_parts(made.bytes, bytes_per_element(rules.tensors[made.tensors.front()].type),
                                 made.tensors.size() > 1, planner_->layout().gpus_per_node));
    }
    if (made.tensors.size() > 1) {  // read and written
      made.margin = to_sim_time(memory_time(rules.costs, 2 * made.bytes));
    }
    open.facts.add(subject(Fact::decision, iteration, static_cast<std::uint32_t>(open.decided.size())),
                   static_cast<std::uint32_t>(made.tensors.size()), now);
    if (plans_[made.plan].stages.empty()) {
      use_graph(made.plan, now);
    }
    for (const Stage& stage : plans_[made.plan].stages) {
      if (!stage.copies()) {
        use_graph(stage.plan, now);
      }
    }
    open.decided.push_back(std::move(made));
  }
  open.tensors_decided += last - first;
}

// What was decided is run on its graph.
void EventEngine::use_graph(std::uint32_t plan, SimTime now) {
  const std::uint32_t graph = plans_[plan].graph;
  if (meetings_[graph]) {
    return;
  }
  uses_of_graph_.resize(graphs_.graphs.size());
  uses_of_graph_[graph].push_back(plan);
  for (const ThreadBlockId each : graphs_.switches) {
    if (graphs_[each].graph == graph && !graphs_[each].active) {
      start_switch(each, now);
    }
  }
}

void EventEngine::advance_background(ThreadId rank, SimTime now) {
  const Negotiation& rules = *job_.negotiation;
  Background& thread = background_[rank.index()];
  if (thread.does != Background::Does::awake) {
    return;
  }
  if (thread.next.op < slot(thread.next.iteration).decided.size()) {
    if (!rules.waits_for_data || exists(rank, thread.next)) {
      thread.does = Background::Does::issue;
      timeline_.push(now + issue_cost(thread.next, false), EventKind::background, rank.value);
    }
  } else {
    thread.does = Background::Does::sleep;
    timeline_.push(std::max(now, thread.began + rules.cycle), EventKind::background, rank.value);
  }
}

void EventEngine::note_queued(OpPlace issued, SimTime now) {
  for (std::uint32_t t = queued_before_op_[issued.op]; t < queued_before_op_[issued.op + 1]; ++t) {
    SimTime& queued = slot(issued.iteration).queued[t];
    queued = std::max(queued, now);
  }
}

// What the background thread takes to issue a collective, or what is left of one when its host has reduced it.
SimTime EventEngine::issue_cost(OpPlace collective, bool rest) const {
  const Negotiation& rules = *job_.negotiation;
  const DecidedCollective& made = decided(collective);
  const std::span<const Stage> stages = plans_[made.plan].stages;
  const auto on_host = [](const Stage& stage) { return stage.where != Stage::Where::gpus; };
  const auto first = std::ranges::find_if(stages, on_host);
  const auto before = first - stages.begin(),
             behind = std::ranges::count_if(first, stages.end(), std::not_fn(on_host));
  const std::int64_t launches = stages.empty() ? 1 : rest ? behind : before;
  const std::int64_t copies = made.tensors.size() == 1 ? 0 : rest || first != stages.end() ? 1 : 2;
  return launches * rules.launch + copies * rules.copy_launch;
}

// The stage at hand of the queue's collective.
void EventEngine::begin_stage(QueueId queue, SimTime now) {
  const Running run = running(queue);
  const Stage& stage = run.stages[queues_[queue.index()].stage];
  if (stage.copies()) {
    const HostCopy& copy = job_.negotiation->copies[thread_of_queue_[queue.index()].index()];
    const BytesPerSecond rate = stage.where == Stage::Where::to_host ? copy.to_host : copy.to_gpu;
    timeline_.push(now + to_sim_time(stage.bytes / rate) + copy.latency, EventKind::collective_end,
                   queue.value);
  } else if (const SimTime begin = now + plans_[run.plan].startup; ahead_) {
    start_ahead(queue, run, begin, now);
  } else {
    timeline_.push(begin, EventKind::collective_start, queue.value);
  }
}

// False: there is none. What a host has reduced goes on when its background thread has issued that.
bool EventEngine::next_stage(QueueId queue, SimTime now) {
  const std::span<const Stage> stages = running(queue).stages;
  QueueState& state = queues_[queue.index()];
  if (state.stage + 1 >= stages.size()) {
    state.stage = 0;
    return false;
  }
  const ThreadId thread = thread_of_queue_[queue.index()];
  const bool was_on_gpu = stages[state.stage].where == Stage::Where::gpus;
  const bool is_on_gpu = stages[++state.stage].where == Stage::Where::gpus;
  if (was_on_gpu != is_on_gpu) {
    set_communicating(thread, is_on_gpu, now);
  }
  if (is_on_gpu && !was_on_gpu) {
    background_[thread.index()].does = Background::Does::issue_rest;
    timeline_.push(now + issue_cost(state.collective, true), EventKind::background, thread.value);
  } else {
    begin_stage(queue, now);
  }
  return true;
}

// Of a collective that is one by itself.
std::uint32_t EventEngine::plan_of(const CollectiveRequest& request, Stage::Where where) {
  const auto [at, added] = planned_.try_emplace({where, request.kind, request.groups, request.bytes},
                                                static_cast<std::uint32_t>(plans_.size()));
  if (added) {
    const bool on_hosts = where == Stage::Where::hosts;
    CollectivePlanner& planner = on_hosts ? *host_planner_ : *planner_;
    CollectivePlan plan = planner.plan(request);
    const Negotiation& rules = *job_.negotiation;
    plan.family = request.groups == kAllRanks                               ? kWorld
                  : request.groups == gpus_of_each_node(planner_->layout()) ? rules.in_node
                                                                            : rules.across;
    const auto [graph, is_new] = graph_of_planner_.try_emplace(
        {on_hosts, plan.graph}, static_cast<std::uint32_t>(graphs_.graphs.size()));
    if (is_new) {
      graph_list_.share(planner.communicator().graphs, plan.graph);
      add_graph();
    }
    plan.graph = graph->second;
    add_plan(std::move(plan));
  }
  return at->second;
}

std::uint32_t EventEngine::add_plan(CollectivePlan plan) {
  const auto number = static_cast<std::uint32_t>(plans_.size());
  plans_.push_back(std::move(plan));
  step_times_.emplace_back(graph_list_[plans_.back().graph], plans_.back());
  if (times_) {
    times_->add(plans_.back());
  }
  if (!meetings_[plans_.back().graph]) {
    prepare_slices();
  }
  return number;
}

// The list's last one. All ranks meet in what has thread blocks, where they reduce in one collective.
void EventEngine::add_graph() {
  const CollectiveGraph& graph = graph_list_[graph_list_.size() - 1];
  add(graphs_, graph, ranks_);
  meetings_.emplace_back(times_ && !graph.thread_blocks.empty() ? std::optional(empty_meeting())
                                                                : std::nullopt);
}

// Stands on a graph of nothing.
std::uint32_t EventEngine::plan_in_stages(Bytes bytes, const NodeParts& parts) {
  const auto known = planned_in_stages_.find(parts);
  if (known != planned_in_stages_.end()) {
    return known->second;
  }
  CollectivePlan plan;
  plan.bytes = bytes;
  plan.algorithm = Algorithm::hierarchical;
  plan.stages = stages_of(parts);
  if (!graph_of_nothing_) {
    CollectiveGraph nothing;
    nothing.ranks = ranks_;
    graph_of_nothing_ = static_cast<std::uint32_t>(graphs_.graphs.size());
    graph_list_.push_back(std::move(nothing));
    add_graph();
  }
  plan.graph = *graph_of_nothing_;
  return planned_in_stages_.emplace(parts, add_plan(std::move(plan))).first->second;
}

// In their order. What is left over is a few elements of the last GPU's; all copies, and what is reduced across nodes,
// are taken to have them.
std::vector<Stage> EventEngine::stages_of(const NodeParts& parts) {
  using Where = Stage::Where;
  const RankLayout& layout = planner_->layout();
  const std::uint32_t last = layout.gpus_per_node - 1;
  const GroupShape node = gpus_of_each_node(layout);
  const Bytes all = layout.gpus_per_node * parts.each, mine = parts.each + parts.rest;
  std::vector<Stage> stages;
  const auto run = [&](Where where, const CollectiveRequest& request) {
    if (request.bytes.value > 0) {
      stages.push_back({where, plan_of(request, where)});
    }
  };
  run(Where::gpus, {CollectiveKind::reduce_scatter, all, node});
  run(Where::gpus, {CollectiveKind::reduce, parts.rest, node, last});
  const CollectiveRequest across{CollectiveKind::all_reduce, mine, same_gpu_of_every_node(layout)};
  if (job_.negotiation->reduced_by == ReducedBy::stages_on_hosts) {
    stages.push_back({.where = Where::to_host, .bytes = mine});
    run(Where::hosts, across);
    stages.push_back({.where = Where::to_gpu, .bytes = mine});
  } else {
    run(Where::gpus, across);
  }
  run(Where::gpus, {CollectiveKind::all_gather, all, node});
  run(Where::gpus, {CollectiveKind::broadcast, parts.rest, node, last});
  return stages;
}

// Tensors of all iterations that the rank's host has queued.
std::uint64_t EventEngine::queued_by(ThreadId rank) const {
  const OpPlace host = thread_[rank.index()].host;
  return host.iteration * job_.negotiation->tensors.size() + queued_before_op_[host.op];
}

bool EventEngine::all_decided(std::uint32_t iteration) const {
  return slots_[iteration % slots_.size()].tensors_decided == job_.negotiation->tensors.size();
}

// Whether the rank's GPU has computed all of its tensors.
bool EventEngine::exists(ThreadId rank, OpPlace collective) const {
  const std::uint32_t op = job_.negotiation->tensors[decided(collective).tensors.back()].after_op;
  return OpPlace{collective.iteration, op} < thread_[rank.index()].stream;
}

bool EventEngine::may_launch_decided(ThreadId rank, OpPlace collective) const {
  return collective < background_[rank.index()].next && exists(rank, collective);
}

// Beyond the collectives of an iteration of which all is decided.
void EventEngine::skip_nothing(OpPlace& collective) const {
  if (job_.negotiation && all_decided(collective.iteration) &&
      collective.op >= slots_[collective.iteration % slots_.size()].decided.size()) {
    collective = {collective.iteration + 1, 0};
  }
}

}  // namespace paceline
