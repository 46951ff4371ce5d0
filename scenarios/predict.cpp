#include "scenarios/predict.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "sim/collective/communicator.h"
#include "sim/engine/simulate.h"
#include "sim/strategy/ddp.h"
#include "topology/topology.h"

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

TrainingJob build_job(const Scenario& scenario, const Topology& topology) {
  CollectivePlanner planner =
      collective_planner(topology, scenario.training.collective, traffic(scenario, topology));
  return build_ddp_job(scenario.model, scenario.gpu, scenario.training, scenario.variability, planner);
}

Seconds mean_step(const Result& result) {
  const auto steps = static_cast<double>(result.iteration_end.size() - 1);
  return to_seconds(result.iteration_end.back() - result.iteration_end.front()) / steps;
}

// The mean step of the same run with one degraded link healthy.
Seconds mean_step_without(const Scenario& scenario, std::size_t degraded) {
  Scenario healed = scenario;
  healed.cluster.degraded.erase(healed.cluster.degraded.begin() + static_cast<std::ptrdiff_t>(degraded));
  const Topology topology = build_topology(healed.cluster);
  return mean_step(simulate(build_job(healed, topology), healed.run));
}

std::vector<LinkReport> blame_links(const Scenario& scenario, const Result& result) {
  std::vector<LinkReport> reports;
  const std::size_t examined = std::min(scenario.cluster.degraded.size(), kMostLinksExamined);
  for (std::size_t i = 0; i < examined; ++i) {
    const DegradedLink& link = scenario.cluster.degraded[i];
    reports.push_back({link.to ? link.from + " - " + *link.to : link.from,
                       mean_step(result) - mean_step_without(scenario, i)});
  }
  std::ranges::stable_sort(reports, std::ranges::greater{}, &LinkReport::step_delay);
  return reports;
}

}  // namespace

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

Prediction predict(const Scenario& scenario, const TraceRequest& trace) {
  const Topology topology = build_checked_topology(scenario.cluster);
  TrainingJob job = build_job(scenario, topology);
  Result result = simulate(job, scenario.run, trace);
  const TrainingJob reference_job =
      build_reference_job(scenario.model, scenario.gpu, scenario.training, scenario.variability);
  RunSpec reference_run = scenario.run;
  reference_run.engine = EngineChoice::automatic;  // one GPU has no transfers: any engine can
  const Result reference = simulate(reference_job, reference_run);
  Report report = summarize(job, result, topology, reference_job, reference);
  report.links = blame_links(scenario, result);
  return {scenario, std::move(job), std::move(result), std::move(report)};
}

std::string gpu_name(const Scenario& scenario, Rank rank) {
  const auto per_node = static_cast<std::uint32_t>(
      scenario.cluster.gpus_per_node > 0 ? scenario.cluster.gpus_per_node : scenario.cluster.node.gpus);
  return "node" + std::to_string(rank.value / per_node) + "/gpu" + std::to_string(rank.value % per_node);
}

}  // namespace paceline
