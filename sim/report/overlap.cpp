#include "sim/report/overlap.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/engine/trajectory.h"
#include "sim/report/ran_in.h"

namespace paceline {
namespace {

struct RankSpans {
  std::vector<OpSpan> kernels, collectives;
};

bool sends_messages(const TrainingJob& job) {
  const auto sends = [](const Op& op) { return op.kind == OpKind::send && op.to != kWorld; };
  return std::ranges::any_of(job.roles, [&](const auto& role) {
    return std::ranges::any_of(
        role.threads, [&](const Thread& thread) { return std::ranges::any_of(thread.steady.ops, sends); });
  });
}

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

std::optional<Seconds> communicating(const TrainingJob& job, const Result& result) {
  if (!result.own_ends.empty() || sends_messages(job)) {
    return std::nullopt;
  }
  const auto steps = static_cast<std::uint32_t>(result.iteration_end.size());
  std::vector<const Op*> collectives;
  std::vector<OpSpan> means;
  for (const Op& op : job.main().steady.ops) {
    std::int64_t ran = 0;
    for (std::uint32_t i = 1; op.kind == OpKind::collective && i < steps; ++i) {
      ran += ran_in(result, op, i) ? 1 : 0;
    }
    if (ran > 0) {
      const CollectiveTiming& timing = result.timing[op.index];
      collectives.push_back(&op);
      means.push_back({SimTime{timing.launch.ps / ran}, SimTime{timing.end.ps / ran}});
    }
  }
  std::map<std::vector<bool>, SimTime> of_steps;  // by which collectives they have
  Seconds sum;
  for (std::uint32_t i = 1; i < steps; ++i) {
    std::vector<bool> has(collectives.size());
    std::transform(collectives.begin(), collectives.end(), has.begin(),
                   [&](const Op* op) { return ran_in(result, *op, i); });
    const auto [known, added] = of_steps.try_emplace(has);
    if (added) {
      std::vector<OpSpan> spans;
      for (std::size_t k = 0; k < has.size(); ++k) {
        spans.push_back(has[k] ? means[k] : OpSpan{});
      }
      known->second = length(united(std::move(spans)));
    }
    sum = sum + to_seconds(known->second);
  }
  return sum * (1.0 / (steps - 1));
}

}  // namespace paceline
