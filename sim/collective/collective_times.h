// When each rank leaves a collective that no other traffic touches, from when each rank enters it.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/time.h"
#include "sim/collective/communicator.h"
#include "sim/collective/equal_thread_blocks.h"
#include "sim/collective/late_entries.h"
#include "sim/collective/passes.h"
#include "sim/collective/ring_time.h"

namespace paceline {

// Whether one loop at a time is a ring of RingSchedule: every chunk is one slice and no FIFO fills.
bool is_free_ring(const CollectivePlan&);

// Four ways, equal to the picosecond: where all ranks enter together, one thread block of each class of
// equal ones step by step; rings with endless FIFOs and whole chunks, of all ranks or of each group, by
// RingSchedule; where few ranks enter so late that nobody waits for the others, by LateEntries; else step by
// step. Ranks that enter as far apart as they did before leave as far apart as then: steps that are all alike
// cost little more than two.
class CollectiveTimes {
 public:
  static constexpr std::size_t kRemembered = 4;

  // together: all ranks may enter together often enough that finding equal thread blocks pays.
  // remembered: entries of each plan whose ends are kept, the last ones.
  CollectiveTimes(const Communicator&, std::span<const CollectivePlan>, bool together = true,
                  std::size_t remembered = kRemembered);
  // Without plans yet. Requires: the list outlives this; it may only grow.
  CollectiveTimes(std::uint32_t ranks, const GraphList&, bool together = true,
                  std::size_t remembered = kRemembered);

  // The next plan by number, on a graph of the list. Requires: it outlives this.
  void add(const CollectivePlan&);

  // launch and end by rank. Requires: |launch[r] - origin| within 2^59 ps.
  void end(std::uint32_t plan, std::span<const SimTime> launch, SimTime origin, std::span<SimTime> end);

  // When each switch ended its part of its graph's last collective.
  template <class F>  // f(time)
  void for_each_switch_end(const F& f) const {
    for (const OfGraph& graph : graphs_) {
      std::for_each(graph.switch_end.begin(), graph.switch_end.end(), f);
    }
  }

  // Whether these are all that matters of what was, to collectives that begin at t or later.
  bool settled_by(SimTime t) const {
    return std::ranges::none_of(
        graphs_, [t](const OfGraph& graph) { return graph.unsettled && t < graph.unsettled->until; });
  }

  // How many were neither begun by all ranks together nor remembered.
  std::uint64_t computed() const { return computed_; }

  // The plan's costs are not what they were.
  void forget(std::uint32_t plan) { of_plan_[plan] = {}; }

 private:
  // A graph's thread blocks with one for each class.
  struct Reduced {
    Reduced(const CollectiveGraph&, std::shared_ptr<const EqualThreadBlocks>);
    std::shared_ptr<const EqualThreadBlocks> thread_blocks;
    std::optional<Passes> passes;  // made when first asked for
    Passes& all_passes() { return passes ? *passes : passes.emplace(thread_blocks->graph); }
    std::vector<SimTime> time;           // by thread block
    std::vector<std::uint32_t> rank_of;  // by thread block; kSwitch
    std::vector<std::uint32_t> first_thread_block,
        thread_block;                    // of each kind of rank: thread block[first_thread_block[k] ..)
    std::vector<std::uint32_t> kind_of;  // by rank
  };
  // The graph's last collective, where nobody asked when some of its switches were done, at `until` at the
  // latest, which their switch_end says. Unless a rank begins another before, that is enough.
  struct Unsettled {
    std::uint32_t plan = 0;
    SimTime first, until;
    std::vector<SimTime> begin;  // as Known::begin
  };
  struct OfGraph {
    std::unique_ptr<Reduced> together, by_rank;
    std::unique_ptr<LateEntries> late;  // on by_rank
    std::vector<SimTime>
        switch_end;  // by thread block of the whole graph that has no rank: of the last collective
    std::vector<std::uint32_t> switches;
    std::optional<Unsettled> unsettled;
  };
  struct RingChannel {  // ranks in ring order, and the schedule of each phase
    std::vector<std::uint32_t> order;
    std::vector<RingSchedule> phases;
  };
  struct Known {  // from the first launch: by rank, then of each switch
    std::vector<SimTime> begin, end;
    std::optional<SimTime> unsettled;  // Unsettled::until
  };
  struct OfPlan {
    bool prepared = false;
    std::vector<Known> known;          // last used first
    std::optional<StepTimes> by_rank;  // on OfGraph's graph
    std::vector<SimTime>
        end_of_thread_block;         // of Reduced together, from a launch at 0; empty: not known yet
    std::vector<RingChannel> rings;  // empty: not a case for RingSchedule
  };

  void prepare_rings(std::uint32_t plan);
  void begin_from(SimTime first, std::span<const SimTime> launch, std::span<const SimTime> switch_end);
  bool recall(std::uint32_t plan, SimTime first, std::span<SimTime> end);
  void remember(std::uint32_t plan, SimTime first, std::span<const SimTime> end);
  void end_together(std::uint32_t plan, SimTime launch, std::span<SimTime> end);
  void end_by_steps(std::uint32_t plan, std::span<const SimTime> launch, SimTime first,
                    std::span<SimTime> end);
  void begin_steps(std::uint32_t plan, std::span<const SimTime> launch);
  void take_steps(std::uint32_t plan);
  void keep_switch_ends(OfGraph&);
  void settle(OfGraph&);
  void end_by_rings(std::uint32_t plan, std::span<const SimTime> launch, SimTime origin,
                    std::span<SimTime> end);

  const CollectivePlan& plan_of(std::uint32_t number) const { return *plans_[number]; }

  std::uint32_t ranks_;
  const GraphList& list_;
  std::vector<const CollectivePlan*> plans_;
  bool together_;
  std::size_t remembered_;
  std::uint64_t computed_ = 0;
  std::vector<OfGraph> graphs_;  // of the list
  std::vector<OfPlan> of_plan_;
  RingSchedule::Scratch scratch_;
  std::vector<SimTime> begin_, end_;  // by position of the ring at hand
  std::vector<SimTime> entry_;        // as Known::begin, of the collective at hand
};

}  // namespace paceline
