// The event engine's background threads, which negotiate what is reduced together (Negotiation in sim/job.h).
#include <algorithm>

#include "sim/collective/fusion.h"
#include "sim/engine/event_engine.h"

namespace paceline {

void EventEngine::start_negotiating(SimTime now) {
  if (!job_.negotiation) {
    return;
  }
  const Negotiation& rules = *job_.negotiation;
  planner_ = *rules.planner;
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

// The rank's background thread has slept, or issued a collective.
void EventEngine::run_background(ThreadId rank, SimTime now) {
  Background& thread = background_[rank.index()];
  if (thread.does == Background::Does::issue) {
    thread.does = Background::Does::awake;
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
    made.plan = plan_of(made.bytes);
    if (made.tensors.size() > 1) {  // read and written
      made.margin = to_sim_time(memory_time(rules.costs, 2 * made.bytes));
    }
    open.facts.add(subject(Fact::decision, iteration, static_cast<std::uint32_t>(open.decided.size())),
                   static_cast<std::uint32_t>(made.tensors.size()), now);
    const std::uint32_t graph = plans_[made.plan].graph;
    uses_of_graph_.resize(graphs_.graphs.size());
    uses_of_graph_[graph].push_back(made.plan);
    open.decided.push_back(std::move(made));
    for (const ThreadBlockId each : graphs_.switches) {
      if (graphs_[each].graph == graph && !graphs_[each].active) {
        start_switch(each, now);
      }
    }
  }
  open.tensors_decided += last - first;
}

// A switch takes part in what was decided on its graph, one after the other.
void EventEngine::start_switch(ThreadBlockId id, SimTime now) {
  std::uint32_t& done = graphs_[id].use.op;
  const std::vector<std::uint32_t>& uses = uses_of_graph_[graphs_[id].graph];
  if (done < uses.size()) {
    start_thread_block(id, uses[done++]);
    advance_thread_block(id, now);
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
      const bool fused = decided(thread.next).tensors.size() > 1;
      timeline_.push(now + rules.launch + (fused ? 2 * rules.copy_launch : SimTime{}), EventKind::background,
                     rank.value);
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

// The plan of an all-reduce.
std::uint32_t EventEngine::plan_of(Bytes bytes) {
  const auto [at, added] = plan_of_bytes_.try_emplace(bytes, static_cast<std::uint32_t>(plans_.size()));
  if (added) {
    CollectivePlan& plan = plans_.emplace_back(planner_->plan(CollectiveKind::all_reduce, bytes));
    plan.family = kWorld;
    const auto [graph, is_new] =
        graph_of_planner_.try_emplace(plan.graph, static_cast<std::uint32_t>(graphs_.graphs.size()));
    if (is_new) {
      graph_list_.share(planner_->communicator().graphs, plan.graph);
      add(graphs_, graph_list_[graph->second], ranks_);
    }
    plan.graph = graph->second;
    step_times_.emplace_back(graph_list_[plan.graph], plan);
  }
  return at->second;
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
