#include "scenarios/trace.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "scenarios/readable.h"
#include "sim/report/overlap.h"

namespace paceline {
namespace {

struct Range {
  std::uint32_t first = 0, last = 0;
};

// "100-107" or "37".
Range range_of(std::string_view text, std::uint32_t most, const char* option, const std::string& what) {
  Range range;
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, range.first);
  range.last = range.first;
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') {
    read = std::from_chars(read.ptr + 1, end, range.last);
  }
  if (read.ec != std::errc() || read.ptr != end || range.last < range.first) {
    throw InputError("expected " + what + ", found \"" + std::string(text) + '"', option);
  }
  if (range.last > most) {
    throw InputError(
        "expected numbers up to " + std::to_string(most) + ", found " + std::to_string(range.last), option);
  }
  return range;
}

}  // namespace

std::vector<Rank> ranks_named(std::string_view text, std::uint32_t most, const char* option) {
  std::vector<Rank> ranks;
  for (;;) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const Range range = range_of(text.substr(0, comma), most, option, "ranks such as 0,37,100-107");
    for (std::uint32_t r = range.first; r <= range.last; ++r) {
      ranks.emplace_back(r);
    }
    if (comma == text.size()) {
      break;
    }
    text.remove_prefix(comma + 1);
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::vector<Rank> ranks_worth_tracing(const Result& result) {
  const auto all = static_cast<std::uint32_t>(result.waited_for.size());
  std::vector<Rank> ranks, others;
  for (std::uint32_t r = 0; r < all; ++r) {
    if (r < kFirstTracedRanks) {
      ranks.emplace_back(r);
    } else if (result.waited_for[r] > 0) {
      others.emplace_back(r);
    }
  }
  const std::size_t more = std::min<std::size_t>(others.size(), kMostTracedRanks - ranks.size());
  std::ranges::partial_sort(others, others.begin() + static_cast<std::ptrdiff_t>(more), [&](Rank a, Rank b) {
    const PicosecondSum of_a = result.waited_for[a.index()], of_b = result.waited_for[b.index()];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  ranks.insert(ranks.end(), others.begin(), others.begin() + static_cast<std::ptrdiff_t>(more));
  std::ranges::sort(ranks);
  return ranks;
}

TraceRequest trace_request(const TraceChoice& choice, const Prediction& p) {
  const auto last = static_cast<std::uint32_t>(p.scenario.run.iterations);
  Range steps{0, std::min(kTracedIterations - 1, last)};
  if (choice.steps) {
    steps = range_of(*choice.steps, last, "--trace-steps", "steps such as 1-3");
  }
  std::vector<Rank> ranks =
      choice.ranks
          ? ranks_named(*choice.ranks, static_cast<std::uint32_t>(p.job.ranks() - 1), "--trace-ranks")
          : ranks_worth_tracing(p.result);
  return {std::move(ranks), steps.first, steps.last - steps.first + 1};
}

void record_trace(Prediction& p, const TraceRequest& request) {
  const std::size_t operations = std::max(p.job.main().warm_up.ops.size(), p.job.main().steady.ops.size());
  const std::int64_t recorded =
      static_cast<std::int64_t>(operations * request.ranks.size()) * std::int64_t{request.iterations};
  if (recorded > kMostTracedOperations) {
    throw InputError("expected a trace of at most " + std::to_string(kMostTracedOperations) +
                         " operations, found " + std::to_string(recorded) +
                         "; name fewer --trace-ranks or --trace-steps",
                     "--trace");
  }
  RunSpec run = p.scenario.run;
  if (p.result.engine == EngineKind::vector) {  // there nothing later bears on an iteration
    const auto last = static_cast<int>(request.first + request.iterations) - 1;
    run.iterations = std::clamp(last, 1, run.iterations);
  }
  p.result.trace = simulate(p.job, run, request).trace;
}

Json::Array overlap_json(const Prediction& p) {
  Json::Array array;
  for (const CommunicationOverlap& o : communication_overlap(p.job, p.result.trace)) {
    const IterationRange steps = overlap_iterations(p.result.trace);
    array.push_back(Json::Object{{"rank", std::int64_t{o.rank.value}},
                                 {"gpu", gpu_name(p.scenario, o.rank)},
                                 {"first_step", std::int64_t{steps.first}},
                                 {"last_step", std::int64_t{steps.last}},
                                 {"communication_s", to_seconds(o.communication).value},
                                 {"overlapped_s", to_seconds(o.overlapped).value},
                                 {"share", o.share()}});
  }
  return array;
}

std::string overlap_text(const Prediction& p) {
  const std::vector<CommunicationOverlap> overlaps = communication_overlap(p.job, p.result.trace);
  CommunicationOverlap all;
  for (const CommunicationOverlap& o : overlaps) {
    all.communication += o.communication;
    all.overlapped += o.overlapped;
  }
  if (all.communication == SimTime{}) {
    return {};
  }
  const IterationRange steps = overlap_iterations(p.result.trace);
  return "\n  communication beside compute: " + fixed(100 * all.share(), 1) + " % of its time (" +
         std::to_string(overlaps.size()) + " traced GPUs, steps " + std::to_string(steps.first) + " to " +
         std::to_string(steps.last) + ")\n";
}

}  // namespace paceline
