#include "sim/engine/vector_engine.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/simd.h"
#include "sim/engine/trajectory.h"

namespace paceline {
namespace {

constexpr std::size_t kBlock = Sampler::kMostRanks;

struct KernelStep {
  double duration = 0;
  SimTime host_offset;   // from host[i] to the moment this kernel is issued
  SimTime counted_from;  // time before it is not counted as compute
};

// One kernel on `count` ranks: it starts when it is issued and the stream is free.
PACELINE_VECTORIZED void run_kernel(const KernelStep step, std::size_t count, const double* __restrict factor,
                                    const double* __restrict jitter, const SimTime* __restrict host,
                                    SimTime* __restrict stream, SimTime* __restrict compute,
                                    SimTime* __restrict own) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t issued = host[i].ps + step.host_offset.ps;
    const std::int64_t start = stream[i].ps > issued ? stream[i].ps : issued;
    const std::int64_t duration = round_small_picoseconds(step.duration * factor[i] * jitter[i]);
    const std::int64_t end = start + duration;
    const std::int64_t counted_end = end > step.counted_from.ps ? end : step.counted_from.ps;
    const std::int64_t counted_start = start > step.counted_from.ps ? start : step.counted_from.ps;
    stream[i].ps = end;
    compute[i].ps += counted_end - counted_start;
    own[i].ps += duration;
  }
}

std::size_t longest_lag(const TrainingJob& job) {
  std::uint32_t longest = 0;
  for (const Program* program : {&job.main().warm_up, &job.main().steady}) {
    for (const Op& op : program->ops) {
      longest = std::max(longest, op.lag);
    }
  }
  return longest;
}

SimTime longest_kernel(const TrainingJob& job) {
  SimTime longest;
  for (const Role& role : job.roles) {
    for (const Program* program : {&role.threads.front().warm_up, &role.threads.front().steady}) {
      for (const Op& op : program->ops) {
        longest = std::max(longest, op.duration);
      }
    }
  }
  return longest;
}

}  // namespace

VectorEngine::VectorEngine(const TrainingJob& job, std::uint64_t seed, const TraceRequest& trace)
    : job_(job),
      trace_(trace),
      groups_(job),
      layouts_(job),
      variability_(job.variability, job.ranks(), seed),
      input_jitter_(job.input ? job.input->jitter : Distribution{}),
      seed_(seed),
      times_(job.communicator, job.plans, job.roles.size() == 1 && !ranks_differ(job.variability)),
      slowed_(job.slowdown.slows()),
      may_repeat_(may_repeat(job)),
      own_input_(job.input && job.input->jitter.kind != DistributionKind::none) {
  short_kernels_ =
      static_cast<double>(longest_kernel(job).ps) * largest_factor(job.variability) < kSmallPicoseconds;
  const std::size_t n = job.ranks();
  for (std::vector<SimTime>* times :
       {&host_, &stream_, &batch_begin_, &batch_ready_, &own_, &own_before_, &prepared_, &totals_.compute,
        &totals_.exposed, &totals_.straggler, &totals_.waited_for_input}) {
    times->assign(n, SimTime{});
  }
  factor_.assign(n, 1.0);
  ends_.assign(static_cast<std::size_t>(job.host_runs_ahead) + 1, std::vector<SimTime>(n));
  if (job.input) {
    consumed_.assign(static_cast<std::size_t>(job.input->prefetch), std::vector<SimTime>(n));
  }
  communication_.assign(layouts_.main().queues, std::vector<SimTime>(n));
  next_collective_.resize(layouts_.main().queues);
  slowing_.assign(layouts_.main().queues, std::vector<std::vector<OpSpan>>(slowed_ ? n : 0));
  most_collectives_ = std::max<std::size_t>(
      1, std::max(job.main().warm_up.collectives.size(), job.main().steady.collectives.size()));
  busy_.assign((longest_lag(job) + 1) * most_collectives_,
               {std::vector<SimTime>(n), std::vector<SimTime>(n), std::vector<SimTime>(n)});
  for (const ProgramLayout& each : layouts_.main().programs) {
    op_end_.resize(std::max(op_end_.size(), each.followers.size()));
    for (std::size_t op = 0; op < each.followers.size(); ++op) {
      if (!each.followers[op].empty()) {
        op_end_[op] = {std::vector<SimTime>(n), std::vector<SimTime>(n)};
      }
    }
  }
  last_launch_.resize(layouts_.records);
  waits_.resize(layouts_.records);
  jitter_.assign(4 * kBlock, 1.0);
  result_.engine = EngineKind::vector;
  totals_.blame.resize(n);
  totals_.timing.resize(job.main().steady.collectives.size());
  totals_.waits.resize(job.main().steady.collectives.size());
  totals_.waited_for.resize(n);
  for (std::size_t r = 0; r < n; ++r) {
    result_.as_late_as.emplace_back(r);
  }
  traced_ = place_traced(trace_, n);
}

void VectorEngine::run_iteration() {
  if (repeats()) {
    repeat();
    return;
  }
  if (may_repeat_) {
    totals_before_ = totals_;
  }
  begin_iteration();
  const std::vector<Op>& ops = program().ops;
  for (std::uint32_t index = 0; index < ops.size(); ++index) {
    if (!ops[index].runs_in(iteration_)) {
      leave_out(index);
      continue;
    }
    switch (ops[index].kind) {
      case OpKind::kernel:
        index = run_kernels(index);
        break;
      case OpKind::collective:
        for (SimTime& host : host_) {
          host += ops[index].host_cost;
        }
        break;
      case OpKind::wait:
        run_wait(ops[index], index);
        break;
      case OpKind::take_batch:
        take_batch(ops[index], index);
        break;
      case OpKind::synchronize:
        synchronize(ops[index], index);
        break;
      case OpKind::send:
      case OpKind::gate:
      case OpKind::join:
        break;  // not in the jobs that it takes
    }
    keep_end(index);
    run_collectives(index);
  }
  end_iteration();
}

void VectorEngine::begin_iteration() {
  const std::size_t n = job_.ranks();
  const std::vector<SimTime>& released = ends_[iteration_ % ends_.size()];  // of iteration_ - runs_ahead - 1
  for (std::size_t r = 0; r < n; ++r) {
    host_[r] = std::max(host_[r], released[r]);
    factor_[r] = variability_.rank_factor(Rank(r), iteration_);
  }
  std::ranges::fill(next_collective_, 0U);
  std::ranges::fill(last_launch_, LastLaunch{});
  std::ranges::fill(waits_, CollectiveWaits{});
  at_start_ = true;
  after_batch_ = false;
  if (trace_.wants(iteration_)) {
    for (const Rank rank : trace_.ranks) {
      result_.trace.push_back({iteration_, rank, std::vector<OpSpan>(program().ops.size()),
                               std::vector<SimTime>(program().ops.size())});
    }
  }
}

// The host passes over an operation; where it is the stream's last, the rank's iteration ends.
void VectorEngine::leave_out(std::uint32_t op) {
  if (op == layout().last_stream_op) {
    for (std::size_t r = 0; r < job_.ranks(); ++r) {
      stream_[r] = std::max(stream_[r], host_[r]);
    }
  }
  keep_end(op);
}

// For the collectives that come after it.
void VectorEngine::keep_end(std::uint32_t op) {
  if (!layout().followers[op].empty() && program().ops[op].kind != OpKind::collective) {
    op_end_[op].at = stream_;
    op_end_[op].own = own_;
  }
}

std::uint32_t VectorEngine::run_kernels(std::uint32_t first_op) {
  const std::vector<Op>& ops = program().ops;
  account_idle(ops[first_op].host_cost);
  std::uint32_t last_op = first_op;
  SimTime issued;
  do {
    issued += ops[last_op].host_cost;
    ++last_op;
  } while (last_op < ops.size() && ops[last_op].kind == OpKind::kernel && ops[last_op].runs_in(iteration_) &&
           layout().followers[last_op - 1].empty());
  for (std::size_t first_rank = 0; first_rank < job_.ranks(); first_rank += kBlock) {
    run_kernel_block(first_op, last_op, first_rank, std::min(kBlock, job_.ranks() - first_rank));
  }
  for (SimTime& host : host_) {
    host += issued;
  }
  return last_op - 1;
}

void VectorEngine::run_kernel_block(std::size_t first_op, std::size_t last_op, std::size_t first_rank,
                                    std::size_t count) {
  const std::vector<Op>& ops = program().ops;
  const Sampler& sampler = variability_.per_operation();
  const bool traced = traces(first_rank, count);
  SimTime issued;
  for (std::size_t op = first_op; op < last_op; ++op) {
    issued += ops[op].host_cost;
    if (!sampler.constant() && (op == first_op || op % 4 == 0)) {
      sampler.draw_group(variability_.operation_address(iteration_), Rank(first_rank), count,
                         static_cast<std::uint32_t>(op / 4), jitter_.data(), kBlock);
    }
    const double* jitter = jitter_.data() + op % 4 * kBlock;
    if (slowed_ || traced || !short_kernels_ || job_.roles.size() > 1) {
      for (std::size_t i = 0; i < count; ++i) {
        run_kernel_in_detail(static_cast<std::uint32_t>(op), first_rank + i, host_[first_rank + i] + issued,
                             jitter[i]);
      }
    } else {
      run_kernel({static_cast<double>(ops[op].duration.ps), issued, counted_from_}, count,
                 &factor_[first_rank], jitter, &host_[first_rank], &stream_[first_rank],
                 &totals_.compute[first_rank], &own_[first_rank]);
    }
  }
}

// The same as run_kernel for one rank, for what it leaves out: slow-down, tracing, kernels above 2251 s, ranks whose
// kernels take other times.
void VectorEngine::run_kernel_in_detail(std::uint32_t op, std::size_t rank, SimTime issued, double jitter) {
  const SimTime start = std::max(stream_[rank], issued);
  const Op& kernel = job_.program(Rank(rank), iteration_).ops[op];
  const SimTime duration = disturbed(kernel.duration, factor_[rank], jitter);
  const SimTime end = slowed_ ? run_slowed(rank, start, duration) : start + duration;
  stream_[rank] = end;
  totals_.compute[rank] += overlap(start, end, counted_from_, kNever);
  own_[rank] += duration;
  record(op, rank, {start, end}, issued);
}

// Work is counted in units of 1/p picosecond: p per picosecond when the communication queues are free, q while
// one is busy; the kernel ends at the ceiling.
SimTime VectorEngine::run_slowed(std::size_t rank, SimTime start, SimTime duration) {
  __extension__ using Work = __int128;
  const Work p = job_.slowdown.numerator, q = job_.slowdown.denominator;
  Work work = Work{duration.ps} * p;
  for (SimTime now = start;;) {
    bool busy = false;
    SimTime until = kNever;  // when that may change
    for (std::vector<std::vector<OpSpan>>& queue : slowing_) {
      std::vector<OpSpan>& of_rank = queue[rank];
      const auto first = std::ranges::find_if(of_rank, [now](const OpSpan& span) { return span.end > now; });
      of_rank.erase(of_rank.begin(), first);
      if (!of_rank.empty()) {
        const bool runs = of_rank.front().start <= now;
        busy = busy || runs;
        until = std::min(until, runs ? of_rank.front().end : of_rank.front().start);
      }
    }
    const Work rate = busy ? q : p;
    const SimTime done = now + SimTime{static_cast<std::int64_t>((work + rate - 1) / rate)};
    if (done <= until) {
      return done;
    }
    work -= Work{(until - now).ps} * rate;
    now = until;
  }
}

// Runs what may run now that the host has issued `last_issued` and the stream has ended it. A collective that is
// left depends on what is still to come, so it can't slow down what has run (why_not_vector).
void VectorEngine::run_collectives(std::uint32_t last_issued) {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint32_t queue = 0; queue < next_collective_.size(); ++queue) {
      while (const std::optional<SimTime> cost = issue_cost_of_next(queue, last_issued)) {
        run_collective(next_collective_[queue]++, *cost);
        moved = true;
      }
    }
  }
}

// What the host takes to issue the queue's next collective of this iteration from `last_issued` on, where there is
// one, and that and what it comes after are known.
std::optional<SimTime> VectorEngine::issue_cost_of_next(std::uint32_t queue, std::uint32_t last_issued) {
  const std::vector<Op>& ops = program().ops;
  const std::vector<CollectiveLayout>& all = layout().collectives;
  std::uint32_t& next = next_collective_[queue];
  while (next < all.size() && (all[next].queue != queue || !ops[all[next].op].runs_in(iteration_))) {
    ++next;
  }
  if (next == all.size()) {
    return std::nullopt;
  }
  const std::uint32_t index = all[next].op;
  const Op& op = ops[index];
  if (op.after == After::op) {
    const Op& before = ops[op.after_op];
    if (before.kind == OpKind::collective ? before.index >= next_collective_[before.queue]
                                          : op.after_op > last_issued) {
      return std::nullopt;
    }
  } else if (op.after == After::compute && index > last_issued) {
    return std::nullopt;
  }
  SimTime cost;
  for (std::uint32_t i = last_issued + 1; i <= index; ++i) {
    if (ops[i].runs_in(iteration_)) {
      if (ops[i].kind == OpKind::take_batch || ops[i].kind == OpKind::synchronize) {
        return std::nullopt;
      }
      cost += ops[i].host_cost;
    }
  }
  return cost;
}

void VectorEngine::run_collective(std::uint32_t number, SimTime issue_cost) {
  const CollectiveLayout& of = collective(number);
  const Op& op = program().ops[of.op];
  Busy& busy = this->busy(iteration_, number);
  std::vector<SimTime>& queue = communication_[op.queue];
  SimTime ready;
  const std::vector<SimTime>* input = op.after == After::compute ? &stream_ : nullptr;
  const std::vector<SimTime>* own = op.after == After::compute ? &own_ : nullptr;
  if (op.after == After::op) {
    const Op& before = program().ops[op.after_op];
    const bool is_collective = before.kind == OpKind::collective;
    input = is_collective ? &this->busy(iteration_, before.index).end : &op_end_[op.after_op].at;
    own = is_collective ? nullptr : &op_end_[op.after_op].own;
  }
  for (std::uint32_t r = 0; r < job_.ranks(); ++r) {
    busy.own[r] = own != nullptr ? (*own)[r] : SimTime{};
    busy.launch[r] = std::max(host_[r] + issue_cost, queue[r]);
    if (input != nullptr) {
      busy.launch[r] = std::max(busy.launch[r], (*input)[r]);
    }
    ready = std::max(ready, input != nullptr ? (*input)[r] : busy.launch[r]);
    last_launch_[record_of(of, r)].add({busy.launch[r], busy.own[r], r});
    prepared_[r] = busy.launch[r] + op.prepare;
  }
  times_.end(of.plan, prepared_, previous_end_, busy.end);
  SimTime latest;
  for (std::size_t r = 0; r < job_.ranks(); ++r) {
    busy.end[r] += op.conclude;
    queue[r] = busy.end[r];
    latest = std::max(latest, busy.end[r]);
  }
  add_facts(number);
  for (std::size_t i = 0; trace_.wants(iteration_) && i < trace_.ranks.size(); ++i) {
    const std::size_t r = trace_.ranks[i].index();
    record(of.op, r, {busy.launch[r], busy.end[r]}, host_[r] + issue_cost);
  }
  for (std::size_t r = 0; slowed_ && r < job_.ranks(); ++r) {
    slowing_[op.queue][r].push_back({busy.launch[r], busy.end[r]});
  }
  if (iteration_ > 0) {
    add_timing(op, ready, latest);
  }
}

// Of a collective of this iteration, to the fingerprint.
void VectorEngine::add_facts(std::uint32_t number) {
  const Busy& busy = this->busy(iteration_, number);
  const std::uint64_t launch = subject(Fact::launch, iteration_, number),
                      end = subject(Fact::collective_end, iteration_, number);
  for (std::uint32_t r = 0; r < job_.ranks(); ++r) {
    fingerprint_.add(launch, r, busy.launch[r]);
    fingerprint_.add(end, r, busy.end[r]);
  }
}

void VectorEngine::add_timing(const Op& op, SimTime ready, SimTime latest) {
  const CollectiveLayout& of = collective(op.index);
  SimTime launch;
  for (std::uint32_t g = 0; g < groups_.count(of.family); ++g) {
    launch = std::max(launch, last_launch_[of.first_record + g].last.at);
  }
  CollectiveTiming& timing = totals_.timing[op.index];
  timing.ready += ready - previous_end_;
  timing.launch += launch - previous_end_;
  timing.end += latest - previous_end_;
}

void VectorEngine::run_wait(const Op& op, std::uint32_t index) {
  account_idle(op.host_cost);
  const Busy* const busy = iteration_ < op.lag ? nullptr : &this->busy(iteration_ - op.lag, op.index);
  const CollectiveLayout& of = collective(op.index);
  for (std::uint32_t r = 0; r < job_.ranks(); ++r) {
    host_[r] += op.host_cost;
    const SimTime begin = std::max(stream_[r], host_[r]);
    const SimTime end = busy == nullptr ? begin : std::max(begin, busy->end[r]);
    SimTime straggler, exposed = overlap(begin, end, counted_from_, kNever);
    if (op.lag == 0) {
      const std::uint32_t record = record_of(of, r);
      const LastLaunch::Launch& last = last_launch_[record].last;
      straggler =
          straggling(overlap(begin, std::min(end, last.at), counted_from_, kNever), busy->own[r], last.own);
      exposed = exposed - straggler;
      waits_[record].straggler += straggler.ps;
      waits_[record].exposed += exposed.ps;
    }
    totals_.straggler[r] += straggler;
    totals_.exposed[r] += exposed;
    stream_[r] = end;
    own_[r] = {};
    record(index, r, {begin, end}, host_[r]);
  }
}

// Who came last to the collectives of a steady iteration, and what the others waited for it.
void VectorEngine::charge_collectives() {
  for (const CollectiveRow& row : layouts_.rows) {
    for (std::uint32_t g = 0; row.steady && g < groups_.count(row.family); ++g) {
      const LastLaunch::Launch &last = last_launch_[row.first_record + g].last,
                               &second = last_launch_[row.first_record + g].second;
      const CollectiveWaits& waits = waits_[row.first_record + g];
      result_.last_to_launch.emplace_back(last.rank);
      if (last.at >= SimTime{} && groups_.size(row.family, g) > 1) {
        totals_.blame[last.rank].total += straggling(last.at - second.at, second.own, last.own);
      }
      totals_.waits[row.of_main].straggler += waits.straggler;
      totals_.waits[row.of_main].exposed += waits.exposed;
      totals_.waited_for[last.rank] += waits.straggler;
      if (waits.straggler > 0) {
        ++totals_.blame[last.rank].count;
        groups_.for_each(row.family, g, [&](std::uint32_t r) {
          note_if_as_late(r, busy(iteration_, row.of_main).own, last.rank, result_.as_late_as);
        });
      }
    }
  }
}

void VectorEngine::take_batch(const Op& op, std::uint32_t index) {
  const InputPipeline& input = *job_.input;
  std::vector<SimTime>& consumed = consumed_[batches_ % consumed_.size()];
  for (std::size_t r = 0; r < job_.ranks(); ++r) {
    const double jitter = input_jitter_.draw({seed_, Stream::input, batches_}, Rank(r), 0);
    batch_ready_[r] = std::max(batch_ready_[r], consumed[r]) + disturbed(input.batch_time, 1.0, jitter);
    batch_begin_[r] = host_[r];
    consumed[r] = std::max(host_[r], batch_ready_[r]);
    own_[r] += own_input_ ? overlap(batch_begin_[r], batch_ready_[r], stream_[r], kNever) : SimTime{};
    const OpSpan waited{host_[r], consumed[r]};
    host_[r] = consumed[r] + op.host_cost;
    record(index, r, waited, host_[r]);
  }
  ++batches_;
  after_batch_ = true;
}

void VectorEngine::synchronize(const Op& op, std::uint32_t index) {
  for (std::size_t r = 0; r < job_.ranks(); ++r) {
    const SimTime released = std::max(host_[r], stream_[r]);
    const OpSpan waited{host_[r], released};
    host_[r] = released + op.host_cost;
    record(index, r, waited, host_[r]);
  }
}

// Accounts for the stream's idle time before its first operation of an iteration, or after taking a batch.
void VectorEngine::account_idle(SimTime next_host_cost) {
  if ((!at_start_ && !after_batch_) || iteration_ == 0) {
    return;
  }
  PicosecondSum waited = 0;
  for (std::size_t r = 0; r < job_.ranks(); ++r) {
    const SimTime from = std::max(stream_[r], counted_from_);
    const SimTime to = std::max(from, host_[r] + next_host_cost);
    totals_.waited_for_input[r] += waits_for_input(r, from, to);
    if (at_start_) {
      const SimTime straggler = finished_before(r, from, std::min(to, previous_end_));
      totals_.straggler[r] += straggler;
      waited += straggler.ps;
    }
  }
  charge_end(waited);
  at_start_ = after_batch_ = false;
}

SimTime VectorEngine::waits_for_input(std::size_t rank, SimTime from, SimTime to) const {
  return after_batch_ ? overlap(from, to, batch_begin_[rank], batch_ready_[rank]) : SimTime{};
}

// What of [from, until) a rank was done with the iteration before, for what the last one did later.
SimTime VectorEngine::finished_before(std::size_t rank, SimTime from, SimTime until) const {
  const SimTime finished = std::max(until - from, SimTime{}) - waits_for_input(rank, from, until);
  return straggling(finished, own_before_[rank], own_before_[result_.last_to_end.back().index()]);
}

// Charges the waits after an iteration to the last rank to end it.
void VectorEngine::charge_end(PicosecondSum waited) {
  const std::uint32_t last = result_.last_to_end.back().value;
  totals_.waited_for[last] += waited;
  if (waited > 0) {
    note_as_late(own_before_, last, result_.as_late_as);
  }
}

void VectorEngine::end_iteration() {
  if (iteration_ > 0) {
    charge_collectives();
  }
  SimTime latest;
  std::size_t last = 0;
  for (std::size_t r = 0; r < job_.ranks(); ++r) {
    if (stream_[r] > latest || (stream_[r] == latest && own_[r] > own_[last])) {
      latest = stream_[r];
      last = r;
    }
  }
  ends_[iteration_ % ends_.size()] = stream_;
  own_before_ = own_;
  const SimTime period = latest - previous_end_;
  if (iteration_ == 0) {
    counted_from_ = latest;
  }
  close_iteration(latest, Rank(last));
  if (may_repeat_) {
    compare_with_before(period);
  }
}

// All ranks have ended the iteration, `last` the last of them.
void VectorEngine::close_iteration(SimTime latest, Rank last) {
  const std::uint64_t end_fact = subject(Fact::iteration_end, iteration_);
  for (std::size_t r = 0; r < job_.ranks(); ++r) {
    fingerprint_.add(end_fact, r, stream_[r]);
  }
  previous_end_ = latest;
  result_.iteration_end.push_back(latest);
  result_.last_to_end.push_back(last);
  if (iteration_ > 0 && iteration_ <= trace_.rank_steps) {
    result_.rank_steps.resize(result_.rank_steps.size() + job_.ranks());
    keep_rank_steps();
  }
  ++iteration_;
}

// What each rank has done by now, as that of the last iteration.
void VectorEngine::keep_rank_steps() {
  for (std::size_t r = 0; r < job_.ranks(); ++r) {
    result_.rank_steps[result_.rank_steps.size() - job_.ranks() + r] = done_by(
        {totals_.compute[r], totals_.exposed[r], totals_.straggler[r], {}, totals_.waited_for_input[r], {}},
        totals_.waited_for[r]);
  }
}

void VectorEngine::record(std::uint32_t op, std::size_t rank, OpSpan span, SimTime issued) {
  if (trace_.wants(iteration_) && !traced_.empty() && traced_[rank] != kNotTraced) {
    TracedIteration& traced = result_.trace[result_.trace.size() - trace_.ranks.size() + traced_[rank]];
    traced.ops[op] = span;
    traced.issued[op] = issued;
  }
}

bool VectorEngine::traces(std::size_t first_rank, std::size_t count) const {
  const auto next = std::ranges::lower_bound(trace_.ranks, Rank(first_rank));
  return trace_.wants(iteration_) && next != trace_.ranks.end() && next->index() < first_rank + count;
}

Result VectorEngine::finish() {
  const SimTime total = result_.iteration_end.back() - result_.iteration_end.front();
  const std::size_t last = result_.last_to_end.back().index();
  PicosecondSum waited = 0;
  result_.breakdown.resize(job_.ranks());
  for (std::size_t r = 0; r < job_.ranks(); ++r) {
    const SimTime straggler = straggling(overlap(stream_[r], previous_end_, counted_from_, kNever),
                                         own_before_[r], own_before_[last]);
    totals_.straggler[r] += straggler;
    waited += straggler.ps;
    const SimTime known =
        totals_.compute[r] + totals_.exposed[r] + totals_.straggler[r] + totals_.waited_for_input[r];
    result_.breakdown[r] = {totals_.compute[r],          totals_.exposed[r], totals_.straggler[r], {},
                            totals_.waited_for_input[r], total - known};
  }
  charge_end(waited);
  if (iteration_ <= trace_.rank_steps + 1) {  // what is waited for after the last iteration
    keep_rank_steps();
  }
  take_differences(result_.rank_steps, job_.ranks());
  result_.blame = std::move(totals_.blame);
  result_.timing = std::move(totals_.timing);
  result_.waits = std::move(totals_.waits);
  result_.waited_for = std::move(totals_.waited_for);
  result_.fingerprint = fingerprint_.value();
  return std::move(result_);
}

Result run_vector_engine(const TrainingJob& job, const RunSpec& run, const TraceRequest& trace,
                         const StepProgress& progress) {
  VectorEngine engine(job, run.seed, trace);
  for (int i = 0; i <= run.iterations; ++i) {
    engine.run_iteration();
    if (progress) {
      progress(static_cast<std::size_t>(i) + 1, static_cast<std::size_t>(run.iterations) + 1);
    }
  }
  return engine.finish();
}

}  // namespace paceline
