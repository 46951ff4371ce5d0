// Where no collective keeps ranks together they drift apart, by any number of iterations.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "same_result.h"
#include "sim/engine/simulate.h"
#include "tests/dice.h"

namespace paceline {
namespace {

struct Kernels {
  std::vector<std::vector<SimTime>> ends;    // by rank, by iteration
  std::vector<std::vector<OpSpan>> kernels;  // by rank
};

// A rank alone: a host that may be so many iterations ahead, and a stream.
Kernels by_recursion(const TrainingJob& job, const std::vector<double>& factor, std::uint32_t iterations) {
  Kernels all{std::vector<std::vector<SimTime>>(job.ranks()), std::vector<std::vector<OpSpan>>(job.ranks())};
  for (std::size_t r = 0; r < job.ranks(); ++r) {
    SimTime host, stream;
    for (std::uint32_t i = 0; i <= iterations; ++i) {
      if (const auto ahead = static_cast<std::uint32_t>(job.host_runs_ahead); i > ahead) {
        host = std::max(host, all.ends[r][i - ahead - 1]);
      }
      for (const Op& op : job.program(Rank(r), i).ops) {
        host += op.host_cost;
        const SimTime start = std::max(host, stream);
        stream = start + SimTime{round_to_picoseconds(static_cast<double>(op.duration.ps) * factor[r])};
        all.kernels[r].push_back({start, stream});
      }
      all.ends[r].push_back(stream);
    }
  }
  return all;
}

TEST_CASE("ranks that drift apart by up to a thousand iterations: both engines and a recursion agree") {
  Dice dice(13);
  std::uint32_t most_apart = 0;
  for (std::uint64_t round = 0; round < rounds(60); ++round) {
    TrainingJob job;
    job.communicator.ranks = static_cast<std::uint32_t>(dice.between(2, 5));
    job.host_runs_ahead = static_cast<int>(dice.between(0, 3));
    for (std::int64_t i = dice.between(1, 4); i > 0; --i) {
      job.main().steady.ops.push_back({OpKind::kernel, 0, SimTime{dice.between(0, 5'000'000)},
                                       SimTime{dice.between(0, 1) * dice.between(0, 2'000'000)}, "kernel"});
    }
    job.main().warm_up = job.main().steady;
    std::vector<double> factor(job.ranks(), 1.0);
    for (std::size_t r = 1; r < job.ranks(); ++r) {
      factor[r] = dice.real(1, dice.maybe(0.3) ? 1000 : 3);
      job.variability.slow_gpus.push_back({{static_cast<std::int64_t>(r)}, 0, factor[r]});
    }
    RunSpec run;
    run.iterations = static_cast<int>(dice.maybe(0.1) ? 1100 : dice.between(1, 200));
    const auto last = static_cast<std::uint32_t>(run.iterations);
    const Kernels expected = by_recursion(job, factor, last);
    run.engine = EngineChoice::event;
    const Result event = simulate(job, run);
    run.engine = EngineChoice::vector;
    INFO("round " << round);
    check_same_result(event, simulate(job, run));
    for (std::uint32_t i = 0; i <= last; ++i) {
      SimTime latest;
      for (std::size_t r = 0; r < job.ranks(); ++r) {
        latest = std::max(latest, expected.ends[r][i]);
      }
      REQUIRE(event.iteration_end[i] == latest);
    }
    for (std::size_t r = 0; r < job.ranks(); ++r) {
      SimTime compute;
      for (const OpSpan& kernel : expected.kernels[r]) {
        compute +=
            std::max(kernel.end, event.iteration_end[0]) - std::max(kernel.start, event.iteration_end[0]);
      }
      CHECK(event.breakdown[r].compute == compute);
      const auto done = std::ranges::upper_bound(expected.ends[0], expected.ends[r].front());
      most_apart = std::max(most_apart, static_cast<std::uint32_t>(done - expected.ends[0].begin()));
    }
  }
  CHECK((kSanitized || most_apart > 500));
}

}  // namespace
}  // namespace paceline
