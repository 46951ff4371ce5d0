// Is the critical path a chain that adds up to the step?
#include "sim/report/critical_path.h"

#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <utility>

#include "path_of.h"
#include "random_job.h"
#include "sim/engine/variability.h"
#include "sim/report/report.h"
#include "tests/dice.h"

namespace paceline {
namespace {

CriticalPath path_of(const RandomJob& random, EngineChoice engine, std::uint32_t iteration) {
  RunSpec run = random.run;
  run.engine = engine;
  const Result result = simulate(random.job, run);
  return critical_path(random.job, simulate(random.job, run, ranks_on_path(random.job, result, iteration)),
                       iteration);
}

TEST_CASE("the pieces of a critical path touch and add up to the step, to the picosecond") {
  for (std::uint64_t seed = 1; seed <= rounds(400); ++seed) {
    RandomJob random = random_job(seed, 24);
    if (seed % 4 == 0) {
      Dice dice(seed);
      add_kinds(random.job, dice);
    }
    random.run.engine = EngineChoice::vector;
    const Result result = simulate(random.job, random.run);
    for (std::uint32_t iteration = 1; iteration < result.iteration_end.size(); ++iteration) {
      INFO("seed " << seed << ", iteration " << iteration);
      check_path_adds_up(random.job, random.run, result, iteration);
    }
  }
}

TEST_CASE("both engines find the same critical path") {
  for (std::uint64_t seed = 1; seed <= rounds(100); ++seed) {
    const RandomJob random = random_job(seed, 12);
    const CriticalPath a = path_of(random, EngineChoice::vector, 1),
                       b = path_of(random, EngineChoice::event, 1);
    INFO("seed " << seed);
    REQUIRE(a.segments.size() == b.segments.size());
    for (std::size_t i = 0; i < a.segments.size(); ++i) {
      CHECK(a.segments[i].kind == b.segments[i].kind);
      CHECK(a.segments[i].rank == b.segments[i].rank);
      CHECK(a.segments[i].what == b.segments[i].what);
      CHECK(a.segments[i].start == b.segments[i].start);
    }
  }
}

// Two ranks; rank 1 computes 3 ms, rank 0 1 ms; the all-reduce takes c; then both compute 1 ms more.
TEST_CASE("a slow rank's computing, then the collective, then the last to end") {
  CollectivePlanner planner =
      ring_planner(std::vector<HopCost>(2, {BytesPerSecond(1e9), SimTime{1'000'000}, {}}));
  RandomJob random;
  TrainingJob& job = random.job;
  job.plans = {planner.plan(CollectiveKind::all_reduce, Bytes(1 << 20))};
  job.communicator = planner.communicator();
  job.main().steady.collectives = {0};
  job.main().steady.ops = {{OpKind::kernel, 0, SimTime{1'000'000'000}, {}, "a", {Phase::forward}},
                           {OpKind::collective, 0, {}, {}, "all_reduce bucket 0"},
                           {OpKind::wait, 0, {}, {}, "wait"},
                           {OpKind::kernel, 0, SimTime{1'000'000'000}, {}, "b", {Phase::update}}};
  job.main().warm_up = job.main().steady;
  job.variability.slow_gpus = {{{1}, 0, 3}};
  random.run.iterations = 2;
  const CriticalPath path = path_of(random, EngineChoice::automatic, 2);
  REQUIRE(path.segments.size() == 3);
  CHECK(path.segments[0].what == "forward");
  CHECK(path.segments[0].rank == Rank(1));
  CHECK(path.segments[0].end - path.segments[0].start == SimTime{3'000'000'000});
  CHECK(path.segments[1].kind == PathKind::communication);
  CHECK(path.segments[1].what == "all_reduce bucket 0");
  CHECK(path.segments[2].what == "optimizer");
  CHECK(path.segments[2].end - path.segments[2].start == SimTime{3'000'000'000});
}

TEST_CASE("a rank's factor is the same in whatever order it is asked for") {
  Dice dice(5);
  for (int round = 0; round < 20; ++round) {
    VariabilitySpec spec = random_variability(dice, 4);
    spec.per_operation = spec.per_iteration = spec.per_step = {};
    spec.slow_gpus.clear();
    spec.spared_gpus.clear();
    const std::uint32_t later = std::exchange(spec.first_iteration, 0);
    spec.transient = {{dice.real(0, 0.4), static_cast<int>(dice.between(1, 5)), 2},
                      {dice.real(0, 0.4), static_cast<int>(dice.between(1, 40)), 3}};
    const std::uint64_t seed = dice.next();
    const Variability variability(spec, 4, seed);
    spec.first_iteration = later;
    const Variability goes_on(spec, 4, seed);
    for (std::uint32_t r = 4; r-- > 0;) {
      std::array<int, 2> ill_for{};  // counted, iteration after iteration
      for (std::uint32_t iteration = 0; iteration < 30; ++iteration) {
        double factor = 1;
        for (std::uint32_t i = 0; i < 2; ++i) {
          if (uniform({seed, Stream::transient, iteration}, Rank(r), i) < spec.transient[i].probability) {
            ill_for[i] = spec.transient[i].length;
          }
          factor *= ill_for[i]-- > 0 ? spec.transient[i].factor : 1;
        }
        CHECK(variability.rank_factor(Rank(r), iteration) == factor);
        CHECK((iteration < later || goes_on.rank_factor(Rank(r), iteration - later) == factor));
      }
    }
  }
}

TEST_CASE("a spared GPU is as fast as the others, and changes no other draw") {
  VariabilitySpec spec;
  spec.per_iteration = {DistributionKind::lognormal, 0.1, {}};
  const VariabilitySpec jitter = spec;
  spec.slow_gpus = {{{3}, 0, 1.5}, {{}, 0.5, 2}};
  spec.transient = {{0.3, 2, 1.25}};
  VariabilitySpec sparing = spec;
  sparing.spared_gpus = {3, 7};
  constexpr std::size_t kRanks = 12;
  Variability slow(spec, kRanks, 9), spared(sparing, kRanks, 9), healthy(jitter, kRanks, 9);
  for (std::uint32_t iteration = 0; iteration < 20; ++iteration) {
    for (std::size_t r = 0; r < kRanks; ++r) {
      const double with = slow.rank_factor(Rank(r), iteration),
                   without = healthy.rank_factor(Rank(r), iteration);
      CHECK(spared.rank_factor(Rank(r), iteration) == (r == 3 || r == 7 ? without : with));
    }
  }
}

}  // namespace
}  // namespace paceline
