// When each thread block of a collective ends: the rules of sim/collective/plan.h, step by step. The oracle
// that Passes (sim/collective/passes.h) is compared with.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <stdexcept>
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

inline Wavefront::Wavefront(const CollectiveGraph& graph)
    : graph_(graph), state_(graph.thread_blocks.size()), queue_(graph.fifos.size()) {
  for (std::size_t w = 0; w < state_.size(); ++w) {
    state_[w].script = graph.thread_blocks[w].script;
  }
}

inline void Wavefront::run(const CollectivePlan& plan, const StepTimes& times, std::span<SimTime> time) {
  plan_ = &plan;
  times_ = &times;
  limit_ = times.window();
  mask_ = std::bit_ceil(limit_) - 1;
  std::fill(queue_.begin(), queue_.end(), Queue{});
  arrival_.resize(queue_.size() * (mask_ + 1));
  freed_.resize(arrival_.size());
  ready_.clear();
  for (std::uint32_t w = static_cast<std::uint32_t>(state_.size()); w-- > 0;) {
    state_[w].at = times.begin(state_[w].script);
    state_[w].queued = false;
    wake(w);
  }
  while (!ready_.empty()) {
    const std::uint32_t w = ready_.back();
    ready_.pop_back();
    State& state = state_[w];
    state.queued = false;
    const ThreadBlock& thread_block = graph_.thread_blocks[w];
    while (!times.done(state.at)) {
      const FlatStep& step = times.step(state.script, state.at);
      if (!may_move(thread_block, step)) {
        break;
      }
      move(thread_block, step, state.at, time[w]);
      times.advance(state.script, state.at);
    }
  }
  for (const State& state : state_) {
    if (!times.done(state.at)) {
      throw std::logic_error("collective: a plan whose FIFOs are too short for it");
    }
  }
}

inline void Wavefront::wake(std::uint32_t thread_block) {
  if (!state_[thread_block].queued) {
    state_[thread_block].queued = true;
    ready_.push_back(thread_block);
  }
}

// Whether the thread block's next move is known; else remembers what it waits for.
inline bool Wavefront::may_move(const ThreadBlock& thread_block, const FlatStep& step) {
  for (std::uint32_t p = 0; p < step.receive.count; ++p) {
    Queue& queue = queue_[graph_.in[thread_block.first_in + step.receive.first + p]];
    if (queue.received == queue.sent) {
      queue.receiver_waits = true;
      return false;
    }
  }
  for (std::uint32_t p = 0; p < step.send.count; ++p) {
    Queue& queue = queue_[graph_.out[thread_block.first_out + step.send.first + p]];
    if (queue.sent - queue.received >= limit_) {
      queue.sender_waits = true;
      return false;
    }
  }
  return true;
}

inline void Wavefront::move(const ThreadBlock& thread_block, const FlatStep& step, const Cursor& at,
                            SimTime& time) {
  const std::size_t size = std::size_t{mask_} + 1;
  const std::uint32_t* in = graph_.in.data() + thread_block.first_in + step.receive.first;
  const std::uint32_t* out = graph_.out.data() + thread_block.first_out + step.send.first;
  SimTime start = time;
  for (std::uint32_t p = 0; p < step.receive.count; ++p) {
    start = std::max(start, arrival_[in[p] * size + (queue_[in[p]].received & mask_)]);
  }
  for (std::uint32_t p = 0; plan_->slots > 0 && p < step.send.count; ++p) {
    const std::uint32_t sent = queue_[out[p]].sent;
    if (sent >= plan_->slots) {
      start = std::max(start, freed_[out[p] * size + ((sent - plan_->slots) & mask_)]);
    }
  }
  SimTime end = step.send.count == 0 ? start + times_->copy(at, step) : start;
  for (std::uint32_t p = 0; p < step.send.count; ++p) {
    const Fifo& fifo = graph_.fifos[out[p]];
    Queue& queue = queue_[out[p]];
    const SimTime left = start + times_->stay(at, step, fifo.hop);
    end = std::max(end, left);
    arrival_[out[p] * size + (queue.sent & mask_)] = left + times_->latency(at, step, fifo.hop);
    ++queue.sent;
    if (queue.receiver_waits) {
      queue.receiver_waits = false;
      wake(fifo.to);
    }
  }
  for (std::uint32_t p = 0; p < step.receive.count; ++p) {
    Queue& queue = queue_[in[p]];
    freed_[in[p] * size + (queue.received & mask_)] = end;
    ++queue.received;
    if (queue.sender_waits) {
      queue.sender_waits = false;
      wake(graph_.fifos[in[p]].from);
    }
  }
  time = end;
}

}  // namespace paceline
