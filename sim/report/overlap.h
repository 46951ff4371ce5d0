// How long a step communicates, and how much of a rank's communication runs beside its computing, from a trace.
//
// Of each traced rank: the length of the union of its collectives' spans (launch to end, waits for others
// included, as a profiler sees NCCL's kernels), and the length of what that union shares with the union of
// its kernels' spans. Of several traced iterations the last one is left out, as HolisticTraceAnalysis leaves
// out the last profiler step: its percentages and these are then of the same kernels. Cost: linear in the
// spans, which come in order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/job.h"

namespace paceline {

// Sorts and joins spans that touch or overlap; empty ones are left out.
std::vector<OpSpan> united(std::vector<OpSpan> spans);

// Requires: united.
SimTime length(std::span<const OpSpan>);

// The time that lies in both. Requires: each is united.
SimTime shared_time(std::span<const OpSpan>, std::span<const OpSpan>);

struct CommunicationOverlap {
  Rank rank;
  SimTime communication, overlapped;

  double share() const;  // 0 where there is no communication
};

// The iterations that count, both included. Requires: the trace is not empty.
struct IterationRange {
  std::uint32_t first = 0, last = 0;
};
IterationRange overlap_iterations(std::span<const TracedIteration>);

// By rank, ascending; empty where nothing was traced.
std::vector<CommunicationOverlap> communication_overlap(const TrainingJob&, std::span<const TracedIteration>);

// The mean time of a step in which a collective runs, from its last launch to its last end, each as in the mean of the
// steps that have it; none where there are messages, whose time nobody notes, or servers, whose workers share no step.
std::optional<Seconds> communicating(const TrainingJob&, const Result&);

}  // namespace paceline
