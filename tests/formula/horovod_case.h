// Horovod's jobs of few layers, whose all-reduces take a time that is known, whoever takes part.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/strategy/build_job.h"
#include "tests/dice.h"
#include "topology/topology.h"

namespace paceline::horovod_case {

// Picoseconds of a byte, on GPUs; all-reduces of hosts take kOnHosts times as long.
inline constexpr std::int64_t kOnHosts = 5;
inline SimTime time_of(CollectiveKind kind, Bytes bytes) {
  const std::int64_t each = kind == CollectiveKind::all_reduce       ? 1000
                            : kind == CollectiveKind::reduce_scatter ? 410
                            : kind == CollectiveKind::all_gather     ? 370
                            : kind == CollectiveKind::reduce         ? 730
                                                                     : 690;
  return SimTime{each * bytes.value};
}
inline SimTime reduction(Bytes bytes) { return time_of(CollectiveKind::all_reduce, bytes); }

inline CollectivePlanner known_planner(std::uint32_t nodes, std::uint32_t gpus_per_node = 1,
                                       std::int64_t factor = 1) {
  Communicator start;
  start.ranks = nodes * gpus_per_node;
  CollectiveGraph nothing;
  nothing.ranks = start.ranks;
  start.graphs.push_back(std::move(nothing));
  return {
      std::move(start), {nodes, gpus_per_node}, [factor](Communicator&, const CollectiveRequest& request) {
        CollectivePlan plan;
        plan.kind = request.kind;
        plan.bytes = request.bytes;
        plan.startup = factor * time_of(request.kind, request.bytes);
        return plan;
      }};
}

struct Case {
  std::vector<std::int64_t> elements;  // of each layer's tensor, in the model's order
  SimTime forward{}, backward{};       // of each layer
  std::int64_t launch_us = 0, collective_us = 0;
  HorovodSpec horovod{};
  std::uint32_t nodes = 2, gpus = 1;  // of each
};

inline Workload workload_of(const Case& c) {
  Workload work;
  work.training.strategy = StrategyKind::horovod;
  work.training.horovod = c.horovod;
  work.training.host = {Seconds(1e-6 * static_cast<double>(c.launch_us)),
                        Seconds(1e-6 * static_cast<double>(c.collective_us)), 1};
  work.training.batch_per_gpu = 1;
  work.costs.gpu.memory_bandwidth = BytesPerSecond(1e12);
  for (const std::int64_t elements : c.elements) {
    Layer layer;
    layer.name = "layer " + std::to_string(work.model.layers.size());
    layer.parameters = {elements};
    work.model.layers.push_back(layer);
    work.layers.push_back({c.forward, c.backward, 1, 1});
  }
  return work;
}

inline const HostCopy kCopies{{}, {}, BytesPerSecond(8e8), BytesPerSecond(5e8), SimTime{3'000'000}};

inline TrainingJob job_of(const Case& c) {
  CollectivePlanner planner = known_planner(c.nodes, c.gpus);
  TrainingJob job = build_job(c.horovod, workload_of(c), planner);
  if (c.horovod.hierarchical) {
    job.negotiation->hosts =
        std::make_shared<const CollectivePlanner>(known_planner(c.nodes, c.gpus, kOnHosts));
    job.negotiation->copies.assign(c.nodes * c.gpus, kCopies);
  }
  return job;
}
inline TrainingJob job_of(Case c, std::uint32_t ranks) {
  c.nodes = ranks;
  return job_of(c);
}

inline Case random_case(Dice& dice) {
  const std::string versions[] = {"0.9", "0.15", "0.16", "0.19", "0.20", "0.21", "0.22", "0.23", "0.28"};
  Case c;
  c.elements.resize(1 + dice.below(12));
  for (std::int64_t& each : c.elements) {
    each = dice.between(1, 3000);
  }
  c.forward = SimTime{dice.between(1, 3'000'000) * 101};
  c.backward = SimTime{dice.between(1, 6'000'000) * 103};
  c.launch_us = dice.between(1, 40);
  c.collective_us = dice.between(0, 60);
  c.horovod.version = dice.one_of(versions);
  // Never at one moment with a host, whose times are whole microseconds at first.
  c.horovod.cycle_time = Seconds(1e-9 * (static_cast<double>(dice.between(10, 3000)) * 1000 + 0.137));
  c.horovod.negotiation = Seconds(1e-9 * (static_cast<double>(dice.between(0, 300)) * 1000 + 0.211));
  c.horovod.fusion_threshold = Bytes(dice.between(0, 30'000));
  c.gpus = static_cast<std::uint32_t>(dice.between(1, 4));
  c.horovod.hierarchical = dice.maybe(0.4);
  c.horovod.torus = !c.horovod.hierarchical && dice.maybe(0.3);
  if (c.horovod.hierarchical) {
    c.horovod.version = versions[1 + dice.below(std::size(versions) - 1)];
  } else if (c.horovod.torus) {
    c.horovod.version = dice.maybe(0.5) ? "0.26" : "0.28";
  }
  return c;
}

}  // namespace paceline::horovod_case
