#include "sim/strategy/workers.h"

#include <map>
#include <utility>

namespace paceline {

void run_side_by_side(TrainingJob& job, std::uint32_t workers) {
  using Copy = std::pair<std::uint32_t, std::uint32_t>;  // of which plan or graph, for which queue
  std::map<Copy, std::uint32_t> plans, graphs;
  std::vector<CollectivePlan> own_plans;
  GraphList own_graphs;
  const auto graph_for = [&](Copy copy) {
    const auto [at, added] = graphs.try_emplace(copy, static_cast<std::uint32_t>(own_graphs.size()));
    if (added) {
      own_graphs.share(job.communicator.graphs, copy.first);
    }
    return at->second;
  };
  const auto plan_for = [&](Copy copy) {
    const auto [at, added] = plans.try_emplace(copy, static_cast<std::uint32_t>(own_plans.size()));
    if (added) {
      own_plans.push_back(job.plans[copy.first]);
      own_plans.back().graph = graph_for({own_plans.back().graph, copy.second});
    }
    return at->second;
  };
  for (Role& role : job.roles) {
    for (Program* const program : {&role.threads.front().warm_up, &role.threads.front().steady}) {
      for (Op& op : program->ops) {
        if (op.kind == OpKind::collective) {
          op.queue = op.index;
          program->collectives[op.index] = plan_for({program->collectives[op.index], op.queue});
        }
      }
    }
  }
  job.plans = std::move(own_plans);
  job.communicator.graphs = std::move(own_graphs);
  job.workers = workers;
}

}  // namespace paceline
