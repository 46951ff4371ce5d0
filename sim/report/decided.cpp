#include "sim/report/decided.h"

#include <algorithm>
#include <span>

namespace paceline {
namespace {

using Iterations = std::span<const std::vector<DecidedCollective>>;

void fill_in(Program& program, Iterations iterations) {
  std::size_t most = 0;
  for (const std::vector<DecidedCollective>& iteration : iterations) {
    most = std::max(most, iteration.size());
    for (std::size_t k = 0; k < iteration.size(); ++k) {
      program.collectives[k] = iteration[k].plan;
    }
  }
  for (Op& op : program.ops) {
    const bool collective = op.kind == OpKind::collective && op.after == After::decision;
    const bool wait = op.kind == OpKind::wait && op.index < program.collectives.size();
    if ((collective || wait) && op.index >= most) {
      op.every = kNoIndex;  // never
    } else if (collective) {
      op.prepare = op.conclude =
          iterations.back().size() > op.index ? iterations.back()[op.index].margin : SimTime{};
    }
  }
}

}  // namespace

TrainingJob as_decided(TrainingJob job, const Decisions& decisions) {
  if (!job.negotiation) {
    return job;
  }
  job.plans = decisions.plans;
  job.communicator.graphs = decisions.graphs;
  const Iterations all = decisions.iterations;
  for (Role& role : job.roles) {
    fill_in(role.threads.front().warm_up, all.first(1));
    fill_in(role.threads.front().steady, all.size() > 1 ? all.subspan(1) : all);
  }
  return job;
}

}  // namespace paceline
