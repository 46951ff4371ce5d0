#include "scenarios/machines.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "scenarios/gpu_memory.h"
#include "sim/collective/communicator.h"
#include "sim/layers/layer_spans.h"
#include "sim/strategy/build_job.h"
#include "sim/strategy/contention.h"
#include "sim/strategy/horovod.h"
#include "sim/strategy/message_routes.h"
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

// Threads that build at the same time have a planner each: one that is idle, or a copy of one, which has its graphs.
struct Machines::Machine {
  ClusterUse use;
  std::shared_ptr<const Topology> topology;
  std::mutex mutex;
  std::vector<std::unique_ptr<CollectivePlanner>> idle;  // one stays, once there is one

  std::unique_ptr<CollectivePlanner> planner() {
    {
      const std::lock_guard lock(mutex);
      if (idle.size() > 1) {
        std::unique_ptr<CollectivePlanner> one = std::move(idle.back());
        idle.pop_back();
        return one;
      }
      if (!idle.empty()) {
        return std::make_unique<CollectivePlanner>(*idle.front());
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

MixedWork work_of(const Scenario& s) {
  const std::int64_t ranks = gpus_of_job(s.cluster), per_node = gpus_of_node(s.cluster);
  std::vector<GpuKind> kinds = s.gpus;
  if (kinds.empty()) {
    kinds.push_back({nodes_of_job(s.cluster), s.gpu, pinned_rates(s.training)});
  }
  constexpr std::size_t kMostWorks = 1000;  // each has programs of its own
  MixedWork mixed;
  std::map<std::pair<std::size_t, std::int64_t>, std::uint32_t> known;  // by kind and batch
  std::int64_t end = 0;                                                 // of the ranks of a kind
  std::int64_t rank = 0;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    for (end += kinds[k].nodes * per_node; rank < end; ++rank) {
      const bool apart = !s.training.batches.empty();
      const std::int64_t batch =
          apart ? s.training.batches[static_cast<std::size_t>(rank)] : s.training.batch_per_gpu;
      const auto [at, added] = known.try_emplace({k, batch}, static_cast<std::uint32_t>(mixed.works.size()));
      if (mixed.works.size() > kMostWorks) {
        throw InputError("expected at most " + std::to_string(kMostWorks) + " different batches, found more",
                         "/training/batches");
      }
      if (added) {
        Scenario one = s;
        one.training.measured = kinds[k].measured;
        one.training.measured = pinned_rates(one.training);
        one.training.batch_per_gpu = batch;
        one.gpu = kinds[k].gpu;
        one.gpus.clear();
        one.cluster.runs.clear();
        if (apart && !does_not_fit(one).empty()) {
          throw InputError(does_not_fit(one), "/training/batches/" + std::to_string(rank));
        }
        mixed.works.push_back(delayed(workload(s.model, one.gpu, one.training, s.variability), ranks));
      }
      mixed.of_rank.push_back(at->second);
    }
  }
  if (mixed.works.size() == 1) {
    mixed.of_rank.clear();
  }
  return mixed;
}

Machines::Built Machines::build(const Scenario& scenario) {
  const std::shared_ptr<Machine> on = machine(scenario);
  std::unique_ptr<CollectivePlanner> planner = on->planner();
  TrainingJob job = build_job(strategy_of(scenario.training), work_of(scenario), *planner);
  place_servers(*on->topology, scenario.training.parameter_server, planner->layout(), job);
  place_messages(*on->topology, job);
  place_hosts(*on->topology, on->use, scenario.training.horovod, job);
  on->give_back(std::move(planner));
  share_links(*on->topology, job);
  return {on->topology, std::move(job)};
}

}  // namespace paceline
