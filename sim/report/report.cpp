#include "sim/report/report.h"

#include <algorithm>
#include <cmath>

#include "sim/report/ran_in.h"
#include "sim/report/traffic.h"

namespace paceline {
namespace {

std::vector<SimTime> step_times(const Result& result) {
  std::vector<SimTime> steps;
  for (const std::vector<SimTime>& ends : result.own_ends) {
    for (std::size_t i = 1; i < result.iteration_end.size(); ++i) {
      steps.push_back(ends[i] - ends[i - 1]);
    }
  }
  if (!steps.empty()) {
    return steps;
  }
  for (std::size_t i = 1; i < result.iteration_end.size(); ++i) {
    steps.push_back(result.iteration_end[i] - result.iteration_end[i - 1]);
  }
  return steps;
}

// By number; with servers the mean of all workers' own.
std::vector<SimTime> steps_of_all(const Result& result) {
  const std::vector<SimTime> steps = step_times(result);
  const std::size_t count = result.iteration_end.size() - 1,
                    each = steps.size() / std::max<std::size_t>(count, 1);
  std::vector<SimTime> means(count);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    means[i % count] += steps[i];
  }
  for (SimTime& mean : means) {
    mean.ps /= static_cast<std::int64_t>(each);
  }
  return means;
}

StepTime step_time(const Result& result) {
  std::vector<SimTime> steps = step_times(result);
  std::sort(steps.begin(), steps.end());
  const auto percentile = [&](double fraction) {  // nearest rank
    const auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(steps.size())));
    return to_seconds(steps[std::max<std::size_t>(rank, 1) - 1]);
  };
  return {mean_step(result), percentile(0.5),           percentile(0.95),
          percentile(0.99),  to_seconds(steps.front()), to_seconds(steps.back())};
}

BreakdownSeconds per_step(const Breakdown& sum, double steps) {
  return {to_seconds(sum.compute) / steps,        to_seconds(sum.exposed_communication) / steps,
          to_seconds(sum.straggler_wait) / steps, to_seconds(sum.server_wait) / steps,
          to_seconds(sum.input_wait) / steps,     to_seconds(sum.other) / steps};
}

// Ranks times steady iterations, in picoseconds: what divides a sum over both to a mean in seconds.
double rank_steps(const Result& result) {
  return static_cast<double>(result.breakdown.size()) * static_cast<double>(result.iteration_end.size() - 1) *
         kPicosecondsPerSecond;
}

BreakdownSeconds mean_breakdown(const Result& result) {
  const double each = rank_steps(result);
  const auto mean = [&](SimTime Breakdown::* part) {
    PicosecondSum sum = 0;
    for (const Breakdown& b : result.breakdown) {
      sum += (b.*part).ps;
    }
    return Seconds(static_cast<double>(sum) / each);
  };
  return {mean(&Breakdown::compute),        mean(&Breakdown::exposed_communication),
          mean(&Breakdown::straggler_wait), mean(&Breakdown::server_wait),
          mean(&Breakdown::input_wait),     mean(&Breakdown::other)};
}

// In how many steady iterations a collective was, and its bytes, in the mean of these: what is decided while the
// run goes differs from one to the next.
struct Issued {
  double steps = 0;
  Bytes bytes;
};
Issued issued(const TrainingJob& job, const Result& result, const Op& op) {
  Issued found;
  std::int64_t bytes = 0;
  for (std::uint32_t i = 1; i < result.iteration_end.size(); ++i) {
    if (ran_in(result, op, i)) {
      found.steps += 1;
      bytes += op.after == After::decision ? result.decisions.iterations[i][op.index].bytes.value : 0;
    }
  }
  if (op.after != After::decision) {
    found.bytes = job.plans[job.main().steady.collectives[op.index]].bytes;
    return found;
  }
  found.bytes = Bytes(found.steps > 0 ? std::llround(static_cast<double>(bytes) / found.steps) : 0);
  return found;
}

// Times are means over the iterations that have the bucket; of several collectives of a bucket, those of the first and
// the end of the last.
std::vector<BucketReport> bucket_reports(const TrainingJob& job, const Result& result) {
  std::vector<BucketReport> buckets(bucket_collectives(job.main().steady).size());
  for (const Op& op : job.main().steady.ops) {
    if (op.kind != OpKind::collective || op.purpose.bucket == kNoIndex || op.never_runs()) {
      continue;
    }
    const auto [steps, bytes] = issued(job, result, op);
    if (steps == 0) {
      continue;
    }
    const CollectiveTiming& timing = result.timing[op.index];
    BucketReport& bucket = buckets[op.purpose.bucket];
    if (bucket.bytes.value == 0) {
      bucket.ready = to_seconds(timing.ready) / steps;
      bucket.start = to_seconds(timing.launch) / steps;
    }
    bucket.bytes = bucket.bytes + bytes;
    bucket.end = to_seconds(timing.end) / steps;
  }
  std::erase_if(buckets, [](const BucketReport& bucket) { return bucket.bytes.value == 0; });  // of no step
  return buckets;
}

std::vector<CollectiveReport> collective_reports(const TrainingJob& job, const Result& result) {
  const double each = rank_steps(result);
  std::vector<CollectiveReport> collectives;
  for (const Op& op : job.main().steady.ops) {
    if (op.kind == OpKind::collective && !op.never_runs()) {
      const CollectivePlan& plan = job.plans[job.main().steady.collectives[op.index]];
      const CollectiveWaits& waits = result.waits[op.index];
      collectives.push_back({op.label, issued(job, result, op).bytes, op.every, plan.algorithm, plan.protocol,
                             Seconds(static_cast<double>(waits.straggler) / each),
                             Seconds(static_cast<double>(waits.exposed) / each)});
    }
  }
  return collectives;
}

std::vector<StragglerReport> straggler_reports(const Result& result, const Topology& topology) {
  const double each = rank_steps(result);
  std::vector<std::vector<Rank>> as_late(result.blame.size());
  for (std::size_t r = 0; r < result.blame.size(); ++r) {
    if (result.as_late_as[r] != Rank(r)) {
      as_late[result.as_late_as[r].index()].emplace_back(r);
    }
  }
  std::vector<StragglerReport> stragglers;
  for (std::size_t r = 0; r < result.blame.size(); ++r) {
    if (result.blame[r].total > SimTime{} || result.waited_for[r] > 0) {
      stragglers.push_back({Rank(r),
                            {},
                            result.blame[r].count,
                            to_seconds(result.blame[r].total),
                            Seconds(static_cast<double>(result.waited_for[r]) / each),
                            as_late[r]});
    }
  }
  std::ranges::stable_sort(stragglers, std::ranges::greater{}, &StragglerReport::waited);
  for (StragglerReport& s : stragglers) {
    s.gpu = topology.device_name(topology.gpu_of(s.rank));
  }
  return stragglers;
}

// Of a steady step, mean: a rank whose batches have run out has none.
double samples_of_step(const TrainingJob& job, const Result& result) {
  const auto all = static_cast<double>(job.samples_per_iteration);
  const auto steps = static_cast<std::uint32_t>(result.iteration_end.size() - 1);
  if (job.batches.empty()) {
    return all;
  }
  std::uint64_t computed = 0;
  for (const std::uint32_t batches : job.batches) {
    computed += std::min(batches - 1, steps);  // the first is the warm-up's
  }
  return all * static_cast<double>(computed) /
         (static_cast<double>(steps) * static_cast<double>(job.ranks()));
}

double dropped_share(const Served& served) {
  const std::uint64_t pushes = served.first.pushes + served.later.pushes;
  return pushes == 0
             ? 0
             : static_cast<double>(served.first.dropped + served.later.dropped) / static_cast<double>(pushes);
}

// Each worker's own rate, from the end of its warm-up to that of its last step in the run; of gradients that count.
double served_throughput(const TrainingJob& job, const Result& result) {
  double steps_per_second = 0;
  for (const std::vector<SimTime>& ends : result.own_ends) {
    steps_per_second += static_cast<double>(ends.size() - 1) / to_seconds(ends.back() - ends.front()).value;
  }
  const double each = static_cast<double>(job.samples_per_iteration) / static_cast<double>(job.ranks());
  return steps_per_second * each * (1 - dropped_share(result.served));
}

double counted_throughput(const TrainingJob& job, const Result& result) {
  if (!result.own_ends.empty()) {
    return served_throughput(job, result);
  }
  return samples_of_step(job, result) / mean_step(result).value;
}

// Where the bound on staleness is met workers get ahead of the slowest once; for ever all are as fast as it is.
double throughput_at_the_bound(const TrainingJob& job, const Result& result) {
  const Seconds all = to_seconds(result.iteration_end.back() - result.iteration_end.front());
  return static_cast<double>(job.samples_per_iteration) *
         static_cast<double>(result.iteration_end.size() - 1) / all.value;
}

}  // namespace

// No step can for ever be shorter than its loader takes for its batches; a few can, while batches last that
// were prefetched before.
double lasting_throughput(const TrainingJob& job, const Result& result) {
  const double counted =
      result.served.held_back > 0 ? throughput_at_the_bound(job, result) : counted_throughput(job, result);
  const auto batches = std::ranges::count(job.main().steady.ops, OpKind::take_batch, &Op::kind);
  if (!job.input || batches == 0) {
    return counted;
  }
  constexpr double kRounding = 1e-12;
  const Seconds step = to_seconds(job.input->batch_time * batches);
  const double made = static_cast<double>(job.samples_per_iteration) / step.value;
  return counted <= made * (1 + kRounding) ? counted : made;
}

namespace {

std::optional<ServersReport> servers_report(const TrainingJob& job, const Result& result) {
  if (job.serving.empty()) {
    return std::nullopt;
  }
  const Served::Round& round = result.served.later;
  ServersReport report;
  report.staleness = round.staleness;
  report.dropped_share = dropped_share(result.served);
  report.updates = result.served.updates;
  std::uint64_t all = 0, seen = 0;
  for (std::size_t n = 0; n < round.staleness.size(); ++n) {
    all += round.staleness[n];
    report.mean_staleness += static_cast<double>(n) * static_cast<double>(round.staleness[n]);
  }
  report.mean_staleness /= static_cast<double>(std::max<std::uint64_t>(all, 1));
  for (std::size_t n = 0; n < round.staleness.size() && 20 * seen < 19 * all; ++n) {
    seen += round.staleness[n];
    report.staleness_p95 = n;
  }
  report.hottest_server_in = hottest_server_in(job);
  return report;
}

// Those of the last iteration.
std::vector<FusionReport> fusion_reports(const Result& result) {
  std::vector<FusionReport> fusions;
  if (result.decisions.iterations.size() > 1) {
    const SimTime began = result.iteration_end[result.iteration_end.size() - 2];
    for (const DecidedCollective& each : result.decisions.iterations.back()) {
      fusions.push_back({each.tensors.size(), each.bytes, to_seconds(each.queued - began),
                         to_seconds(each.decided - began), to_seconds(each.start - began),
                         to_seconds(each.end - began)});
    }
  }
  return fusions;
}

Seconds exchange_of(const TrainingJob& job, const Result& result) {
  SimTime sum;
  for (const Op& op : job.main().steady.ops) {
    if (op.kind == OpKind::collective && op.purpose.bucket != kNoIndex && !op.never_runs()) {
      sum += result.timing[op.index].end - result.timing[op.index].launch;
    }
  }
  return to_seconds(sum) / static_cast<double>(result.iteration_end.size() - 1);
}

// Of bytes that all ranks have in the end: each sends all others' parts of a sum twice, of what is gathered once.
std::optional<CompressionReport> compression_report(const TrainingJob& job, std::int64_t gradients) {
  const Program& steady = job.main().steady;
  CompressionReport report;
  double sent = 0;
  for (const Op& op : steady.ops) {
    if (op.kind == OpKind::kernel && op.purpose.phase == Phase::compress) {
      report.kernels = report.kernels + to_seconds(op.duration);
    } else if (op.kind == OpKind::collective && op.purpose.bucket != kNoIndex) {
      const CollectivePlan& plan = job.plans[steady.collectives[op.index]];
      sent += (plan.kind == CollectiveKind::all_reduce ? 2.0 : 1.0) * static_cast<double>(plan.bytes.value);
    }
  }
  if (report.kernels.value == 0 || sent == 0) {
    return std::nullopt;
  }
  report.ratio = 2.0 * static_cast<double>(gradients) / sent;
  return report;
}

// Of steady iterations alone: in whole periods each has one step that synchronises, its last.
std::optional<PeriodReport> period_report(const TrainingJob& job, const Result& result) {
  std::uint32_t steps = 1;
  for (const Op& op : job.main().steady.ops) {
    steps = op.never_runs() ? steps : std::max(steps, op.every);
  }
  const auto count = static_cast<std::uint32_t>(result.iteration_end.size() - 1);
  if (steps == 1 || count < steps) {
    return std::nullopt;
  }
  SimTime synchronising;
  for (std::uint32_t i = steps; i <= count; i += steps) {
    synchronising += result.iteration_end[i] - result.iteration_end[i - 1];
  }
  const SimTime all = result.iteration_end.back() - result.iteration_end.front();
  const std::uint32_t synchronised = count / steps;
  return PeriodReport{steps, to_seconds(synchronising) / static_cast<double>(synchronised),
                      to_seconds(all - synchronising) / static_cast<double>(count - synchronised)};
}

Rank rank_with_most_compute(const Result& result) {
  const auto most =
      std::max_element(result.breakdown.begin(), result.breakdown.end(),
                       [](const Breakdown& a, const Breakdown& b) { return a.compute < b.compute; });
  return Rank(most - result.breakdown.begin());
}

}  // namespace

Seconds mean_step(const Result& result) {
  if (!result.own_ends.empty()) {
    PicosecondSum sum = 0;
    for (const std::vector<SimTime>& ends : result.own_ends) {
      sum += (ends[result.iteration_end.size() - 1] - ends.front()).ps;
    }
    return Seconds(static_cast<double>(sum) / rank_steps(result));
  }
  return to_seconds(result.iteration_end.back() - result.iteration_end.front()) /
         static_cast<double>(result.iteration_end.size() - 1);
}

std::uint32_t median_iteration(const Result& result) {
  const std::vector<SimTime> steps = step_times(result);
  std::vector<SimTime> sorted = steps;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() + 1) / 2 - 1);
  std::ranges::nth_element(sorted, middle);
  return static_cast<std::uint32_t>(std::ranges::find(steps, *middle) - steps.begin()) + 1;
}

Report summarize(const TrainingJob& job, const Result& result, const Topology& topology, double alone,
                 Bytes gradients) {
  Report report;
  report.step = step_time(result);
  report.warm_up = to_seconds(result.iteration_end.front());
  report.throughput = lasting_throughput(job, result);
  report.counted_throughput = counted_throughput(job, result);
  report.scaling_efficiency = report.throughput / alone;
  report.breakdown = mean_breakdown(result);
  report.worst_rank = rank_with_most_compute(result);
  report.worst_breakdown = per_step(result.breakdown[report.worst_rank.index()],
                                    static_cast<double>(result.iteration_end.size() - 1));
  report.buckets = bucket_reports(job, result);
  report.collectives = collective_reports(job, result);
  report.stragglers = straggler_reports(result, topology);
  report.exchange = exchange_of(job, result);
  report.compression = compression_report(job, gradients.value);
  report.servers = servers_report(job, result);
  report.fusions = fusion_reports(result);
  report.period = period_report(job, result);
  report.drift = drift_of(steps_of_all(result));
  return report;
}

}  // namespace paceline
