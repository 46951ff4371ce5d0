#include "sim/job.h"

#include <ostream>

#include "sim/collective/costs.h"

namespace paceline {
namespace {

constexpr const char* kOpKindNames[] = {"kernel", "collective", "wait", "take_batch", "synchronize"};

void print(const TrainingJob& job, const Program& program, std::ostream& out) {
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    out << i << ' ' << kOpKindNames[static_cast<std::size_t>(op.kind)] << ' ' << op.duration.ps
        << " ps, host " << op.host_cost.ps << " ps";
    if (op.kind == OpKind::collective) {
      const CollectivePlan& plan = job.plans[program.collectives[op.index]];
      out << ", " << plan.bytes.value << " bytes";
      if (job.ranks() > 1) {
        out << ", " << kAlgorithmNames[static_cast<std::size_t>(plan.algorithm)] << ' '
            << kProtocolNames[static_cast<std::size_t>(plan.protocol)] << " on "
            << job.communicator.graphs[plan.graph].channels << " channels";
      }
    }
    out << ": " << op.label << '\n';
  }
}

}  // namespace

void print(const TrainingJob& job, std::ostream& out) {
  out << "warm-up, " << job.ranks() << " ranks\n";
  print(job, job.warm_up, out);
  out << "steady\n";
  print(job, job.steady, out);
}

}  // namespace paceline
