// Traces of a run as PyTorch's profiler (Kineto) writes them: Chrome trace events that Perfetto, PyTorch's
// tools and HolisticTraceAnalysis read. docs/model.md says what each event is.
//
// Cost: some 1.5 kB of JSON per traced operation, rank and iteration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/json.h"
#include "scenarios/predict.h"

namespace paceline {

// The first ranks of the job and those that made the others wait most, ascending.
inline constexpr std::uint32_t kFirstTracedRanks = 8, kMostTracedRanks = 32;
std::vector<Rank> ranks_worth_tracing(const Result&);

// Ranks such as "0,37,100-107" and steps such as "1-3" (0 is the warm-up); left out: ranks_worth_tracing, and
// the first kTracedIterations. Throws InputError for ranks and steps that the run lacks.
struct TraceChoice {
  std::optional<std::string> ranks, steps;
};
inline constexpr std::uint32_t kTracedIterations = 4;
TraceRequest trace_request(const TraceChoice&, const Prediction&);

// "0,37,100-107", ascending, each once. Throws InputError, which names the option, for others than 0 to `most`.
std::vector<Rank> ranks_named(std::string_view text, std::uint32_t most, const char* option);

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
