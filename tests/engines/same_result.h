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
