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

}  // namespace

SimTime account(const IterationRecord& it, Breakdown& total) {
  const IdleGpu idle(it.program, it.ops);
  const auto counted = [&](SimTime from, SimTime to) { return overlap(from, to, it.counted_from, kNever); };
  SimTime idle_from = it.rank_began;  // the stream's last activity ended here
  SimTime finished_for_others;
  OpSpan batch;  // the host's wait for input since then
  bool first = true;
  const auto wait_for = [&](std::uint32_t number, SimTime from, SimTime to) {
    const SeenCollective& collective = it.collectives[number];
    from = std::max(from, it.counted_from);
    const SimTime everybody = std::clamp(collective.last_launch, from, std::max(from, to));
    const SimTime straggler =
        straggling(idle.between(from, everybody), collective.own, collective.own_of_last);
    const SimTime exposed = idle.between(from, to) - straggler;
    total.straggler_wait += straggler;
    total.exposed_communication += exposed;
    collective.waits->straggler += straggler.ps;
    collective.waits->exposed += exposed.ps;
  };
  const auto wait_for_chain = [&](std::optional<std::uint32_t> kernel, SimTime from, SimTime to) {
    for (const std::uint32_t at : chain_to(it.program, kernel)) {
      const SimTime until = std::clamp(it.ops[at].end, from, std::max(from, to));
      wait_for(it.program.ops[at].index, from, until);
      from = until;
    }
  };
  const std::size_t none = it.program.ops.size();
  std::size_t device = none;  // where the host waited for it since then
  for (std::size_t i = 0; i < it.program.ops.size(); ++i) {
    const Op& op = it.program.ops[i];
    if (op.kind == OpKind::synchronize && op.stream == kWholeDevice && op.runs_in(it.iteration)) {
      device = i;
    }
    if (op.kind == OpKind::collective || op.kind == OpKind::synchronize || op.kind == OpKind::send ||
        !op.runs_in(it.iteration)) {
      continue;
    }
    const OpSpan& span = it.ops[i];
    if (span.end == SimTime{}) {  // left out: the rank went on with a later iteration
      continue;
    }
    if (runs_beside_compute_stream(op)) {
      total.compute += counted(span.start, span.end);
      continue;
    }
    if (op.kind == OpKind::take_batch) {
      batch = span;
      continue;
    }
    const SimTime from = std::max(idle_from, it.counted_from), to = span.start;
    total.input_wait += overlap(from, to, batch.start, batch.end);
    if (device != none) {
      wait_for_chain(last_beside(it.program, device), std::max(from, it.ops[device].start),
                     std::min(to, it.ops[device].end));
      device = none;
    }
    if (first) {  // finished with the previous iteration, others are not
      const SimTime until = std::min(to, it.all_began);
      const SimTime finished = counted(from, until) - overlap(from, until, batch.start, batch.end);
      finished_for_others = straggling(finished, it.own_before, it.own_of_last_before);
      total.straggler_wait += finished_for_others;
    }
    if (op.kind == OpKind::kernel) {
      total.compute += counted(span.start, span.end);
    } else if (op.kind == OpKind::wait && op.lag == 0) {
      wait_for(op.index, span.start, span.end);
    } else if (op.kind == OpKind::join) {  // what is left is the host's, or kernels'
      wait_for_chain(op.after_op, span.start, span.end);
    } else {  // for a message, or a collective of an iteration before
      total.exposed_communication += counted(span.start, span.end);
    }
    idle_from = span.end;
    batch = {};
    first = false;
  }
  return finished_for_others;
}

}  // namespace paceline
