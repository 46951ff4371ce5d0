// When each thread block of a collective ends: the rules of sim/collective/plan.h, step by step. The oracle
// that Passes (sim/collective/passes.h) is compared with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/collective/plan.h"
#include "sim/collective/step_times.h"

namespace paceline {

// Holds a graph's working memory, to be used for any number of plans on it. Requires: the graph outlives it.
class Wavefront {
 public:
  explicit Wavefront(const CollectiveGraph&);

  // time[w]: in: when thread block w may begin; out: when it has ended. Requires: plan.graph is this graph.
  // Cost: O(moves of all thread blocks).
  void run(const CollectivePlan&, const StepTimes&, std::span<SimTime> time);

 private:
  struct State {
    Cursor at;
    std::uint32_t script = 0;
    bool queued = false;
  };
  struct Queue {  // of one FIFO
    std::uint32_t sent = 0, received = 0;
    bool sender_waits = false, receiver_waits = false;
  };

  bool may_move(const ThreadBlock&, const FlatStep&);
  void move(const ThreadBlock&, const FlatStep&, const Cursor&, SimTime& time);
  void wake(std::uint32_t thread_block);

  const CollectiveGraph& graph_;
  const CollectivePlan* plan_ = nullptr;
  const StepTimes* times_ = nullptr;
  std::uint32_t mask_ = 0;   // of a FIFO's place in arrival_ and freed_
  std::uint32_t limit_ = 0;  // slices that a FIFO holds, or the window
  std::vector<State> state_;
  std::vector<Queue> queue_;
  std::vector<SimTime> arrival_, freed_;  // [fifo * (mask_ + 1) + number & mask_]
  std::vector<std::uint32_t> ready_;
};

}  // namespace paceline
