#include "scenarios/machines.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "scenarios/writer.h"
#include "sim/collective/communicator.h"
#include "sim/strategy/ddp.h"

namespace paceline {
namespace {

// Background flows, those of other jobs among them.
std::vector<BackgroundFlow> traffic(const Scenario& scenario, const Topology& topology) {
  std::vector<BackgroundFlow> flows = scenario.background;
  const int gpus = topology.gpus_per_node();
  for (const OtherJob& job : scenario.other_jobs) {
    for (int n = 0; n < job.nodes; ++n) {
      const std::int64_t from = job.first_node + n, to = job.first_node + (n + 1) % job.nodes;
      for (int nic = 0; nic < static_cast<int>(topology.node().nics_in_use); ++nic) {
        flows.push_back({from * gpus + nic % gpus, to * gpus + nic % gpus, job.rate, nic});
      }
    }
  }
  return flows;
}

// All that graphs and plans depend on.
std::string key_of(const Scenario& scenario) {
  const Json json = scenario_json(scenario);
  std::string key;
  for (const char* name : {"cluster", "background", "other_jobs"}) {
    const Json* part = json.find(name);
    key += part == nullptr ? "-" : to_line(*part);
  }
  return key + to_line(*json.find("training")->find("collective"));
}

}  // namespace

// Threads that build at the same time have a planner each.
struct Machines::Machine {
  std::string key;
  std::shared_ptr<const Topology> topology;
  std::mutex mutex;
  std::vector<std::unique_ptr<CollectivePlanner>> idle;

  std::unique_ptr<CollectivePlanner> planner(const Scenario& scenario) {
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        std::unique_ptr<CollectivePlanner> one = std::move(idle.back());
        idle.pop_back();
        return one;
      }
    }
    return std::make_unique<CollectivePlanner>(
        collective_planner(*topology, scenario.training.collective, traffic(scenario, *topology)));
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

// A cluster with graphs from a file is not told apart by its JSON: it is built anew.
std::shared_ptr<Machines::Machine> Machines::machine(const Scenario& scenario) {
  const bool known_by_key = !scenario.cluster.graphs;
  std::string key = known_by_key ? key_of(scenario) : "";
  if (known_by_key) {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find(held_, key, [](const auto& held) { return held->key; });
    if (at != held_.end()) {
      held_.splice(held_.begin(), held_, at);
      return held_.front();
    }
  }
  auto made = std::make_shared<Machine>();
  made->key = std::move(key);
  made->topology = std::make_shared<const Topology>(build_checked_topology(scenario.cluster));
  if (known_by_key) {
    const std::lock_guard lock(mutex_);
    held_.push_front(made);
    held_.resize(std::min(held_.size(), kHeld));
  }
  return made;
}

std::shared_ptr<const Topology> Machines::topology(const Scenario& scenario) {
  return machine(scenario)->topology;
}

Machines::Built Machines::build(const Scenario& scenario) {
  const std::shared_ptr<Machine> on = machine(scenario);
  std::unique_ptr<CollectivePlanner> planner = on->planner(scenario);
  TrainingJob job =
      build_ddp_job(scenario.model, scenario.gpu, scenario.training, scenario.variability, *planner);
  on->give_back(std::move(planner));
  return {on->topology, std::move(job)};
}

}  // namespace paceline
