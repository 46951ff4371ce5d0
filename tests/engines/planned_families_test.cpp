// Collectives of a family in both engines: each group as if it were alone where they share no link.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "same_result.h"
#include "sim/collective/host_collectives.h"
#include "sim/collective/nccl.h"
#include "sim/engine/simulate.h"
#include "tests/dice.h"
#include "tests/trace_of_first.h"

namespace paceline {
namespace {

struct Exchange {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes bytes;
  SimTime forward, backward;
};

// Forward, backward, one collective of all ranks' groups, and the wait for it.
TrainingJob job_in_groups(const Exchange& step, const GroupShape& groups, CollectivePlanner& planner,
                          const std::vector<double>& slow) {
  TrainingJob job;
  CollectivePlan plan = planner.plan({step.kind, step.bytes, groups});
  if (groups != kAllRanks) {
    plan.family = 0;
    job.families = {family_of(groups, planner.layout())};
  }
  job.plans = {plan};
  job.communicator = for_plans(planner.communicator(), job.plans);
  job.main().steady.collectives = {0};
  job.main().steady.ops = {{OpKind::kernel, 0, step.forward, SimTime{5'000'000}, "forward"},
                           {OpKind::kernel, 0, step.backward, SimTime{5'000'000}, "backward"},
                           {OpKind::collective, 0, {}, SimTime{15'000'000}, "exchange"},
                           {OpKind::wait, 0, {}, {}, "wait"}};
  job.main().warm_up = job.main().steady;
  for (std::size_t r = 0; r < slow.size(); ++r) {
    job.variability.slow_gpus.push_back({{static_cast<std::int64_t>(r)}, 0, slow[r]});
  }
  return job;
}

constexpr int kFamilyIterations = 4;

Result simulated(const TrainingJob& job, EngineChoice engine) {
  RunSpec run;
  run.iterations = kFamilyIterations;
  run.engine = engine;
  return simulate(job, run, trace_of_first(static_cast<std::uint32_t>(job.ranks()), kFamilyIterations + 1));
}

ClusterSpec gpus_in_use(const char* node, int nodes, int gpus) {
  ClusterSpec spec;
  spec.node = node_preset(node);
  spec.nodes = nodes;
  spec.gpus_per_node = gpus;
  return spec;
}

TEST_CASE("in a family each group does what it does alone, in both engines") {
  Dice dice(41);
  constexpr CollectiveKind kKinds[] = {CollectiveKind::all_reduce,     CollectiveKind::all_gather,
                                       CollectiveKind::reduce_scatter, CollectiveKind::broadcast,
                                       CollectiveKind::reduce,         CollectiveKind::all_to_all};
  for (std::uint64_t round = 0; round < rounds(60); ++round) {
    const bool across = dice.maybe(0.5);  // on A100 two GPUs share their two NICs
    const char* node = across || dice.maybe(0.5) ? "dgx-h100" : "dgx-a100";
    const auto nodes = static_cast<int>(dice.between(2, 4));
    const Topology topology = build_topology(gpus_in_use(node, nodes, 8));
    const Topology alone = build_topology(across ? gpus_in_use(node, nodes, 1) : gpus_in_use(node, 1, 8));
    CollectiveSpec spec;
    spec.limited_fifos = dice.maybe(0.5);
    spec.max_channels = static_cast<int>(dice.between(1, 4));
    CollectivePlanner families = nccl_planner(topology, spec, {}), single = nccl_planner(alone, spec, {});
    const GroupShape groups =
        across ? same_gpu_of_every_node(families.layout()) : gpus_of_each_node(families.layout());
    const Exchange step{dice.one_of(kKinds), Bytes(dice.between(1, 4'000'000)),
                        SimTime{dice.between(0, 100'000'000)}, SimTime{dice.between(0, 300'000'000)}};
    std::vector<double> slow;
    for (std::size_t r = 0; r < topology.ranks(); ++r) {
      slow.push_back(dice.real(1, 1.2));
    }
    const TrainingJob job = job_in_groups(step, groups, families, slow);
    REQUIRE_FALSE(why_not_vector(job));
    const Result event = simulated(job, EngineChoice::event), vector = simulated(job, EngineChoice::vector);
    INFO("round " << round << ", " << node << ", " << nodes << " nodes, " << (across ? "across" : "within"));
    CHECK(event.iteration_end == vector.iteration_end);
    CHECK(event.fingerprint == vector.fingerprint);
    for (const std::vector<std::uint32_t>& ranks : job.families[0].groups) {
      std::vector<double> own;
      for (const std::uint32_t rank : ranks) {
        own.push_back(slow[rank]);
      }
      const Result one = simulated(job_in_groups(step, kAllRanks, single, own), EngineChoice::event);
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        REQUIRE(std::ranges::equal(event.trace[ranks[i]].ops, one.trace[i].ops));
        REQUIRE(std::ranges::equal(vector.trace[ranks[i]].ops, one.trace[i].ops));
      }
    }
  }
}

}  // namespace
}  // namespace paceline
