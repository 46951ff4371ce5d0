#include "sim/collective/collective_times.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/collective/channels.h"

namespace paceline {
namespace {

// The ring's thread blocks from `first` on, each followed by the one that it sends to.
std::vector<std::uint32_t> ring_from(const CollectiveGraph& graph, std::uint32_t first) {
  std::vector<std::uint32_t> thread_blocks;
  std::uint32_t w = first;
  do {
    thread_blocks.push_back(w);
    w = graph.fifos[graph.out[graph.thread_blocks[w].first_out]].to;
  } while (w != first);
  return thread_blocks;
}

}  // namespace

bool is_free_ring(const CollectivePlan& plan) {
  return plan.algorithm == Algorithm::ring && goes_round(plan.kind) && plan.slots == 0 &&
         std::ranges::all_of(plan.loops, [](const Loops& loops) { return slices_of(loops) == 1; });
}

CollectiveTimes::Reduced::Reduced(const CollectiveGraph& graph,
                                  std::shared_ptr<const EqualThreadBlocks> equal)
    : thread_blocks(std::move(equal)), time(thread_blocks->graph.thread_blocks.size()), kind_of(graph.ranks) {
  std::vector<std::vector<std::uint32_t>> of_rank(graph.ranks);
  for (std::size_t w = 0; w < graph.thread_blocks.size(); ++w) {
    if (const std::uint32_t rank = graph.thread_blocks[w].holds(); rank != ThreadBlock::kSwitch) {
      of_rank[rank].push_back(thread_blocks->class_of[w]);
    }
  }
  for (const ThreadBlock& each : thread_blocks->graph.thread_blocks) {
    rank_of.push_back(each.holds());
  }
  std::map<std::vector<std::uint32_t>, std::uint32_t> kinds;
  first_thread_block.push_back(0);
  for (std::size_t r = 0; r < of_rank.size(); ++r) {
    std::vector<std::uint32_t>& classes = of_rank[r];
    std::ranges::sort(classes);
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
    const auto [kind, added] = kinds.try_emplace(classes, static_cast<std::uint32_t>(kinds.size()));
    if (added) {
      thread_block.insert(thread_block.end(), classes.begin(), classes.end());
      first_thread_block.push_back(static_cast<std::uint32_t>(thread_block.size()));
    }
    kind_of[r] = kind->second;
  }
}

CollectiveTimes::CollectiveTimes(std::uint32_t ranks, const GraphList& graphs, bool together,
                                 std::size_t remembered)
    : ranks_(ranks),
      list_(graphs),
      together_(together),
      remembered_(remembered),
      begin_(ranks),
      end_(ranks) {}

CollectiveTimes::CollectiveTimes(const Communicator& communicator, std::span<const CollectivePlan> plans,
                                 bool together, std::size_t remembered)
    : CollectiveTimes(communicator.ranks, communicator.graphs, together, remembered) {
  for (const CollectivePlan& plan : plans) {
    add(plan);
  }
}

void CollectiveTimes::add(const CollectivePlan& plan) {
  plans_.push_back(&plan);
  of_plan_.emplace_back();
  for (std::size_t g = graphs_.size(); g < list_.size(); ++g) {
    OfGraph& of_graph = graphs_.emplace_back();
    const std::vector<ThreadBlock>& thread_blocks = list_[g].thread_blocks;
    for (std::uint32_t w = 0; w < thread_blocks.size(); ++w) {
      if (thread_blocks[w].holds() == ThreadBlock::kSwitch) {
        of_graph.switches.push_back(w);
      }
    }
    of_graph.switch_end.resize(of_graph.switches.size());
  }
}

void CollectiveTimes::end(std::uint32_t plan, std::span<const SimTime> launch, SimTime origin,
                          std::span<SimTime> end) {
  if (ranks_ == 1) {
    end[0] = launch[0];
    return;
  }
  OfPlan& of_plan = of_plan_[plan];
  OfGraph& of_graph = graphs_[plan_of(plan).graph];
  if (!of_plan.prepared) {
    of_plan.prepared = true;
    prepare_rings(plan);
  }
  const SimTime first = std::ranges::min(launch);
  if (of_graph.unsettled && first < of_graph.unsettled->until) {
    settle(of_graph);
  }
  of_graph.unsettled.reset();
  const bool together = together_ && std::ranges::all_of(launch, [&](SimTime t) { return t == launch[0]; }) &&
                        std::ranges::all_of(of_graph.switch_end, [&](SimTime t) { return t <= launch[0]; });
  if (together) {
    end_together(plan, launch[0], end);
    return;
  }
  begin_from(first, launch, of_graph.switch_end);
  if (recall(plan, first, end)) {
    return;
  }
  ++computed_;
  if (!of_plan.rings.empty()) {
    end_by_rings(plan, launch, origin, end);
  } else {
    end_by_steps(plan, launch, first, end);
  }
  remember(plan, first, end);
}

// A switch that was done before the first launch takes part from its first chunk on: since when doesn't
// matter.
void CollectiveTimes::begin_from(SimTime first, std::span<const SimTime> launch,
                                 std::span<const SimTime> switch_end) {
  entry_.clear();
  for (const SimTime t : launch) {
    entry_.push_back(t - first);
  }
  for (const SimTime t : switch_end) {
    entry_.push_back(std::max(t, first) - first);
  }
}

bool CollectiveTimes::recall(std::uint32_t plan, SimTime first, std::span<SimTime> end) {
  std::vector<Known>& known = of_plan_[plan].known;
  const auto found = std::ranges::find(known, entry_, &Known::begin);
  if (found == known.end()) {
    return false;
  }
  std::rotate(known.begin(), found, found + 1);
  OfGraph& of_graph = graphs_[plan_of(plan).graph];
  std::vector<SimTime>& switch_end = of_graph.switch_end;
  const std::vector<SimTime>& ends = known.front().end;
  if (known.front().unsettled) {
    of_graph.unsettled = Unsettled{plan, first, first + *known.front().unsettled, entry_};
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    (i < end.size() ? end[i] : switch_end[i - end.size()]) = first + ends[i];
  }
  return true;
}

void CollectiveTimes::remember(std::uint32_t plan, SimTime first, std::span<const SimTime> end) {
  std::vector<Known>& known = of_plan_[plan].known;
  if (known.size() < remembered_) {
    known.emplace_back();
  }
  if (known.empty()) {
    return;
  }
  std::rotate(known.begin(), known.end() - 1, known.end());
  known.front().begin = entry_;
  known.front().end.clear();
  const std::optional<Unsettled>& unsettled = graphs_[plan_of(plan).graph].unsettled;
  known.front().unsettled = unsettled ? std::optional(unsettled->until - first) : std::nullopt;
  for (const std::span<const SimTime> ends :
       {end, std::span<const SimTime>(graphs_[plan_of(plan).graph].switch_end)}) {
    for (const SimTime t : ends) {
      known.front().end.push_back(t - first);
    }
  }
}

void CollectiveTimes::end_together(std::uint32_t plan, SimTime launch, std::span<SimTime> end) {
  OfGraph& of_graph = graphs_[plan_of(plan).graph];
  OfPlan& of_plan = of_plan_[plan];
  if (!of_graph.together) {
    const CollectiveGraph& graph = list_[plan_of(plan).graph];
    of_graph.together = std::make_unique<Reduced>(
        graph, std::make_shared<const EqualThreadBlocks>(find_equal_thread_blocks(graph, Begin::together)));
  }
  Reduced& reduced = *of_graph.together;
  if (of_plan.end_of_thread_block.empty()) {
    of_plan.end_of_thread_block.assign(reduced.time.size(), plan_of(plan).startup);
    const StepTimes times(reduced.thread_blocks->graph, plan_of(plan));
    reduced.all_passes().run(plan_of(plan), times, of_plan.end_of_thread_block);
  }
  std::vector<SimTime> end_of_kind;
  for (std::size_t k = 0; k + 1 < reduced.first_thread_block.size(); ++k) {
    SimTime latest = plan_of(plan).startup;
    for (std::uint32_t i = reduced.first_thread_block[k]; i < reduced.first_thread_block[k + 1]; ++i) {
      latest = std::max(latest, of_plan.end_of_thread_block[reduced.thread_block[i]]);
    }
    end_of_kind.push_back(launch + latest);
  }
  for (std::size_t r = 0; r < end.size(); ++r) {
    end[r] = end_of_kind[reduced.kind_of[r]];
  }
  for (std::size_t s = 0; s < of_graph.switches.size(); ++s) {
    of_graph.switch_end[s] =
        launch + of_plan.end_of_thread_block[reduced.thread_blocks->class_of[of_graph.switches[s]]];
  }
}

void CollectiveTimes::end_by_steps(std::uint32_t plan, std::span<const SimTime> launch, SimTime first,
                                   std::span<SimTime> end) {
  OfGraph& of_graph = graphs_[plan_of(plan).graph];
  if (!of_graph.by_rank) {
    const std::uint32_t graph = plan_of(plan).graph;
    const MergedGraph& merged = list_.merged(graph);
    of_graph.by_rank = std::make_unique<Reduced>(list_[graph], merged.thread_blocks);
    of_graph.late = std::make_unique<LateEntries>(merged.equal);
  }
  Reduced& reduced = *of_graph.by_rank;
  begin_steps(plan, launch);
  if (!of_graph.late->run(plan_of(plan), reduced.time)) {
    take_steps(plan);
  } else if (const std::optional<SimTime> until = of_graph.late->unknown_until()) {
    of_graph.unsettled = Unsettled{plan, first, *until, entry_};
  }
  for (std::size_t r = 0; r < end.size(); ++r) {
    const std::uint32_t kind = reduced.kind_of[r];
    SimTime latest = launch[r] + plan_of(plan).startup;
    for (std::uint32_t i = reduced.first_thread_block[kind]; i < reduced.first_thread_block[kind + 1]; ++i) {
      latest = std::max(latest, reduced.time[reduced.thread_block[i]]);
    }
    end[r] = latest;
  }
  keep_switch_ends(of_graph);
}

// When thread blocks of the graph by_rank begin.
void CollectiveTimes::begin_steps(std::uint32_t plan, std::span<const SimTime> launch) {
  OfGraph& of_graph = graphs_[plan_of(plan).graph];
  Reduced& reduced = *of_graph.by_rank;
  for (std::size_t w = 0; w < reduced.time.size(); ++w) {
    if (reduced.rank_of[w] != ThreadBlock::kSwitch) {
      reduced.time[w] = launch[reduced.rank_of[w]] + plan_of(plan).startup;
    }
  }
  for (std::size_t s = 0; s < of_graph.switches.size(); ++s) {
    reduced.time[reduced.thread_blocks->class_of[of_graph.switches[s]]] = of_graph.switch_end[s];
  }
}

void CollectiveTimes::take_steps(std::uint32_t plan) {
  Reduced& reduced = *graphs_[plan_of(plan).graph].by_rank;
  std::optional<StepTimes>& steps = of_plan_[plan].by_rank;
  if (!steps) {
    steps.emplace(reduced.thread_blocks->graph, plan_of(plan));
  }
  reduced.all_passes().run(plan_of(plan), *steps, reduced.time);
}

void CollectiveTimes::keep_switch_ends(OfGraph& of_graph) {
  const Reduced& reduced = *of_graph.by_rank;
  for (std::size_t s = 0; s < of_graph.switches.size(); ++s) {
    of_graph.switch_end[s] = reduced.time[reduced.thread_blocks->class_of[of_graph.switches[s]]];
  }
}

// The last collective again, step by step, for the ends of its switches.
void CollectiveTimes::settle(OfGraph& of_graph) {
  Unsettled& last = *of_graph.unsettled;
  for (SimTime& t : last.begin) {
    t += last.first;
  }
  const std::span<const SimTime> begins(last.begin);
  std::ranges::copy(begins.subspan(ranks_), of_graph.switch_end.begin());
  begin_steps(last.plan, begins.first(ranks_));
  take_steps(last.plan);
  keep_switch_ends(of_graph);
}

void CollectiveTimes::prepare_rings(std::uint32_t number) {
  const CollectivePlan& plan = plan_of(number);
  const CollectiveGraph& graph = list_[plan.graph];
  if (!is_free_ring(plan)) {
    return;
  }
  const int turns = plan.kind == CollectiveKind::all_reduce ? 2 : 1;
  std::set<std::vector<std::uint32_t>> seen;  // ranks and hops, of the channels so far
  std::size_t length = 0;
  for (std::uint32_t first = 0; first < graph.thread_blocks.size();
       first += static_cast<std::uint32_t>(length)) {
    const std::vector<std::uint32_t> thread_blocks = ring_from(graph, first);
    length = thread_blocks.size();
    RingChannel ring;
    std::vector<std::uint32_t> hops;
    for (const std::uint32_t w : thread_blocks) {
      ring.order.push_back(graph.thread_blocks[w].rank);
      hops.push_back(graph.fifos[graph.out[graph.thread_blocks[w].first_out]].hop);
    }
    std::vector<std::uint32_t> looks(ring.order);
    looks.insert(looks.end(), hops.begin(), hops.end());
    if (!seen.insert(std::move(looks)).second) {
      continue;
    }
    for (const Loops& phase : plan.loops) {
      std::vector<SimTime> stay, move;
      for (const std::uint32_t hop : hops) {
        stay.push_back(stay_of(phase.chunk, plan.hops[hop]));
        move.push_back(stay.back() + plan.hops[hop].latency);
      }
      ring.phases.emplace_back(RingLinks{stay, move}, turns * (static_cast<std::int64_t>(length) - 1));
    }
    of_plan_[number].rings.push_back(std::move(ring));
  }
}

// The last step of a loop receives and copies; then the thread block begins the next.
void CollectiveTimes::end_by_rings(std::uint32_t number, std::span<const SimTime> launch, SimTime origin,
                                   std::span<SimTime> end) {
  const CollectivePlan& plan = plan_of(number);
  std::ranges::transform(launch, end.begin(), [&](SimTime t) { return t + plan.startup; });
  for (const RingChannel& ring : of_plan_[number].rings) {
    const std::span<SimTime> ring_begin = std::span(begin_).first(ring.order.size()),
                             ring_end = std::span(end_).first(ring.order.size());
    for (std::size_t p = 0; p < ring.order.size(); ++p) {
      ring_begin[p] = launch[ring.order[p]] - origin + plan.startup;
    }
    for (std::size_t phase = 0; phase < plan.loops.size(); ++phase) {
      const bool last_phase = phase + 1 == plan.loops.size();
      for (std::int64_t left = plan.loops[phase].count; left > 0; --left) {
        const SimTime copy = copy_of(plan.loops[phase].chunk, plan, !(last_phase && left == 1));
        ring.phases[phase].end(ring_begin, ring_end, scratch_);
        std::ranges::transform(ring_end, ring_begin.begin(), [&](SimTime t) { return t + copy; });
      }
    }
    for (std::size_t p = 0; p < ring.order.size(); ++p) {
      end[ring.order[p]] = std::max(end[ring.order[p]], ring_begin[p] + origin);
    }
  }
}

}  // namespace paceline
