// Results compared, number by number.
#pragma once

#include <catch2/catch.hpp>

#include "sim/engine/simulate.h"

namespace paceline {

inline bool operator==(const Breakdown& a, const Breakdown& b) {
  return a.compute == b.compute && a.exposed_communication == b.exposed_communication &&
         a.straggler_wait == b.straggler_wait && a.input_wait == b.input_wait && a.other == b.other;
}
inline bool operator==(const Blame& a, const Blame& b) { return a.count == b.count && a.total == b.total; }
inline bool operator==(const CollectiveTiming& a, const CollectiveTiming& b) {
  return a.ready == b.ready && a.launch == b.launch && a.end == b.end;
}
inline bool operator==(const CollectiveWaits& a, const CollectiveWaits& b) {
  return a.straggler == b.straggler && a.exposed == b.exposed;
}
inline bool operator==(const OpSpan& a, const OpSpan& b) { return a.start == b.start && a.end == b.end; }

// What ranks did step by step is what they did in all.
inline void check_rank_steps(const Result& result) {
  const std::size_t ranks = result.breakdown.size();
  REQUIRE(result.rank_steps.size() == ranks * (result.iteration_end.size() - 1));
  std::vector<RankStep> sums(ranks);
  for (std::size_t i = 0; i < result.rank_steps.size(); ++i) {
    RankStep& sum = sums[i % ranks];
    const RankStep& step = result.rank_steps[i];
    CHECK((step.compute >= SimTime{} && step.waiting >= SimTime{} && step.waited_for >= 0));
    sum = {sum.compute + step.compute, sum.waiting + step.waiting, sum.waited_for + step.waited_for};
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    const Breakdown& b = result.breakdown[r];
    CHECK(sums[r].compute == b.compute);
    CHECK(sums[r].waiting == b.exposed_communication + b.straggler_wait + b.server_wait + b.input_wait);
    CHECK((sums[r].waited_for == result.waited_for[r]));
  }
}

// Of a trace request that both were given.
inline void check_same_traces(const Result& a, const Result& b) {
  REQUIRE(a.trace.size() == b.trace.size());
  for (std::size_t i = 0; i < a.trace.size(); ++i) {
    CHECK(a.trace[i].ops == b.trace[i].ops);
    CHECK(a.trace[i].issued == b.trace[i].issued);
  }
}

// All but traces, which the engines keep in different orders.
inline void check_same_result(const Result& a, const Result& b) {
  CHECK(a.iteration_end == b.iteration_end);
  CHECK(a.fingerprint == b.fingerprint);
  CHECK(a.breakdown == b.breakdown);
  CHECK(a.blame == b.blame);
  CHECK(a.timing == b.timing);
  CHECK((a.waits == b.waits));
  CHECK((a.waited_for == b.waited_for));
  CHECK(a.as_late_as == b.as_late_as);
  CHECK(a.last_to_end == b.last_to_end);
  CHECK(a.last_to_launch == b.last_to_launch);
}

}  // namespace paceline
