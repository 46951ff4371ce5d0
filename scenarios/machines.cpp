#include "scenarios/machines.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "sim/collective/communicator.h"
#include "sim/layers/layer_spans.h"
#include "sim/strategy/build_job.h"
#include "sim/strategy/contention.h"
#include "sim/strategy/parameter_server.h"

namespace paceline {
namespace {

// Servers on nodes of their own stand behind all others.
ClusterUse use_of(const Scenario& scenario) {
  ClusterUse use{scenario.cluster, scenario.training.collective, scenario.background, scenario.other_jobs};
  if (const std::int64_t servers = server_nodes(scenario.training); servers > 0) {
    ClusterSpec& cluster = use.cluster;
    cluster.job_nodes = nodes_of_job(cluster);
    cluster.nodes += static_cast<int>(servers);
  }
  return use;
}

}  // namespace

// Threads that build at the same time have a planner each.
struct Machines::Machine {
  ClusterUse use;
  std::shared_ptr<const Topology> topology;
  std::mutex mutex;
  std::vector<std::unique_ptr<CollectivePlanner>> idle;

  std::unique_ptr<CollectivePlanner> planner() {
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        std::unique_ptr<CollectivePlanner> one = std::move(idle.back());
        idle.pop_back();
        return one;
      }
    }
    return std::make_unique<CollectivePlanner>(collective_planner(*topology, use));
  }
  void give_back(std::unique_ptr<CollectivePlanner> planner) {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(planner));
  }
};

Topology build_checked_topology(const ClusterSpec& cluster) {
  try {
    return build_topology(cluster);
  } catch (const InputError& error) {
    constexpr std::string_view kField = "/cluster/degraded/", kKey = "/cluster/degraded_links/";
    if (!error.place().starts_with(kField)) {
      throw;
    }
    throw InputError(error.message(), std::string(kKey) + error.place().substr(kField.size()), error.file());
  }
}

std::shared_ptr<Machines::Machine> Machines::machine(const Scenario& scenario) {
  ClusterUse use = use_of(scenario);
  {
    const std::lock_guard lock(mutex_);
    const auto at =
        std::ranges::find(held_, use, [](const auto& held) -> const ClusterUse& { return held->use; });
    if (at != held_.end()) {
      held_.splice(held_.begin(), held_, at);
      return held_.front();
    }
  }
  auto made = std::make_shared<Machine>();
  made->use = std::move(use);
  made->topology = std::make_shared<const Topology>(build_checked_topology(made->use.cluster));
  const std::lock_guard lock(mutex_);
  held_.push_front(made);
  held_.resize(std::min(held_.size(), kHeld));
  return made;
}

std::shared_ptr<const Topology> Machines::topology(const Scenario& scenario) {
  return machine(scenario)->topology;
}

Machines::Built Machines::build(const Scenario& scenario) {
  const std::shared_ptr<Machine> on = machine(scenario);
  std::unique_ptr<CollectivePlanner> planner = on->planner();
  const Workload plain = workload(scenario.model, scenario.gpu, scenario.training, scenario.variability);
  TrainingJob job =
      build_job(strategy_of(scenario.training), delayed(plain, gpus_of_job(scenario.cluster)), *planner);
  place_servers(*on->topology, scenario.training.parameter_server, planner->layout(), job);
  on->give_back(std::move(planner));
  share_links(*on->topology, job);
  return {on->topology, std::move(job)};
}

}  // namespace paceline
