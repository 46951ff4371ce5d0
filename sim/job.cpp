#include "sim/job.h"

#include <algorithm>
#include <ostream>

#include "sim/collective/costs.h"

namespace paceline {

std::vector<std::uint32_t> bucket_collectives(const Program& program) {
  std::vector<std::uint32_t> collectives;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::collective && op.purpose.bucket != kNoIndex && !op.never_runs()) {
      collectives.resize(std::max<std::size_t>(collectives.size(), op.purpose.bucket + 1));
      collectives[op.purpose.bucket] = op.index;
    }
  }
  return collectives;
}

namespace {

void print(const TrainingJob& job, const Program& program, std::ostream& out) {
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    out << i << ' ' << name_of(op.kind) << ' ' << op.duration.ps << " ps, host " << op.host_cost.ps << " ps";
    if (op.kind == OpKind::collective) {
      const CollectivePlan& plan = job.plans[program.collectives[op.index]];
      out << ", " << plan.bytes.value << " bytes";
      if (job.ranks() > 1) {
        out << ", " << name_of(plan.algorithm) << ' ' << name_of(plan.protocol) << " on "
            << job.communicator.graphs[plan.graph].channels << " channels";
      }
      if (op.prepare + op.conclude > SimTime{}) {
        out << ", " << op.prepare.ps << " ps before and " << op.conclude.ps << " ps after";
      }
    }
    out << ": " << op.label << '\n';
  }
}

}  // namespace

void print(const TrainingJob& job, std::ostream& out) {
  out << "warm-up, " << job.ranks() << " ranks\n";
  print(job, job.main().warm_up, out);
  out << "steady\n";
  print(job, job.main().steady, out);
}

}  // namespace paceline
