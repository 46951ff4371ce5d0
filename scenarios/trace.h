// Traces of a run as PyTorch's profiler (Kineto) writes them: Chrome trace events that Perfetto, PyTorch's
// tools and HolisticTraceAnalysis read. docs/model.md says what each event is.
//
// Cost: some 1.5 kB of JSON per traced operation, rank and iteration.
#pragma once

#include <string>
#include <vector>

#include "scenarios/json.h"
#include "scenarios/predict.h"

namespace paceline {

// The first ranks of the job and those that made the others wait most, ascending.
inline constexpr std::uint32_t kFirstTracedRanks = 8, kMostTracedRanks = 32;
std::vector<Rank> ranks_worth_tracing(const Result&);

// Simulates the prediction's job again, to the last iteration asked for, and puts what was recorded into
// `result.trace`. Throws InputError for more than kMostTracedOperations.
inline constexpr std::int64_t kMostTracedOperations = 1'000'000;
void record_trace(Prediction&, const TraceRequest&);

// The trace of one rank, as its own process would have written it. Times are in microseconds with three
// decimals: both ends of an event are cut to the nanosecond, so that events that touch still touch and
// nothing overlaps.
std::string trace_json(const Prediction&, Rank);

// result.json's "communication_overlap" and the terminal's line; empty where nothing was traced.
Json::Array overlap_json(const Prediction&);
std::string overlap_text(const Prediction&);

}  // namespace paceline
