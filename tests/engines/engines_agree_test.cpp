// Do the vector and the event engine agree to the picosecond?
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "random_job.h"
#include "same_result.h"
#include "sim/engine/simulate.h"
#include "tests/dice.h"

namespace paceline {

namespace {

const TracedIteration& traced_of(const Result& result, std::uint32_t iteration, Rank rank) {
  const auto found = std::find_if(result.trace.begin(), result.trace.end(), [&](const TracedIteration& t) {
    return t.iteration == iteration && t.rank == rank;
  });
  REQUIRE(found != result.trace.end());
  return *found;
}

// Operations that both engines record alike: a collective and a kernel always, a host's wait when there is
// one.
void check_same_spans(const Program& program, const std::vector<OpSpan>& a, const std::vector<OpSpan>& b) {
  REQUIRE(a.size() == program.ops.size());
  REQUIRE(b.size() == program.ops.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO("operation " << i << ", " << program.ops[i].label);
    CHECK(a[i] == b[i]);
  }
}

// The host issues in order, each operation at its cost; what it waits for first; and nothing runs before it
// is issued.
void check_issued(const Program& program, const TracedIteration& traced) {
  REQUIRE(traced.issued.size() == program.ops.size());
  SimTime before;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    INFO("operation " << i << ", " << op.label);
    const bool host_waits = op.kind == OpKind::take_batch || op.kind == OpKind::synchronize;
    CHECK(traced.issued[i] - op.host_cost >= before);
    CHECK((host_waits ? traced.issued[i] == traced.ops[i].end + op.host_cost
                      : traced.issued[i] <= traced.ops[i].start));
    before = traced.issued[i];
  }
}

void check_agreement(const RandomJob& random) {
  REQUIRE_FALSE(why_not_vector(random.job));
  const TraceRequest trace{{Rank(0), Rank(3)}, 1, 2, 1'000};
  const Result event = run_event_engine(random.job, random.run, trace);
  const Result vector = run_vector_engine(random.job, random.run, trace);
  check_same_result(event, vector);
  check_rank_steps(vector);
  CHECK((event.rank_steps == vector.rank_steps));
  REQUIRE(event.trace.size() == vector.trace.size());
  for (const TracedIteration& t : vector.trace) {
    const TracedIteration& same = traced_of(event, t.iteration, t.rank);
    check_same_spans(random.job.program(t.rank, t.iteration), same.ops, t.ops);
    CHECK(same.issued == t.issued);
    check_issued(random.job.program(t.rank, t.iteration), t);
  }
  // Tracing runs kernels one by one; without it they run in blocks.
  const Result untraced = run_vector_engine(random.job, random.run);
  CHECK(untraced.fingerprint == vector.fingerprint);
  CHECK(untraced.breakdown == vector.breakdown);
}

}  // namespace

TEST_CASE("both engines tell how far they are, which changes nothing") {
  using Told = std::vector<std::pair<std::size_t, std::size_t>>;
  for (std::uint64_t seed = 1; seed <= rounds(20); ++seed) {
    INFO("seed " << seed);
    const RandomJob random = random_job(seed, 12);
    const auto count = static_cast<std::size_t>(random.run.iterations) + 1;
    for (const auto& run : {run_event_engine, run_vector_engine}) {
      Told told;
      const Result result = run(random.job, random.run, {},
                                [&](std::size_t done, std::size_t all) { told.emplace_back(done, all); });
      CHECK(result.fingerprint == run(random.job, random.run, {}, {}).fingerprint);
      REQUIRE_FALSE(told.empty());
      for (std::size_t i = 0; i < told.size(); ++i) {
        CHECK(told[i].first > (i == 0 ? 0 : told[i - 1].first));
        CHECK(told[i].second == count);
      }
      CHECK(told.back().first == count);
    }
  }
}

TEST_CASE("the engines agree on random jobs of 1 to 64 ranks") {
  for (std::uint64_t seed = 1; seed <= rounds(3000); ++seed) {
    INFO("seed " << seed);
    RandomJob random = random_job(seed, seed % 10 == 0 ? 64 : 12);
    if (seed % 4 == 0) {
      Dice dice(seed);
      add_kinds(random.job, dice);
    }
    check_agreement(random);
  }
}

TEST_CASE("random jobs have every distribution wherever there is one, and every kind of slow GPU") {
  struct Drawn {
    std::size_t per_operation = 0, per_iteration = 0, input = 0;
  };
  std::map<DistributionKind, Drawn> drawn;
  std::size_t slow = 0, transient = 0, spared = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const TrainingJob job = random_job(seed, 12).job;
    const VariabilitySpec& v = job.variability;
    ++drawn[v.per_operation.kind].per_operation;
    ++drawn[v.per_iteration.kind].per_iteration;
    drawn[job.input ? job.input->jitter.kind : DistributionKind::none].input += job.input ? 1 : 0;
    slow += v.slow_gpus.empty() ? 0 : 1;
    transient += v.transient.empty() ? 0 : 1;
    spared += !v.spared_gpus.empty() && !(v.slow_gpus.empty() && v.transient.empty()) ? 1 : 0;
  }
  for (const Named<DistributionKind>& each : kNames<DistributionKind>) {
    CAPTURE(each.name);
    CHECK(drawn[each.value].per_operation > 20);
    CHECK(drawn[each.value].per_iteration > 20);
    CHECK(drawn[each.value].input > 5);
  }
  CHECK(slow > 50);
  CHECK(transient > 50);
  CHECK(spared > 30);
}

TEST_CASE("the parts of every rank's step add up to the step, and none is negative") {
  for (std::uint64_t seed = 1; seed <= rounds(200); ++seed) {
    const RandomJob random = random_job(seed, 16);
    const Result result = run_vector_engine(random.job, random.run);
    const SimTime total = result.iteration_end.back() - result.iteration_end.front();
    for (const Breakdown& b : result.breakdown) {
      INFO("seed " << seed);
      CHECK(b.compute + b.exposed_communication + b.straggler_wait + b.input_wait + b.other == total);
      CHECK(std::min({b.compute, b.exposed_communication, b.straggler_wait, b.input_wait, b.other}) >=
            SimTime{});
    }
  }
}

TEST_CASE("the waits by collective and by culprit add up to the ranks' waits") {
  for (std::uint64_t seed = 1; seed <= rounds(200); ++seed) {
    const RandomJob random = random_job(seed, 16);
    const Result result = run_vector_engine(random.job, random.run);
    PicosecondSum exposed = 0, straggler = 0, exposed_by_collective = 0, straggler_by_culprit = 0;
    for (const Breakdown& b : result.breakdown) {
      exposed += b.exposed_communication.ps;
      straggler += b.straggler_wait.ps;
    }
    for (const CollectiveWaits& w : result.waits) {
      exposed_by_collective += w.exposed;
    }
    for (const PicosecondSum waited : result.waited_for) {
      straggler_by_culprit += waited;
    }
    INFO("seed " << seed);
    CHECK((exposed == exposed_by_collective));
    CHECK((straggler == straggler_by_culprit));
  }
}

TEST_CASE("the engines agree beyond one block of ranks") {
  // The vector engine runs kernels in blocks of Sampler::kMostRanks; 520 ranks need two.
  constexpr std::size_t kRanks = Sampler::kMostRanks + 8;
  RandomJob random;
  CollectivePlanner planner =
      ring_planner(std::vector<HopCost>(kRanks, {BytesPerSecond(1e10), SimTime{100'000}, {}}));
  TrainingJob& job = random.job;
  job.plans = {planner.plan(CollectiveKind::all_reduce, Bytes(1 << 20))};
  job.communicator = planner.communicator();
  job.main().steady.collectives = {0};
  job.main().steady.ops = {{OpKind::kernel, 0, SimTime{900'000'000}, SimTime{5'000'000}, "kernel"},
                           {OpKind::collective, 0, {}, SimTime{15'000'000}, "all_reduce"},
                           {OpKind::wait, 0, {}, {}, "wait"}};
  job.main().warm_up = job.main().steady;
  job.variability.per_operation = {DistributionKind::lognormal, 0.5, {}};
  job.variability.slow_gpus = {{{}, 0.1, 1.5}};
  random.run.iterations = 1;
  check_agreement(random);
}

}  // namespace paceline
