// DDP's join(): one program for ranks that still have batches and for those that have none left, whose operations
// say in which iterations they run. Collectives are in all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/strategy/program_builder.h"

namespace paceline {

// Iterations in which a rank has a batch, and those of the longest.
struct JoinedInput {
  std::uint32_t batches = 1, steps = 1;
};

// Source: torch/distributed/algorithms/join.py; _DDPJoinHook and forward in torch/nn/parallel/distributed.py.
class JoinContext {
 public:
  // Without an input everything is for all ranks, and nothing is added.
  explicit JoinContext(const std::optional<JoinedInput>& input) : input_(input) {}

  template <class F>  // f(): what only ranks with a batch do
  void active(ProgramBuilder& b, const F& f) {
    const std::size_t first = b.program().ops.size();
    f();
    if (input_) {
      ranges_.push_back({first, b.program().ops.size(), 0, input_->batches});
    }
  }
  // One element is all-reduced; hosts that have joined wait for it: whether anybody has a batch, whether gradients are
  // reduced.
  void notify(ProgramBuilder&);
  // An all-reduce says whose buffers, or model, all take; every host waits for it.
  void agree_on_rank(ProgramBuilder&);
  // Who has joined has zeros for each bucket.
  void fill_zeros(ProgramBuilder&, std::span<const Bytes> buckets);
  // After the last iteration of all: nobody has a batch; the model of one that was last, in pieces of 250 MiB.
  void broadcast_model(ProgramBuilder&, const Workload&);

  Program limited(Program) const;  // what was built

 private:
  struct Range {
    std::size_t first, end;  // operations
    std::uint32_t from, until;
  };
  template <class F>
  void in(ProgramBuilder& b, std::uint32_t from, const F& f) {
    const std::size_t first = b.program().ops.size();
    f();
    ranges_.push_back({first, b.program().ops.size(), from, kNoIndex});
  }
  std::uint32_t all_reduce(ProgramBuilder&, Payload, Bytes, const char* label);
  void wait_on_host(ProgramBuilder&, std::uint32_t collective);

  std::optional<JoinedInput> input_;
  std::vector<Range> ranges_;
};

// Adds roles of DDP by how many batches ranks have. Throws InputError (places below /training/ddp/join) for another
// number of ranks, for one batch, and for what it isn't modelled with. Requires: `join` is given.
void add_join_programs(const DdpSpec&, const MixedWork&, PlanTable&, TrainingJob&);
// Throws InputError where `join` is given, for a strategy that can't.
void require_no_join(const TrainingSpec&);

}  // namespace paceline
