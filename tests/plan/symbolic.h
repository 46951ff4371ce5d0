// Runs a graph with symbols for data: a block's value is how often each rank's input is in it.
//
// The rules are sim/collective/plan.h's without times. A move needs what it receives, and on every FIFO that
// it sends on a slot that is free before it begins.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/collective/plan.h"

namespace paceline {

constexpr std::size_t kMostRanks = 33;
using Value = std::array<std::uint8_t, kMostRanks>;

inline Value of_rank(std::size_t rank) {
  Value value{};
  value[rank] = 1;
  return value;
}
inline Value of_all(std::size_t ranks) {
  Value value{};
  std::fill_n(value.begin(), ranks, std::uint8_t{1});
  return value;
}

struct SymbolicRun {
  std::uint32_t loops = 1, slices = 1, slots = 0;  // slots 0: any number
};

class Symbolic {
 public:
  Symbolic(const CollectiveGraph& graph, SymbolicRun run)
      : graph_(graph), run_(run), states_(graph.thread_blocks.size()), queues_(graph.fifos.size()) {
    sent_.assign(graph.fifos.size(), 0);
    output_.resize(std::size_t{graph.ranks} * graph.channels * run.loops * run.slices);
    for (bool progress = true; progress && errors_.empty();) {
      progress = false;
      for (std::size_t w = 0; w < states_.size(); ++w) {
        while (errors_.empty() && try_move(w)) {
          progress = true;
        }
      }
    }
  }

  // What went wrong first; empty: every thread block reached its end and every FIFO is empty.
  std::string error() const {
    if (!errors_.empty()) {
      return errors_;
    }
    for (std::size_t w = 0; w < states_.size(); ++w) {
      if (states_[w].loop < run_.loops && !script(w).steps.empty()) {
        return "thread block " + std::to_string(w) + " is stuck in step " + std::to_string(states_[w].step);
      }
    }
    for (std::size_t f = 0; f < queues_.size(); ++f) {
      if (!queues_[f].empty()) {
        return "FIFO " + std::to_string(f) + " still holds chunks";
      }
    }
    return {};
  }

  // What a rank has kept of each block. channel: of its group.
  using Output = std::map<std::int64_t, Value>;
  const Output& output(std::size_t rank, std::size_t channel, std::size_t loop, std::size_t slice) const {
    return output_[index(rank, channel, loop, slice)];
  }
  // Blocks that crossed a FIFO, in all loops, times slices.
  std::int64_t sent(std::size_t fifo) const { return sent_[fifo]; }

 private:
  struct State {
    std::uint32_t loop = 0, step = 0, time = 0, slice = 0;
  };
  struct Chunk {
    std::uint32_t loop = 0, slice = 0;
    std::vector<std::pair<std::int64_t, Value>> blocks;
  };

  const Script& script(std::size_t w) const { return graph_.scripts[graph_.thread_blocks[w].script]; }
  std::size_t index(std::size_t rank, std::size_t channel, std::size_t loop, std::size_t slice) const {
    return ((rank * graph_.channels + channel) * run_.loops + loop) * run_.slices + slice;
  }

  bool try_move(std::size_t w) {
    const ThreadBlock& thread_block = graph_.thread_blocks[w];
    State& at = states_[w];
    if (at.loop == run_.loops || script(w).steps.empty()) {
      return false;
    }
    const Step& step = script(w).steps[at.step];
    for (std::uint32_t p = 0; p < step.receive.count; ++p) {
      if (queues_[graph_.in[thread_block.first_in + step.receive.first + p]].empty()) {
        return false;
      }
    }
    for (std::uint32_t p = 0; p < step.send.count; ++p) {
      const std::size_t held = queues_[graph_.out[thread_block.first_out + step.send.first + p]].size();
      if (run_.slots > 0 && held >= run_.slots) {
        return false;
      }
    }
    move(thread_block, step, at);
    advance(script(w), step, at);
    return true;
  }

  void move(const ThreadBlock& thread_block, const Step& step, const State& at) {
    Chunk chunk{at.loop, at.slice, {}};
    for (const std::int64_t block : blocks_of(thread_block, step, at.time)) {
      chunk.blocks.emplace_back(block, start_value(thread_block, step, at, block));
    }
    for (std::uint32_t p = 0; p < step.receive.count; ++p) {
      receive(graph_.in[thread_block.first_in + step.receive.first + p], chunk);
    }
    if (step.keep && thread_block.rank == ThreadBlock::kSwitch) {
      errors_ = "a switch keeps data";
    } else if (step.keep) {
      Output& kept =
          output_[index(thread_block.rank, thread_block.channel % graph_.channels, at.loop, at.slice)];
      for (const auto& [block, value] : chunk.blocks) {
        kept[block] = value;
      }
    }
    send(thread_block, step, at, chunk);
  }

  void send(const ThreadBlock& thread_block, const Step& step, const State& at, Chunk& chunk) {
    if (step.sent != 0) {
      Step other = step;
      other.block += step.sent;
      other.own = true;
      chunk.blocks.clear();
      for (const std::int64_t block : blocks_of(thread_block, other, at.time)) {
        chunk.blocks.emplace_back(block, start_value(thread_block, other, at, block));
      }
    }
    for (std::uint32_t p = 0; p < step.send.count; ++p) {
      const std::uint32_t fifo = graph_.out[thread_block.first_out + step.send.first + p];
      queues_[fifo].push_back(chunk);
      sent_[fifo] += step.width;
    }
  }

  std::vector<std::int64_t> blocks_of(const ThreadBlock& thread_block, const Step& step, std::uint32_t time) {
    const std::int64_t modulus = graph_.scripts[thread_block.script].modulus;
    std::vector<std::int64_t> blocks;
    for (std::uint32_t j = 0; j < step.width; ++j) {
      const std::int64_t place = thread_block.shift + step.block + time * step.stride + j * step.gap;
      blocks.push_back(thread_block.base + (place % modulus + modulus) % modulus);
    }
    std::sort(blocks.begin(), blocks.end());
    if (std::adjacent_find(blocks.begin(), blocks.end()) != blocks.end()) {
      errors_ = "a block twice in one chunk";
    }
    return blocks;
  }

  // Before what is received is added.
  Value start_value(const ThreadBlock& thread_block, const Step& step, const State& at, std::int64_t block) {
    if (!step.own && step.receive.count > 0) {
      return {};
    }
    if (thread_block.rank == ThreadBlock::kSwitch) {
      errors_ = "a switch has no data of its own";
      return {};
    }
    const Output& kept =
        output_[index(thread_block.rank, thread_block.channel % graph_.channels, at.loop, at.slice)];
    const auto found = kept.find(block);
    if (found != kept.end()) {
      return found->second;
    }
    if (!step.own) {
      errors_ = "a step sends what was never kept";
    }
    return of_rank(thread_block.rank);
  }

  void receive(std::uint32_t fifo, Chunk& into) {
    const Chunk from = std::move(queues_[fifo].front());
    queues_[fifo].pop_front();
    if (graph_.fifos[fifo].wire == Wire::word) {
      return;
    }
    const bool same_blocks =
        std::equal(from.blocks.begin(), from.blocks.end(), into.blocks.begin(), into.blocks.end(),
                   [](const auto& a, const auto& b) { return a.first == b.first; });
    if (from.loop != into.loop || from.slice != into.slice || !same_blocks) {
      errors_ = "FIFO " + std::to_string(fifo) + " brings other blocks than its receiver expects";
      return;
    }
    for (std::size_t i = 0; i < into.blocks.size(); ++i) {
      Value& value = into.blocks[i].second;
      const Value& more = from.blocks[i].second;
      std::transform(value.begin(), value.end(), more.begin(), value.begin(),
                     [](std::uint8_t x, std::uint8_t y) { return static_cast<std::uint8_t>(x + y); });
    }
  }

  void advance(const Script& script, const Step& step, State& at) const {
    if (++at.slice < run_.slices) {
      return;
    }
    at.slice = 0;
    if (++at.time < step.times) {
      return;
    }
    at.time = 0;
    if (++at.step < script.steps.size()) {
      return;
    }
    at.step = 0;
    ++at.loop;
  }

  const CollectiveGraph& graph_;
  SymbolicRun run_;
  std::vector<State> states_;
  std::vector<std::deque<Chunk>> queues_;
  std::vector<std::int64_t> sent_;
  std::vector<Output> output_;
  std::string errors_;
};

}  // namespace paceline
