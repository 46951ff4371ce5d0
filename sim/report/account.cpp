#include "sim/report/account.h"

#include <algorithm>

#include "sim/engine/trajectory.h"

namespace paceline {

void account(const IterationRecord& it, Breakdown& total) {
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
      total.straggler_wait += counted(from, until) - overlap(from, until, batch.start, batch.end);
    }
    if (op.kind == OpKind::kernel) {
      total.compute += counted(span.start, span.end);
    } else {
      const SimTime everybody = std::clamp(it.last_launch[op.index], span.start, span.end);
      total.straggler_wait += counted(span.start, everybody);
      total.exposed_communication += counted(everybody, span.end);
    }
    idle_from = span.end;
    batch = {};
    first = false;
  }
}

}  // namespace paceline
