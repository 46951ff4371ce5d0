// Is the overlap of communication and compute what one counts by hand, picosecond by picosecond?
#include "sim/report/overlap.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <utility>
#include <vector>

#include "random_job.h"

namespace paceline {
namespace {

OpSpan at(std::int64_t start, std::int64_t end) { return {SimTime{start}, SimTime{end}}; }

std::vector<std::pair<std::int64_t, std::int64_t>> numbers(const std::vector<OpSpan>& spans) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const OpSpan& span : spans) {
    pairs.emplace_back(span.start.ps, span.end.ps);
  }
  return pairs;
}

TEST_CASE("a union has no gaps that nobody left and no time twice") {
  const std::vector<OpSpan> joined =
      united({at(40, 50), at(0, 10), at(10, 20), at(15, 18), at(30, 30), at(45, 60)});
  CHECK(numbers(joined) == std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 20}, {40, 60}});
  CHECK(united({}).empty());
}

TEST_CASE("shared time counts what lies in both") {
  const std::vector<OpSpan> a{at(0, 20), at(40, 60), at(70, 80)};
  CHECK(shared_time(a, std::vector<OpSpan>{at(10, 45), at(50, 55), at(58, 100)}) ==
        SimTime{10 + 5 + 5 + 2 + 10});
  CHECK(shared_time(a, std::vector<OpSpan>{at(20, 40)}) == SimTime{});
  CHECK(shared_time(a, {}) == SimTime{});
  CHECK(shared_time(a, a) == SimTime{50});
}

// Two kernels and two collectives an iteration; spans as given.
TrainingJob hand_made_job() {
  TrainingJob job;
  job.main().steady.ops = {{OpKind::kernel, 0, {}, {}, "a"},
                           {OpKind::collective, 0, {}, {}, "b"},
                           {OpKind::kernel, 0, {}, {}, "c"},
                           {OpKind::collective, 1, {}, {}, "d"},
                           {OpKind::wait, 1, {}, {}, "e"}};
  job.main().warm_up = job.main().steady;
  return job;
}

TEST_CASE("the overlap of a rank is of its traced iterations but the last") {
  const TrainingJob job = hand_made_job();
  const std::vector<TracedIteration> trace{
      {1, Rank(0), {at(0, 10), at(5, 25), at(10, 20), at(25, 30), at(20, 30)}, {}},
      {1, Rank(4), {at(0, 10), at(10, 20), at(30, 40), at(20, 25), at(20, 30)}, {}},
      {2, Rank(0), {at(40, 50), at(50, 60), at(50, 55), at(60, 61), at(55, 61)}, {}},
      {2, Rank(4), {at(40, 50), at(50, 60), at(50, 55), at(60, 61), at(55, 61)}, {}},
      {3, Rank(0), {at(70, 90), at(70, 90), at(90, 91), at(90, 91), at(91, 91)}, {}},
      {3, Rank(4), {at(70, 90), at(70, 90), at(90, 91), at(90, 91), at(91, 91)}, {}}};
  const IterationRange steps = overlap_iterations(trace);
  CHECK(steps.first == 1);
  CHECK(steps.last == 2);
  const std::vector<CommunicationOverlap> overlaps = communication_overlap(job, trace);
  REQUIRE(overlaps.size() == 2);
  CHECK(overlaps[0].rank == Rank(0));
  CHECK(overlaps[0].communication == SimTime{25 + 11});
  CHECK(overlaps[0].overlapped == SimTime{15 + 5});
  CHECK(overlaps[0].share() == Approx(20.0 / 36));
  CHECK(overlaps[1].rank == Rank(4));
  CHECK(overlaps[1].communication == SimTime{15 + 11});
  CHECK(overlaps[1].overlapped == SimTime{5});
}

TEST_CASE("one traced iteration counts, and no communication has no share") {
  const TrainingJob job = hand_made_job();
  const std::vector<TracedIteration> one{
      {7, Rank(0), {at(0, 10), at(5, 25), at(10, 20), at(25, 30), at(20, 30)}, {}}};
  CHECK(communication_overlap(job, one)[0].overlapped == SimTime{15});
  CHECK(communication_overlap(job, {}).empty());
  const std::vector<TracedIteration> silent{
      {7, Rank(0), {at(0, 10), at(5, 5), at(10, 20), at(6, 6), at(20, 20)}, {}}};
  CHECK(communication_overlap(job, silent)[0].share() == 0);
}

// Instant by instant: between neighbouring ends of spans nothing changes.
CommunicationOverlap by_instants(const TrainingJob& job, const Result& result, Rank rank,
                                 IterationRange steps) {
  std::vector<OpSpan> kernels, collectives;
  std::vector<SimTime> instants;
  for (const TracedIteration& traced : result.trace) {
    for (std::size_t i = 0; traced.rank == rank && traced.iteration <= steps.last && i < traced.ops.size();
         ++i) {
      const Op& op = job.program(traced.rank, traced.iteration).ops[i];
      const auto [start, end] = traced.ops[i];
      if (op.kind == OpKind::collective) {  // the queue's own work beside it are kernels
        kernels.push_back({start, start + op.prepare});
        collectives.push_back({start + op.prepare, end - op.conclude});
        kernels.push_back({end - op.conclude, end});
        instants.insert(instants.end(), {start + op.prepare, end - op.conclude});
      } else if (op.kind == OpKind::kernel) {
        kernels.push_back(traced.ops[i]);
      }
      instants.insert(instants.end(), {start, end});
    }
  }
  std::ranges::sort(instants);
  const auto runs = [](const std::vector<OpSpan>& spans, SimTime from, SimTime to) {
    return std::ranges::any_of(spans,
                               [&](const OpSpan& span) { return span.start <= from && to <= span.end; });
  };
  CommunicationOverlap sum{rank, {}, {}};
  for (std::size_t i = 1; i < instants.size(); ++i) {
    const SimTime from = instants[i - 1], to = instants[i];
    if (from < to && runs(collectives, from, to)) {
      sum.communication += to - from;
      sum.overlapped += runs(kernels, from, to) ? to - from : SimTime{};
    }
  }
  return sum;
}

TEST_CASE("the overlap of random jobs is the sum over instants, with both engines") {
  std::size_t partly = 0;
  for (std::uint64_t seed = 1; seed <= rounds(60); ++seed) {
    const RandomJob random = random_job(seed, 8);
    const TraceRequest trace{{Rank(0), Rank(2)}, 0, 3};
    for (const Result& result : {run_vector_engine(random.job, random.run, trace),
                                 run_event_engine(random.job, random.run, trace)}) {
      for (const CommunicationOverlap& o : communication_overlap(random.job, result.trace)) {
        INFO("seed " << seed << ", rank " << o.rank.value);
        const CommunicationOverlap expected =
            by_instants(random.job, result, o.rank, overlap_iterations(result.trace));
        CHECK(o.communication == expected.communication);
        CHECK(o.overlapped == expected.overlapped);
        partly += o.share() > 0 && o.share() < 1 ? 1 : 0;
      }
    }
  }
  CHECK(partly > rounds(100) / 2);
}

}  // namespace
}  // namespace paceline
