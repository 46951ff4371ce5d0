#include "scenarios/predict.h"

#include <algorithm>
#include <utility>

#include "scenarios/balanced_run.h"
#include "sim/engine/simulate.h"
#include "sim/layers/layer_spans.h"
#include "sim/report/decided.h"
#include "sim/strategy/build_job.h"
#include "sim/strategy/run_length.h"
#include "topology/topology.h"

namespace paceline {
namespace {

BalancedRun run(const Scenario& scenario, const TraceRequest& trace, Machines& machines,
                const StepProgress& progress = {}) {
  if (scenario.training.balance) {
    return run_balanced(scenario, machines, progress);
  }
  auto [topology, job] = machines.build(scenario);
  Result result = simulate(job, scenario.run, trace, progress);
  return {topology, as_decided(std::move(job), result.decisions), std::move(result), {}};
}

// That are reduced.
Bytes gradients_of_step(const Scenario& scenario) {
  const std::int64_t passes = reduces_each_pass(scenario.training) ? scenario.training.accumulation : 1;
  return Bytes(passes * parameter_count(scenario.model) * bytes_per_element(scenario.training.gradients));
}

Scenario with_length(Scenario scenario) {
  scenario.run = with_length(scenario.run, scenario.training);
  return scenario;
}

double alone_throughput(const Scenario& scenario, const GpuSpec& gpu, const TrainingSpec& training) {
  const TrainingJob job = build_reference_job(workload(scenario.model, gpu, training, scenario.variability));
  RunSpec run = scenario.run;
  run.engine = EngineChoice::automatic;  // one GPU has no transfers: any engine can
  return lasting_throughput(job, simulate(job, run));
}

// What all GPUs would do, each alone with the batch of all: of each kind.
double alone_throughput(const Scenario& scenario) {
  const auto gpus_per_node = static_cast<double>(gpus_of_node(scenario.cluster));
  if (scenario.gpus.empty()) {
    return gpus_per_node * nodes_of_job(scenario.cluster) *
           alone_throughput(scenario, scenario.gpu, scenario.training);
  }
  double all = 0;
  for (const GpuKind& kind : scenario.gpus) {
    TrainingSpec training = scenario.training;
    training.measured = kind.measured;
    all += gpus_per_node * kind.nodes * alone_throughput(scenario, kind.gpu, training);
  }
  return all;
}

// The mean step of the same run with one degraded link healthy.
Seconds mean_step_without(const Scenario& scenario, std::size_t degraded, Machines& machines) {
  Scenario healed = scenario;
  healed.cluster.degraded.erase(healed.cluster.degraded.begin() + static_cast<std::ptrdiff_t>(degraded));
  return mean_step_of(healed, machines);
}

std::vector<LinkReport> blame_links(const Scenario& scenario, const Result& result, Machines& machines) {
  std::vector<LinkReport> reports;
  const std::size_t examined = std::min(scenario.cluster.degraded.size(), kMostLinksExamined);
  for (std::size_t i = 0; i < examined; ++i) {
    const DegradedLink& link = scenario.cluster.degraded[i];
    reports.push_back({i, link.to ? link.from + " - " + *link.to : link.from,
                       mean_step(result) - mean_step_without(scenario, i, machines)});
  }
  std::ranges::stable_sort(reports, std::ranges::greater{}, &LinkReport::step_delay);
  return reports;
}

}  // namespace

Prediction predict(const Scenario& scenario, const TraceRequest& trace) {
  Machines machines;
  return predict(scenario, trace, machines);
}

Prediction predict(const Scenario& given, const TraceRequest& trace, Machines& machines,
                   const StepProgress& progress) {
  const Scenario scenario = with_length(given);
  auto [topology, job, result, batches] = run(scenario, trace, machines, progress);
  Report report = summarize(job, result, *topology, alone_throughput(scenario), gradients_of_step(scenario));
  std::vector<LinkReport> links = blame_links(scenario, result, machines);
  return {scenario,          std::move(topology), std::move(job),    std::move(result),
          std::move(report), std::move(links),    std::move(batches)};
}

Seconds mean_step_of(const Scenario& scenario, Machines& machines) {
  return mean_step(run(with_length(scenario), {}, machines).result);
}

std::string gpu_name(const Scenario& scenario, Rank rank) {
  const auto per_node = static_cast<std::uint32_t>(gpus_of_node(scenario.cluster));
  return "node" + std::to_string(rank.value / per_node) + "/gpu" + std::to_string(rank.value % per_node);
}

}  // namespace paceline
