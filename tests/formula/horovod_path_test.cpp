// Does the critical path of a Horovod job follow what its launches waited for?
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "horovod_case.h"
#include "sim/report/critical_path.h"

namespace paceline {
namespace {

using namespace horovod_case;

struct Walked {
  Result traced;
  CriticalPath path;
};
Walked walked(const TrainingJob& job, int iterations, std::uint32_t iteration) {
  RunSpec spec;
  spec.iterations = iterations;
  const Result result = simulate(job, spec);
  Walked made{simulate(job, spec, ranks_on_path(job, result, iteration)), {}};
  made.path = critical_path(job, made.traced, iteration);
  return made;
}

// Whether one of the rank's operations that `is` so was on its stream in all of [from, to), with others of them.
template <class F>
bool all_along(const Walked& of, const TrainingJob& job, Rank rank, SimTime from, SimTime to, const F& is) {
  const auto traced = std::ranges::find(of.traced.trace, rank, &TracedIteration::rank);
  REQUIRE(traced != of.traced.trace.end());
  for (bool goes_on = true; goes_on && from < to;) {
    goes_on = false;
    for (std::size_t i = 0; i < traced->ops.size(); ++i) {
      const auto [start, end] = traced->ops[i];
      if (is(job.main().steady.ops[i]) && start <= from && from < end) {
        from = end;
        goes_on = true;
      }
    }
  }
  return from >= to;
}
bool is_kernel(const Op& op) { return op.kind == OpKind::kernel; }
bool is_collective(const Op& op) { return op.kind == OpKind::collective; }

// The fusion of this collective, when each rank that was traced had made it, and when the one before it had ended there.
struct Fusion {
  SimTime queued, decided, made, free;
};
Fusion fusion(const Walked& of, const TrainingJob& job, Rank rank, std::uint32_t number) {
  const auto& all = of.traced.decisions.iterations[of.path.iteration];
  const auto traced = std::ranges::find(of.traced.trace, rank, &TracedIteration::rank);
  REQUIRE(number < all.size());
  Fusion made{all[number].queued, all[number].decided, {}, {}};
  for (const std::uint32_t tensor : all[number].tensors) {
    made.made = std::max(made.made, traced->ops[job.negotiation->tensors[tensor].after_op].end);
  }
  for (std::size_t i = 0; i < job.main().steady.ops.size(); ++i) {
    const Op& op = job.main().steady.ops[i];
    if (op.kind == OpKind::collective && op.index < number) {
      made.free = std::max(made.free, traced->ops[i].end);
    }
  }
  return made;
}

void check(const Walked& of, const TrainingJob& job) {
  const std::vector<PathSegment>& all = of.path.segments;
  SimTime at = of.path.began;
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i, all[i].what, all[i].start.ps, all[i].end.ps);
    REQUIRE(all[i].start == at);
    at = all[i].end;
    if (all[i].kind == PathKind::compute) {
      CHECK(all_along(of, job, all[i].rank, all[i].start, all[i].end, is_kernel));
    }
    if (all[i].what == "agreement") {
      REQUIRE(i + 1 < all.size());
      CHECK(std::ranges::any_of(of.traced.decisions.iterations[of.path.iteration],
                                [&](const DecidedCollective& each) { return each.decided == all[i].end; }));
    }
    if (all[i].kind != PathKind::communication) {
      continue;
    }
    CHECK(all_along(of, job, all[i].rank, all[i].start, all[i].end, is_collective));
    const std::uint32_t number = all[i].purpose.bucket;
    const Fusion of_it = fusion(of, job, all[i].rank, number);
    CHECK(of_it.made <= all[i].start);
    CHECK(of_it.decided <= all[i].start);
    if (of_it.free > std::max(of_it.made, of_it.decided) || i == 0) {
      continue;
    }
    // The launch follows at once, or after launches: of the kernel that made its last tensor, or of the agreement.
    const bool launches = all[i - 1].what == "launch" && all[i - 1].end > of_it.made;
    if (of_it.made > of_it.decided && of_it.made > of.path.began) {
      const std::size_t before = launches ? i - 2 : i - 1;
      REQUIRE(before < i);
      CHECK(all[before].end == of_it.made);
      CHECK(all[before].kind == PathKind::compute);
    } else if (of_it.decided > of_it.made && of_it.decided > of.path.began) {
      const std::size_t before = launches && all[i - 1].start > of.path.began ? i - 2 : i - 1;
      REQUIRE(before < i);
      CHECK(all[before].end == of_it.decided);
      CHECK(all[before].kind == PathKind::launch);
    }
  }
  CHECK(at == of.traced.iteration_end[of.path.iteration]);
}

}  // namespace

// As in horovod_test: a host that runs ahead, one fusion of all gradients.
TEST_CASE("the path of one fusion that waits for its GPU is compute up to the last gradient") {
  constexpr std::int64_t kLayers = 10;
  for (const char* version : {"0.9", "0.15", "0.20", "0.22", "0.28"}) {
    CAPTURE(version);
    Case c{std::vector<std::int64_t>(kLayers, 1000), SimTime{1'000'000'000}, SimTime{2'000'000'000}, 10, 20};
    c.horovod.version = version;
    c.horovod.cycle_time = Seconds(1e-3);
    c.horovod.negotiation = Seconds(200e-6);
    const TrainingJob job = job_of(c);
    const Walked of = walked(job, 3, 2);
    check(of, job);
    if (of.traced.decisions.iterations[2].size() > 1) {
      continue;  // a cycle fell into the host's way
    }
    std::map<std::string, SimTime> sums;
    for (const PathSegment& each : of.path.segments) {
      sums[each.what] += each.end - each.start;
    }
    CHECK(sums["forward"] == kLayers * c.forward);
    CHECK(sums["backward"] == kLayers * c.backward);
    CHECK(sums["optimizer"] == job.main().steady.ops.back().duration);
    CHECK(sums["agreement"] == SimTime{});
    // Of a host whose GPU has ended: until its first launch, till the fusion is issued, and the update's.
    CHECK(sums["launch"] < SimTime{1'200'000'000});
  }
}

TEST_CASE("the path of a host that is late is its launches and the agreement") {
  Case c{std::vector<std::int64_t>(20, 250), SimTime{1000}, SimTime{1000}, 997, 0};
  c.horovod.cycle_time = Seconds(0.7031e-3);
  c.horovod.negotiation = Seconds(100e-6);
  const TrainingJob job = job_of(c);
  const Walked of = walked(job, 2, 1);
  check(of, job);
  const auto& last = of.traced.decisions.iterations[1].back();
  const auto at = std::ranges::find(of.path.segments, "agreement", &PathSegment::what);
  REQUIRE(at != of.path.segments.end());
  CHECK(at->start == last.queued);
  CHECK(at->end == last.decided);
}

TEST_CASE("paths of Horovod at random agree with what GPUs did then") {
  Dice dice(23);
  for (std::uint64_t i = 0; i < rounds(1000); ++i) {
    const Case c = random_case(dice);
    TrainingJob job = job_of(c);
    if (dice.maybe(0.6)) {
      job.variability.per_operation = {DistributionKind::lognormal, 0.2, {}};
      job.variability.slow_gpus = {{{0}, 0, dice.real(1, 1.6)}};
    }
    for (const std::uint32_t iteration : {1U, 3U}) {
      CAPTURE(i, iteration, c.horovod.version, c.elements.size());
      check(walked(job, 3, iteration), job);
    }
  }
}

}  // namespace paceline
