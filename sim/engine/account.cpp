#include "sim/engine/account.h"

#include <algorithm>

#include "sim/engine/trajectory.h"

namespace paceline {

SimTime account(const IterationRecord& it, Breakdown& total) {
  const auto counted = [&](SimTime from, SimTime to) { return overlap(from, to, it.counted_from, kNever); };
  SimTime idle_from = it.rank_began;  // the stream's last activity ended here
  SimTime finished_for_others;
  OpSpan batch;  // the host's wait for input since then
  bool first = true;
  for (std::size_t i = 0; i < it.program.ops.size(); ++i) {
    const Op& op = it.program.ops[i];
    if (op.kind == OpKind::collective || op.kind == OpKind::synchronize || op.kind == OpKind::send ||
        !op.runs_in(it.iteration)) {
      continue;
    }
    const OpSpan& span = it.ops[i];
    if (span.end == SimTime{}) {  // left out: the rank went on with a later iteration
      continue;
    }
    if (op.kind == OpKind::take_batch) {
      batch = span;
      continue;
    }
    const SimTime from = std::max(idle_from, it.counted_from), to = span.start;
    total.input_wait += overlap(from, to, batch.start, batch.end);
    if (first) {  // finished with the previous iteration, others are not
      const SimTime until = std::min(to, it.all_began);
      const SimTime finished = counted(from, until) - overlap(from, until, batch.start, batch.end);
      finished_for_others = straggling(finished, it.own_before, it.own_of_last_before);
      total.straggler_wait += finished_for_others;
    }
    if (op.kind == OpKind::kernel) {
      total.compute += counted(span.start, span.end);
    } else if (op.kind == OpKind::wait && op.lag == 0) {
      const SeenCollective& collective = it.collectives[op.index];
      const SimTime everybody = std::clamp(collective.last_launch, span.start, span.end);
      const SimTime straggler =
          straggling(counted(span.start, everybody), collective.own, collective.own_of_last);
      const SimTime exposed = counted(span.start, span.end) - straggler;
      total.straggler_wait += straggler;
      total.exposed_communication += exposed;
      collective.waits->straggler += straggler.ps;
      collective.waits->exposed += exposed.ps;
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
