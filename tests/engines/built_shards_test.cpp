// FSDP, hybrid sharding and ZeRO as they are built: random models, units, groups and disturbances on both engines.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "random_job.h"
#include "same_result.h"
#include "sim/collective/host_collectives.h"
#include "sim/engine/simulate.h"
#include "sim/layers/layer_spans.h"
#include "sim/strategy/build_job.h"
#include "tests/dice.h"
#include "tests/meetings.h"
#include "tests/plain_hosts.h"
#include "tests/trace_of_first.h"
#include "topology/topology.h"

namespace paceline {
namespace {

Model random_blocks(Dice& dice) {
  Model model{.name = "blocks", .input = "", .layers = {}};
  for (std::int64_t l = dice.between(1, 10); l > 0; --l) {
    Layer layer;
    layer.name = dice.maybe(0.3) ? "head" : "blocks." + std::to_string(l / 2) + ".part";
    for (std::int64_t t = dice.between(0, 2); t > 0; --t) {
      layer.parameters.push_back(dice.between(1, 3'000'000));
    }
    layer.forward_macs = dice.between(0, 2'000'000'000);
    layer.output_elements = dice.between(1, 1'000'000);
    model.layers.push_back(layer);
  }
  model.layers.front().parameters.push_back(dice.between(1, 3'000'000));
  return model;
}

TrainingSpec random_training(Dice& dice, const Model& model) {
  TrainingSpec training;
  training.strategy = dice.maybe(0.6) ? StrategyKind::fsdp : StrategyKind::zero;
  training.zero.stage = static_cast<int>(dice.between(1, 3));
  training.zero.reduce_scatter = dice.maybe(0.5);
  training.zero.overlap_gather = dice.maybe(0.5);
  FsdpSpec& fsdp = training.fsdp;
  if (dice.maybe(0.3)) {
    fsdp.units.parameters = dice.between(1, 5'000'000);
  } else if (dice.maybe(0.2)) {
    fsdp.units.layers = {static_cast<std::int64_t>(model.layers.size())};
  }
  fsdp.reshard_after_forward = {dice.maybe(0.7), dice.maybe(0.2) ? 2 : 0};
  fsdp.shard_group = {dice.maybe(0.2) ? 2 : 0, dice.maybe(0.3)};
  training.activation_checkpointing =
      dice.maybe(0.3) ? ActivationCheckpointing::full : ActivationCheckpointing::none;
  training.accumulation = static_cast<int>(dice.maybe(0.6) ? 1 : dice.between(2, 3));
  for (Precision* each : {&training.precision, &training.gradients, &training.parameters}) {
    *each = dice.maybe(0.5) ? Precision::fp32 : Precision::bf16;
  }
  if (dice.maybe(0.4)) {
    fsdp.reduce_precision = Precision::fp32;
  }
  if (dice.maybe(0.5)) {
    training.slowdown_while_communicating = {dice.between(11, 20), 10};
  }
  if (dice.maybe(0.5)) {
    training.host = {Seconds(dice.real(0, 2e-5)), Seconds(dice.real(0, 2e-5)),
                     static_cast<int>(dice.between(0, 2))};
  }
  return training;
}

TEST_CASE("built FSDP and hybrid sharding and ZeRO: the engines agree to the picosecond") {
  for (std::uint64_t seed = 1; seed <= rounds(2000); ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const RankLayout layout{static_cast<std::uint32_t>(dice.between(1, 3)),
                            static_cast<std::uint32_t>(2 * dice.between(1, 2))};
    const Model model = random_blocks(dice);
    const TrainingSpec training = random_training(dice, model);
    CollectivePlanner planner = meeting_planner(layout, [&](const CollectiveRequest& request) {
      return SimTime{static_cast<std::int64_t>(static_cast<double>(request.bytes.value) * dice.real(1, 50)) +
                     1};
    });
    const TrainingJob job = build_job(
        strategy_of(training),
        workload(model, gpu_preset("H100"), training, random_variability(dice, layout.ranks())), planner);
    RunSpec run;
    run.iterations = static_cast<int>(1 + seed % 3);
    run.seed = seed;
    run.engine = EngineChoice::event;
    const TraceRequest all = trace_of_first(layout.ranks(), 4);
    const Result event = simulate(job, run, all);
    run.engine = EngineChoice::vector;
    const Result vector = simulate(job, run, all);
    check_same_result(event, vector);
    check_same_traces(event, vector);
  }
}

// Their kernels send on when ranks have left, as switches do.
TEST_CASE("FSDP over gloo on unequal links: the engines agree to the picosecond") {
  for (std::uint64_t seed = 1; seed <= rounds(100); ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    ClusterSpec cluster =
        plain_hosts(static_cast<int>(dice.between(2, 6)), BytesPerSecond(1e9), Seconds(1e-6), Seconds{});
    for (int host = 0; host < cluster.nodes; ++host) {
      if (dice.maybe(0.4)) {
        cluster.degraded.push_back({"node" + std::to_string(host) + "/nic0", "leaf0", dice.real(0.2, 1), {}});
      }
    }
    const Model model = random_blocks(dice);
    TrainingSpec training;
    training.strategy = StrategyKind::fsdp;
    training.accumulation = static_cast<int>(dice.between(1, 2));
    training.collective.library = CollectiveLibrary::gloo;
    const Topology topology = build_topology(cluster);
    CollectivePlanner planner = collective_planner(topology, {.collective = training.collective});
    const TrainingJob job = build_job(
        strategy_of(training),
        workload(model, gpu_preset("H100"), training, random_variability(dice, topology.ranks())), planner);
    RunSpec run;
    run.iterations = static_cast<int>(2 + seed % 4);
    run.seed = seed;
    run.engine = EngineChoice::event;
    const TraceRequest all = trace_of_first(static_cast<std::uint32_t>(topology.ranks()), 4);
    const Result event = simulate(job, run, all);
    run.engine = EngineChoice::vector;
    const Result vector = simulate(job, run, all);
    check_same_result(event, vector);
    check_same_traces(event, vector);
  }
}

}  // namespace
}  // namespace paceline
