// What is decided while the run goes: does it end as it does step by step?
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "random_job.h"
#include "same_result.h"
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

TEST_CASE("what is decided while the run goes ends as it does step by step") {
  std::size_t fused = 0, unlike = 0;
  for (std::uint64_t seed = 1; seed <= rounds(400); ++seed) {
    const RandomJob random = random_negotiation(seed);
    INFO("seed " << seed);
    const auto ranks = static_cast<std::uint32_t>(random.job.ranks());
    TraceRequest trace = trace_of_first(ranks, 3);
    trace.rank_steps = 1000;
    EventEngine by_times(random.job, random.run, trace),
        by_steps(random.job, random.run, trace, AlikeSteps::repeated, CollectiveEnds::by_steps);
    by_times.run();
    by_steps.run();
    const Result quick = by_times.finish(), expected = by_steps.finish();
    check_same_result(quick, expected);
    check_same_traces(quick, expected);
    CHECK(quick.events <= expected.events);
    unlike += quick.events < expected.events ? 1 : 0;
    REQUIRE(quick.decisions.iterations.size() == expected.decisions.iterations.size());
    for (std::size_t i = 0; i < expected.decisions.iterations.size(); ++i) {
      const auto &ours = quick.decisions.iterations[i], &theirs = expected.decisions.iterations[i];
      REQUIRE(ours.size() == theirs.size());
      for (std::size_t c = 0; c < theirs.size(); ++c) {
        CHECK(ours[c].tensors == theirs[c].tensors);
        CHECK(ours[c].decided == theirs[c].decided);
        CHECK(ours[c].plan == theirs[c].plan);
        fused += theirs[c].tensors.size() > 1 ? 1 : 0;
      }
    }
  }
  CHECK(fused > rounds(400));
  CHECK(unlike > rounds(400) / 2);
}

}  // namespace
}  // namespace paceline
