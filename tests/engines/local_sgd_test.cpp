// Random jobs of local SGD: ranks drift for some steps, then average. Do the engines agree, do the parts add up?
#include "sim/strategy/local_sgd.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <utility>

#include "path_of.h"
#include "random_job.h"
#include "same_result.h"
#include "sim/engine/simulate.h"
#include "sim/strategy/run_length.h"
#include "tests/meetings.h"
#include "tests/trace_of_first.h"

namespace paceline {
namespace {

RandomJob random_local_job(std::uint64_t seed) {
  Dice dice(seed);
  TrainingSpec training = random_training(dice);
  training.strategy = StrategyKind::local_sgd;
  LocalSgdSpec& local = training.local_sgd;
  local.period = static_cast<int>(dice.between(1, 5));
  local.warm_up = dice.between(0, 1) * dice.between(1, 9);
  local.copy_back = dice.maybe(0.7);
  const bool in_nodes = dice.maybe(0.4);
  RunSpec run;
  run.iterations = static_cast<int>(dice.between(1, 8));
  run = with_length(run, training);
  run.seed = dice.next();
  const Model model = random_model(dice);
  const GpuSpec gpu = gpu_preset("A100-80GB");
  if (in_nodes) {
    local.group = LocalGroup::node;
    training.ddp.reduction = Reduction::pytorch_ddp;
    training.ddp.wire.reset();
    const RankLayout layout{static_cast<std::uint32_t>(dice.between(2, 4)),
                            static_cast<std::uint32_t>(dice.between(2, 4))};
    const std::int64_t slow = dice.between(1, 200);
    CollectivePlanner planner = meeting_planner(layout, [slow](const CollectiveRequest& request) {
      return SimTime{1'000'000 + slow * request.bytes.value};
    });
    const VariabilitySpec variability = random_variability(dice, layout.ranks());
    return {build_job(local, workload(model, gpu, training, variability), planner), run};
  }
  const auto ranks = static_cast<std::size_t>(dice.between(1, 12));
  const VariabilitySpec variability = random_variability(dice, ranks);
  CollectivePlanner planner = random_planner(dice, ranks);
  return {build_job(local, workload(model, gpu, training, variability), planner), run};
}

TEST_CASE("local SGD: the engines agree to the picosecond, and every rank's parts add up") {
  std::uint64_t by_vector = 0;
  for (std::uint64_t seed = 1; seed <= rounds(1000); ++seed) {
    INFO("seed " << seed);
    RandomJob random = random_local_job(seed);
    TraceRequest all = trace_of_first(static_cast<std::uint32_t>(random.job.ranks()),
                                      1 + static_cast<std::uint32_t>(random.run.iterations));
    all.rank_steps = 1'000;
    const Result event = run_event_engine(random.job, random.run, all);
    const SimTime total = event.iteration_end.back() - event.iteration_end.front();
    for (const Breakdown& b : event.breakdown) {
      CHECK(b.compute + b.exposed_communication + b.straggler_wait + b.input_wait + b.other == total);
      CHECK(std::min({b.compute, b.exposed_communication, b.straggler_wait, b.input_wait, b.other}) >=
            SimTime{});
    }
    check_rank_steps(event);
    for (std::uint32_t i = 1; seed % 5 == 0 && i < event.iteration_end.size(); ++i) {
      check_path_adds_up(random.job, random.run, event, i);
    }
    if (!why_not_vector(random.job)) {
      ++by_vector;
      const Result vector = run_vector_engine(random.job, random.run, all);
      check_same_result(event, vector);
      check_same_traces(event, vector);
      CHECK((event.rank_steps == vector.rank_steps));
    }
  }
  CHECK(by_vector == rounds(1000));
}

// Ranks without jitter never wait for a straggler; one that is always slow is waited for at averages alone.
TEST_CASE("between two averages nobody waits, however slow a rank is") {
  TrainingJob job;
  add_meetings(job, 3, SimTime{1'000});
  constexpr std::uint32_t kPeriod = 10;
  job.main().steady = {{{.kind = OpKind::kernel, .duration = SimTime{100'000}},
                        {.kind = OpKind::collective, .every = kPeriod},
                        {.kind = OpKind::wait, .every = kPeriod}},
                       {0}};
  job.main().warm_up = job.main().steady;
  job.variability.slow_gpus = {{{2}, 0, 3}};
  RunSpec run;
  run.iterations = kPeriod;
  TraceRequest all = trace_of_first(3, kPeriod + 1);
  for (const EngineChoice engine : {EngineChoice::event, EngineChoice::vector}) {
    run.engine = engine;
    const Result result = simulate(job, run, all);
    CHECK(result.breakdown[0].compute == SimTime{10 * 100'000});
    CHECK(result.breakdown[0].straggler_wait == SimTime{10 * 200'000});
    CHECK(result.breakdown[2].straggler_wait == SimTime{});
    CHECK(result.breakdown[0].exposed_communication == SimTime{1'000});
    CHECK(result.blame[2].count == 1);
    // Rank 0 is ahead in the trace: its ninth step ends when rank 2's third does.
    const auto end = [&](std::uint32_t rank, std::uint32_t iteration) {
      return std::ranges::find_if(
                 result.trace,
                 [&](const TracedIteration& t) { return t.rank == Rank(rank) && t.iteration == iteration; })
          ->ops[0]
          .end;
    };
    CHECK(end(0, 9) == end(2, 3));
  }
}

}  // namespace
}  // namespace paceline
