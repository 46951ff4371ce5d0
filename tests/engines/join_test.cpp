// Ranks that join and ranks that average, in jobs built by the strategies: do the event engine and a plain simulation
// agree to the picosecond, do the parts add up?
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <utility>

#include "path_of.h"
#include "plain_simulation.h"
#include "random_job.h"
#include "sim/engine/simulate.h"
#include "sim/strategy/run_length.h"
#include "tests/meetings.h"
#include "tests/trace_of_first.h"

namespace paceline {
namespace {

// What a plain simulation has no word for is left out: input, slow-downs, jitter of operations.
RandomJob random_met_job(std::uint64_t seed) {
  Dice dice(seed);
  TrainingSpec training = random_training(dice);
  training.input.reset();
  training.slowdown_while_communicating = {};
  training.ddp.reduction = Reduction::pytorch_ddp;
  training.ddp.wire.reset();
  const RankLayout layout{static_cast<std::uint32_t>(dice.between(2, 3)),
                          static_cast<std::uint32_t>(dice.between(2, 3))};
  if (dice.maybe(0.6)) {
    training.accumulation = 1;
    training.ddp.static_graph = dice.maybe(0.3);
    training.ddp.join.emplace();
    for (std::uint32_t r = 0; r < layout.ranks(); ++r) {
      training.ddp.join->batches.push_back(dice.between(1, 5));
    }
    training.ddp.join->batches[dice.below(layout.ranks())] = dice.between(2, 6);
  } else {
    training.strategy = StrategyKind::local_sgd;
    training.local_sgd = {static_cast<int>(dice.between(1, 4)), dice.between(0, 1),
                          dice.maybe(0.5) ? LocalGroup::node : LocalGroup::none, dice.maybe(0.5)};
  }
  const std::int64_t each = dice.between(1, 100);
  CollectivePlanner planner = meeting_planner(layout, [each](const CollectiveRequest& request) {
    return SimTime{500'000 + each * request.bytes.value};
  });
  VariabilitySpec variability = random_variability(dice, layout.ranks());
  variability.per_operation = {};
  RunSpec run;
  run.iterations = static_cast<int>(dice.between(1, 5));
  run.seed = dice.next();
  const Workload work = workload(random_model(dice), gpu_preset("A100-80GB"), training, variability);
  return {build_job(strategy_of(training), work, planner), with_length(run, training)};
}

TEST_CASE("jobs that join or average: the event engine and a plain simulation agree to the picosecond") {
  for (std::uint64_t seed = 1; seed <= rounds(400); ++seed) {
    INFO("seed " << seed);
    const auto [job, run] = random_met_job(seed);
    const PlainSimulation::Spans expected = PlainSimulation(job, run).run();
    REQUIRE_FALSE(expected.empty());
    const Result result = run_event_engine(job, run,
                                           trace_of_first(static_cast<std::uint32_t>(job.ranks()),
                                                          static_cast<std::uint32_t>(run.iterations) + 1));
    for (const TracedIteration& traced : result.trace) {
      const Program& program = job.program(traced.rank, traced.iteration);
      for (std::size_t i = 0; i < traced.ops.size(); ++i) {
        if (program.ops[i].kind == OpKind::synchronize) {
          continue;  // the host's
        }
        const auto at = expected.find({traced.rank.value, traced.iteration, i});
        const auto [start, end] = at == expected.end() ? std::pair<SimTime, SimTime>{} : at->second;
        INFO("rank " << traced.rank.value << ", iteration " << traced.iteration << ", operation " << i);
        REQUIRE(traced.ops[i].start == start);
        REQUIRE(traced.ops[i].end == end);
      }
    }
    const SimTime total = result.iteration_end.back() - result.iteration_end.front();
    for (const Breakdown& b : result.breakdown) {
      CHECK(b.compute + b.exposed_communication + b.straggler_wait + b.input_wait + b.other == total);
      CHECK(std::min({b.compute, b.exposed_communication, b.straggler_wait, b.other}) >= SimTime{});
    }
    for (std::uint32_t i = 1; i < result.iteration_end.size(); ++i) {
      check_path_adds_up(job, run, result, i);
    }
  }
}

}  // namespace
}  // namespace paceline
