#include "sim/report/overlap.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/engine/trajectory.h"

namespace paceline {
namespace {

struct RankSpans {
  std::vector<OpSpan> kernels, collectives;
};

}  // namespace

std::vector<OpSpan> united(std::vector<OpSpan> spans) {
  std::erase_if(spans, [](const OpSpan& span) { return span.end <= span.start; });
  std::ranges::sort(spans, {}, &OpSpan::start);
  std::vector<OpSpan> joined;
  for (const OpSpan& span : spans) {
    if (!joined.empty() && span.start <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, span.end);
    } else {
      joined.push_back(span);
    }
  }
  return joined;
}

SimTime length(std::span<const OpSpan> spans) {
  SimTime sum;
  for (const OpSpan& span : spans) {
    sum += span.end - span.start;
  }
  return sum;
}

SimTime shared_time(std::span<const OpSpan> a, std::span<const OpSpan> b) {
  SimTime sum;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += overlap(a[i].start, a[i].end, b[j].start, b[j].end);
    ++(a[i].end < b[j].end ? i : j);
  }
  return sum;
}

double CommunicationOverlap::share() const {
  return communication > SimTime{}
             ? static_cast<double>(overlapped.ps) / static_cast<double>(communication.ps)
             : 0;
}

IterationRange overlap_iterations(std::span<const TracedIteration> trace) {
  const auto [first, last] = std::ranges::minmax(trace, {}, &TracedIteration::iteration);
  return {first.iteration, last.iteration > first.iteration ? last.iteration - 1 : last.iteration};
}

std::vector<CommunicationOverlap> communication_overlap(const TrainingJob& job,
                                                        std::span<const TracedIteration> trace) {
  if (trace.empty()) {
    return {};
  }
  const IterationRange counted = overlap_iterations(trace);
  std::map<Rank, RankSpans> spans;
  for (const TracedIteration& traced : trace) {
    RankSpans& of_rank = spans[traced.rank];
    const Program& program = job.program(traced.rank, traced.iteration);
    for (std::size_t i = 0; traced.iteration <= counted.last && i < program.ops.size(); ++i) {
      if (program.ops[i].kind == OpKind::kernel) {
        of_rank.kernels.push_back(traced.ops[i]);
      } else if (program.ops[i].kind == OpKind::collective && program.ops[i].runs_in(traced.iteration)) {
        const auto [start, end] = traced.ops[i];
        const SimTime from = start + program.ops[i].prepare, to = end - program.ops[i].conclude;
        of_rank.kernels.insert(of_rank.kernels.end(), {{start, from}, {to, end}});
        of_rank.collectives.push_back({from, to});
      }
    }
  }
  std::vector<CommunicationOverlap> overlaps;
  for (auto& [rank, of_rank] : spans) {
    const std::vector<OpSpan> collectives = united(std::move(of_rank.collectives));
    overlaps.push_back(
        {rank, length(collectives), shared_time(collectives, united(std::move(of_rank.kernels)))});
  }
  return overlaps;
}

std::optional<Seconds> communicating(const Result& result) {
  if (!result.own_ends.empty()) {
    return std::nullopt;
  }
  std::vector<OpSpan> spans;
  for (const CollectiveTiming& timing : result.timing) {
    spans.push_back({timing.launch, timing.end});
  }
  const SimTime together = length(united(std::move(spans)));
  return to_seconds(together) * (1.0 / static_cast<double>(result.iteration_end.size() - 1));
}

}  // namespace paceline
