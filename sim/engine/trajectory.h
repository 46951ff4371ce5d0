// Rules that both engines share about what is reported.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/fingerprint.h"
#include "core/id.h"
#include "core/time.h"
#include "sim/engine/simulate.h"

namespace paceline {

// The facts that make up a run's fingerprint.
enum class Fact : std::uint64_t { launch = 1, collective_end, iteration_end, decision };

constexpr std::uint64_t subject(Fact fact, std::uint32_t iteration, std::uint32_t item = 0) {
  return Fingerprint::subject(static_cast<std::uint64_t>(fact), iteration, item);
}

// By rank: its place among the traced ones, or kNotTraced; empty: nothing is traced. Takes ranks that the job doesn't
// have out of the request.
inline constexpr std::uint32_t kNotTraced = 0xffffffffU;
inline std::vector<std::uint32_t> place_traced(TraceRequest& trace, std::size_t ranks) {
  while (!trace.ranks.empty() && trace.ranks.back().index() >= ranks) {
    trace.ranks.pop_back();
  }
  std::vector<std::uint32_t> places;
  if (!trace.ranks.empty() && trace.iterations > 0) {
    places.assign(ranks, kNotTraced);
    for (std::uint32_t i = 0; i < trace.ranks.size(); ++i) {
      places[trace.ranks[i].index()] = i;
    }
  }
  return places;
}

// The length of [from, to) that lies in [begin, end); 0 when empty.
constexpr SimTime overlap(SimTime from, SimTime to, SimTime begin, SimTime end) {
  const SimTime a = std::max(from, begin), b = std::min(to, end);
  return a < b ? b - a : SimTime{};
}

// The last two ranks to launch a collective; of equally late ones first those whose own time is longest, then the
// first ranks: what is charged doesn't depend on how ranks are numbered.
struct LastLaunch {
  struct Launch {
    SimTime at{-1}, own;
    std::uint32_t rank = 0;

    constexpr bool before(const Launch& o) const {
      return at != o.at ? at < o.at : own != o.own ? own < o.own : rank > o.rank;
    }
  };
  Launch last, second;

  constexpr void add(const Launch& launch) {
    if (last.before(launch)) {
      second = last;
      last = launch;
    } else if (second.before(launch)) {
      second = launch;
    }
  }
};

// What of a rank's wait for the last one is the last one's doing: that much more its own time is (docs/model.md,
// "Own time").
constexpr SimTime straggling(SimTime wait, SimTime own, SimTime own_of_last) {
  return std::clamp(own_of_last - own, SimTime{}, wait);
}

// Notes in as_late_as, by rank, whether a rank was as late as `last` by their own time.
inline void note_if_as_late(std::uint32_t rank, std::span<const SimTime> own, std::uint32_t last,
                            std::vector<Rank>& as_late_as) {
  if (own[rank] == own[last] && rank != last) {
    Rank& noted = as_late_as[rank];
    noted = noted == Rank(rank) ? Rank(last) : std::min(noted, Rank(last));
  }
}
inline void note_as_late(std::span<const SimTime> own, std::uint32_t last, std::vector<Rank>& as_late_as) {
  for (std::uint32_t r = 0; r < own.size(); ++r) {
    note_if_as_late(r, own, last, as_late_as);
  }
}

// What a rank has done so far.
inline RankStep done_by(const Breakdown& b, PicosecondSum waited_for) {
  return {b.compute, b.exposed_communication + b.straggler_wait + b.server_wait + b.input_wait, waited_for};
}

// From what had been done when each iteration ended to what was done in it.
inline void take_differences(std::vector<RankStep>& steps, std::size_t ranks) {
  for (std::size_t i = steps.size(); i-- > ranks;) {
    const RankStep& before = steps[i - ranks];
    steps[i].compute = steps[i].compute - before.compute;
    steps[i].waiting = steps[i].waiting - before.waiting;
    steps[i].waited_for -= before.waited_for;
  }
}

}  // namespace paceline
