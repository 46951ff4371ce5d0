#include "sim/engine/account.h"

#include <algorithm>

#include "sim/engine/trajectory.h"

namespace paceline {

void account(const IterationRecord& it, Breakdown& total, IterationWaits& waits) {
  const auto counted = [&](SimTime from, SimTime to) { return overlap(from, to, it.counted_from, kNever); };
  SimTime idle_from = it.rank_began;  // the stream's last activity ended here
  OpSpan batch;                       // the host's wait for input since then
  bool first = true;
  for (std::size_t i = 0; i < it.program.ops.size(); ++i) {
    const Op& op = it.program.ops[i];
    const OpSpan& span = it.ops[i];
    if (op.kind == OpKind::take_batch) {
      batch = span;
    }
    if (op.kind != OpKind::kernel && op.kind != OpKind::wait) {
      continue;
    }
    const SimTime from = std::max(idle_from, it.counted_from), to = span.start;
    total.input_wait += overlap(from, to, batch.start, batch.end);
    if (first) {  // finished with the previous iteration, others are not
      const SimTime until = std::min(to, it.all_began);
      const SimTime finished = counted(from, until) - overlap(from, until, batch.start, batch.end);
      const SimTime straggler = straggling(finished, it.own_before, it.own_of_last_before);
      total.straggler_wait += straggler;
      waits.finished += straggler.ps;
    }
    if (op.kind == OpKind::kernel) {
      total.compute += counted(span.start, span.end);
    } else {
      const SimTime everybody = std::clamp(it.last_launch[op.index], span.start, span.end);
      const SimTime straggler =
          straggling(counted(span.start, everybody), it.own[op.index], it.own_of_last[op.index]);
      const SimTime exposed = counted(span.start, span.end) - straggler;
      total.straggler_wait += straggler;
      total.exposed_communication += exposed;
      waits.collectives[op.index].straggler += straggler.ps;
      waits.collectives[op.index].exposed += exposed.ps;
    }
    idle_from = span.end;
    batch = {};
    first = false;
  }
}

}  // namespace paceline
