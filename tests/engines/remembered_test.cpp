// Is a collective that is entered as before left as before, to the picosecond, and not computed again?
#include <catch2/catch.hpp>

#include "random_job.h"
#include "sim/collective/collective_times.h"
#include "sim/engine/simulate.h"
#include "tests/dice.h"

namespace paceline {
namespace {

// All kinds and sizes of a random communicator.
std::vector<CollectivePlan> random_plans(Dice& dice, CollectivePlanner& planner) {
  std::vector<CollectivePlan> plans;
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::broadcast}) {
    for (int i = 0; i < 2; ++i) {
      plans.push_back(planner.plan(kind, Bytes(dice.between(1, 4'000'000))));
    }
  }
  return plans;
}

TEST_CASE("remembered ends are those that are computed, switches and repetitions included") {
  for (std::uint64_t seed = 1; seed <= rounds(150); ++seed) {
    Dice dice(seed);
    const auto ranks = static_cast<std::size_t>(dice.between(2, 16));
    CollectivePlanner planner = random_planner(dice, ranks);
    const std::vector<CollectivePlan> plans = random_plans(dice, planner);
    CollectiveTimes remembering(planner.communicator(), plans);
    CollectiveTimes computing(planner.communicator(), plans, true, 0);
    std::vector<std::vector<SimTime>> patterns(3, std::vector<SimTime>(ranks));
    for (std::vector<SimTime>& pattern : patterns) {
      for (SimTime& t : pattern) {
        t = SimTime{dice.between(0, 300'000'000)};
      }
    }
    std::vector<SimTime> launch(ranks), end(ranks), wanted(ranks);
    SimTime now;
    for (int i = 0; i < 30; ++i) {
      // Now and then so soon that a switch is still in the collective before.
      const SimTime begin = dice.maybe(0.2) ? now : now + SimTime{dice.between(0, 1'000'000'000'000)};
      const auto plan = static_cast<std::uint32_t>(dice.between(0, 3));
      const std::vector<SimTime>& pattern = patterns[static_cast<std::size_t>(dice.between(0, 2))];
      std::ranges::transform(pattern, launch.begin(), [&](SimTime t) { return begin + t; });
      remembering.end(plan, launch, begin, end);
      computing.end(plan, launch, begin, wanted);
      INFO("seed " << seed << ", collective " << i);
      CHECK(end == wanted);
      now = std::ranges::max(end);
    }
    CHECK(remembering.computed() < computing.computed());
  }
}

TEST_CASE("what is entered as before is not computed again") {
  Dice dice(2);
  CollectivePlanner planner = random_planner(dice, 12);
  const std::vector<CollectivePlan> plans = random_plans(dice, planner);
  CollectiveTimes times(planner.communicator(), plans);
  std::vector<SimTime> launch(12), end(12);
  for (int step = 0; step < 50; ++step) {
    for (std::size_t r = 0; r < launch.size(); ++r) {
      launch[r] = SimTime{step * 1'000'000'000'000 + static_cast<std::int64_t>(r * 1'000'000)};
    }
    times.end(0, launch, launch[0], end);
  }
  CHECK(times.computed() == 1);
}

TEST_CASE("the engines agree on many steps that are alike") {
  for (std::uint64_t seed = 1; seed <= rounds(60); ++seed) {
    RandomJob random = random_job(seed, 10);
    random.job.variability.per_iteration = random.job.variability.per_operation =
        random.job.variability.per_step = {};
    random.job.variability.transient.clear();
    if (random.job.input) {
      random.job.input->jitter = {};
    }
    random.run.iterations = 12;
    const Result event = run_event_engine(random.job, random.run),
                 vector = run_vector_engine(random.job, random.run);
    INFO("seed " << seed);
    CHECK(event.fingerprint == vector.fingerprint);
    CHECK(event.iteration_end == vector.iteration_end);
    CHECK((event.waited_for == vector.waited_for));
  }
}

}  // namespace
}  // namespace paceline
