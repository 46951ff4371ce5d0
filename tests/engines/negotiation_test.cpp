// What is decided while the run goes: does it end as it does step by step?
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "random_job.h"
#include "same_result.h"
#include "scenarios/machines.h"
#include "scenarios/scenario.h"
#include "sim/engine/event_engine.h"
#include "sim/layers/layer_spans.h"
#include "sim/strategy/build_job.h"
#include "tests/dice.h"
#include "tests/trace_of_first.h"

namespace paceline {
namespace {

HorovodSpec random_horovod(Dice& dice) {
  const std::string versions[] = {"0.9", "0.15", "0.16", "0.19", "0.21", "0.28"};
  HorovodSpec horovod;
  horovod.version = dice.one_of(versions);
  horovod.cycle_time = Seconds(dice.real(1e-5, 5e-3));
  horovod.negotiation = Seconds(dice.real(0, 3e-4));
  horovod.fusion_threshold = Bytes(dice.between(0, 20'000'000));
  horovod.fp16 = dice.maybe(0.3);
  horovod.async_completion = dice.maybe(0.3);
  return horovod;
}

// On random rings, trees, chains and switches, with slow GPUs and jitter.
RandomJob random_negotiation(std::uint64_t seed) {
  Dice dice(seed);
  const auto ranks = static_cast<std::size_t>(dice.between(2, seed % 10 == 0 ? 24 : 8));
  TrainingSpec training = random_training(dice);
  training.strategy = StrategyKind::horovod;
  training.horovod = random_horovod(dice);
  training.compression = {};
  const VariabilitySpec variability = random_variability(dice, ranks);
  RandomJob random;
  random.run.iterations = static_cast<int>(dice.between(1, 4));
  random.run.seed = dice.next();
  CollectivePlanner planner = random_planner(dice, ranks);
  random.job =
      build_job(training.horovod,
                workload(random_model(dice), gpu_preset("A100-80GB"), training, variability), planner);
  return random;
}

struct Both {
  Result by_times, by_steps;
};
Both in_both_ways(const TrainingJob& job, const RunSpec& run) {
  TraceRequest trace = trace_of_first(static_cast<std::uint32_t>(job.ranks()), 3);
  trace.rank_steps = 1000;
  EventEngine by_times(job, run, trace),
      by_steps(job, run, trace, AlikeSteps::repeated, CollectiveEnds::by_steps);
  by_times.run();
  by_steps.run();
  return {by_times.finish(), by_steps.finish()};
}

// Returns how many collectives reduced several tensors.
std::size_t check_same(const Result& a, const Result& b) {
  check_same_result(a, b);
  check_same_traces(a, b);
  REQUIRE(a.decisions.iterations.size() == b.decisions.iterations.size());
  std::size_t fused = 0;
  for (std::size_t i = 0; i < a.decisions.iterations.size(); ++i) {
    const auto &ours = a.decisions.iterations[i], &theirs = b.decisions.iterations[i];
    REQUIRE(ours.size() == theirs.size());
    for (std::size_t c = 0; c < theirs.size(); ++c) {
      CHECK(ours[c].tensors == theirs[c].tensors);
      CHECK(ours[c].decided == theirs[c].decided);
      CHECK(ours[c].plan == theirs[c].plan);
      fused += theirs[c].tensors.size() > 1 ? 1 : 0;
    }
  }
  return fused;
}

TEST_CASE("what is decided while the run goes ends as it does step by step") {
  std::size_t fused = 0, fewer = 0;
  for (std::uint64_t seed = 1; seed <= rounds(400); ++seed) {
    const RandomJob random = random_negotiation(seed);
    INFO("seed " << seed);
    const auto [by_times, by_steps] = in_both_ways(random.job, random.run);
    fused += check_same(by_times, by_steps);
    fewer += by_times.events < by_steps.events ? 1 : 0;
  }
  CHECK(fused > rounds(400));
  CHECK(fewer > rounds(400) / 2);
}

bool has_switches(const Decisions& decisions) {
  for (std::size_t g = 0; g < decisions.graphs.size(); ++g) {
    if (std::ranges::any_of(decisions.graphs[g].thread_blocks, [](const ThreadBlock& thread_block) {
          return thread_block.holds() == ThreadBlock::kSwitch;
        })) {
      return true;
    }
  }
  return false;
}

// Horovod's stages, and its fusions beside another job's traffic.
std::string random_stages(Dice& dice) {
  const std::string reduced[] = {R"("hierarchical": true, "version": "0.19")", R"("torus": true)",
                                 R"("version": "0.28")"};
  const std::string nodes[] = {"dgx1-v100", "dgx-a100", "pcie-a100"};
  const std::size_t how = dice.below(3);
  const bool switches = dice.maybe(0.4), beside = how == 2 || dice.maybe(0.3), jitter = dice.maybe(0.5);
  const std::string node = switches ? "dgx-h100" : dice.one_of(nodes),
                    count = std::to_string(dice.between(2, 3)),
                    gpus = std::to_string(switches ? 8 : dice.between(2, 4)),
                    threshold = std::to_string(dice.between(0, 20));
  std::string text = R"({"cluster": {"node": ")" + node + R"(", "nodes": )" + count +
                     R"(, "gpus_per_node": )" + gpus +
                     R"(}, "model": "resnet18", "run": {"iterations": 2}, )";
  if (jitter) {
    text += R"("variability": {"per_operation": {"distribution": "lognormal", "cv": 0.1}}, )";
  }
  if (beside) {
    text +=
        R"("background": [{"from": 0, "to": 2, "rate": "4 GB/s"}, {"from": 3, "to": 1, "rate": "9 GB/s"}], )";
  }
  return text + R"("training": {"batch_per_gpu": 16, "strategy": "horovod", )" +
         R"("horovod": {"cycle_time": "700 us", "fusion_threshold": ")" + threshold + R"( MiB", )" +
         reduced[how] + (switches ? R"(}, "collective": {"nvls": true}}})" : "}}}");
}

TEST_CASE(
    "what is decided runs ahead of the clock as it does step by step, in stages and beside other traffic") {
  std::size_t fused = 0, with_switches = 0;
  for (std::uint64_t seed = 1; seed <= rounds(60); ++seed) {
    Dice dice(seed);
    const std::string text = random_stages(dice);
    CAPTURE(text);
    const Scenario scenario = parse_scenario(text, "decided.json");
    Machines machines;
    RunSpec run = scenario.run;
    run.seed = seed;
    const auto [by_times, by_steps] = in_both_ways(machines.build(scenario).job, run);
    fused += check_same(by_times, by_steps);
    CHECK(by_times.events < by_steps.events);
    with_switches += has_switches(by_times.decisions) ? 1 : 0;
  }
  CHECK(fused > rounds(60));
  CHECK(with_switches >= rounds(60) / 10);
}

}  // namespace
}  // namespace paceline
