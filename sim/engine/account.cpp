#include "sim/engine/account.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "sim/engine/program_layout.h"
#include "sim/engine/trajectory.h"

namespace paceline {

namespace {

// The collectives that a kernel comes after, and what they come after, one after the other.
std::vector<std::uint32_t> chain_to(const Program& program, std::optional<std::uint32_t> kernel) {
  std::vector<std::uint32_t> chain;
  for (std::optional<std::uint32_t> at = kernel; at; at = predecessor(program, *at)) {
    if (program.ops[*at].kind == OpKind::collective) {
      chain.push_back(*at);
    }
  }
  std::ranges::reverse(chain);
  return chain;
}

// The last kernel beside the compute stream that was issued before an operation.
std::optional<std::uint32_t> last_beside(const Program& program, std::size_t before) {
  for (auto i = static_cast<std::uint32_t>(before); i-- > 0;) {
    if (runs_beside_compute_stream(program.ops[i])) {
      return i;
    }
  }
  return std::nullopt;
}

// [from, to) without what kernels beside the compute stream run in it.
class IdleGpu {
 public:
  IdleGpu(const Program& program, std::span<const OpSpan> ops) {
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      if (runs_beside_compute_stream(program.ops[i]) && ops[i].start < ops[i].end) {
        kernels_.push_back(ops[i]);
      }
    }
    std::ranges::sort(kernels_, {}, &OpSpan::start);
  }
  SimTime between(SimTime from, SimTime to) const {
    SimTime idle = from < to ? to - from : SimTime{};
    auto kernel = std::ranges::upper_bound(kernels_, from, {}, &OpSpan::end);
    for (; kernel != kernels_.end() && kernel->start < to; ++kernel) {
      idle = idle - overlap(from, to, kernel->start, kernel->end);
    }
    return idle;
  }

 private:
  std::vector<OpSpan> kernels_;  // one after the other
};

// What the compute stream did in an iteration, operation by operation.
class StreamAccount {
 public:
  StreamAccount(const IterationRecord& it, Breakdown& total)
      : it_(it), total_(total), idle_(it.program, it.ops), idle_from_(it.rank_began) {}

  // That the rank had finished while others had not.
  SimTime sum_up() {
    for (std::size_t i = 0; i < it_.program.ops.size(); ++i) {
      const Op& op = it_.program.ops[i];
      if (op.runs_in(it_.iteration)) {
        add(op, i);
      }
    }
    return finished_for_others_;
  }

 private:
  void add(const Op& op, std::size_t i) {
    if (op.kind == OpKind::synchronize && op.stream == kWholeDevice) {
      device_ = i;
    }
    const OpSpan& span = it_.ops[i];
    if (op.kind == OpKind::collective || op.kind == OpKind::synchronize || op.kind == OpKind::send ||
        span.end == SimTime{}) {  // left out: the rank went on with a later iteration
      return;
    }
    if (runs_beside_compute_stream(op)) {
      total_.compute += counted(span.start, span.end);
    } else if (op.kind == OpKind::take_batch) {
      batch_ = span;
    } else {
      idle_until(span.start);
      on_stream(op, span);
      idle_from_ = span.end;
      batch_ = {};
      first_ = false;
    }
  }

  void idle_until(SimTime to) {
    const SimTime from = std::max(idle_from_, it_.counted_from);
    total_.input_wait += overlap(from, to, batch_.start, batch_.end);
    if (device_) {
      wait_for_chain(last_beside(it_.program, *device_), std::max(from, it_.ops[*device_].start),
                     std::min(to, it_.ops[*device_].end));
      device_.reset();
    }
    if (first_) {  // finished with the previous iteration, others are not
      const SimTime until = std::min(to, it_.all_began);
      const SimTime finished = counted(from, until) - overlap(from, until, batch_.start, batch_.end);
      finished_for_others_ = straggling(finished, it_.own_before, it_.own_of_last_before);
      total_.straggler_wait += finished_for_others_;
    }
  }

  void on_stream(const Op& op, const OpSpan& span) {
    if (op.kind == OpKind::kernel) {
      total_.compute += counted(span.start, span.end);
    } else if (op.kind == OpKind::wait && op.lag == 0) {
      wait_for(op.index, span.start, span.end);
    } else if (op.kind == OpKind::join) {  // what is left is the host's, or kernels'
      wait_for_chain(op.after_op, span.start, span.end);
    } else {  // for a message, or a collective of an iteration before
      total_.exposed_communication += counted(span.start, span.end);
    }
  }

  void wait_for(std::uint32_t number, SimTime from, SimTime to) {
    const SeenCollective& collective = it_.collectives[number];
    from = std::max(from, it_.counted_from);
    const SimTime everybody = std::clamp(collective.last_launch, from, std::max(from, to));
    const SimTime straggler =
        straggling(idle_.between(from, everybody), collective.own, collective.own_of_last);
    const SimTime exposed = idle_.between(from, to) - straggler;
    total_.straggler_wait += straggler;
    total_.exposed_communication += exposed;
    collective.waits->straggler += straggler.ps;
    collective.waits->exposed += exposed.ps;
  }

  void wait_for_chain(std::optional<std::uint32_t> kernel, SimTime from, SimTime to) {
    for (const std::uint32_t at : chain_to(it_.program, kernel)) {
      const SimTime until = std::clamp(it_.ops[at].end, from, std::max(from, to));
      wait_for(it_.program.ops[at].index, from, until);
      from = until;
    }
  }

  SimTime counted(SimTime from, SimTime to) const { return overlap(from, to, it_.counted_from, kNever); }

  const IterationRecord& it_;
  Breakdown& total_;
  IdleGpu idle_;
  SimTime idle_from_;                  // the stream's last activity ended here
  OpSpan batch_;                       // the host's wait for input since then
  std::optional<std::size_t> device_;  // where the host waited for it since then
  bool first_ = true;
  SimTime finished_for_others_;
};

}  // namespace

SimTime account(const IterationRecord& it, Breakdown& total) { return StreamAccount(it, total).sum_up(); }

}  // namespace paceline
