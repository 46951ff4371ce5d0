// Jobs of any roles: does the event engine do what the plainest simulation does, to the picosecond?
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "path_of.h"
#include "plain_simulation.h"
#include "random_job.h"
#include "same_result.h"
#include "sim/engine/event_engine.h"
#include "sim/engine/simulate.h"
#include "tests/dice.h"
#include "tests/meetings.h"
#include "tests/trace_of_first.h"

namespace paceline {
namespace {

// Families of a random job: who may be in a collective together, the servers, the workers.
class RandomRoles {
 public:
  explicit RandomRoles(std::uint64_t seed, bool hooks = false) : dice_(seed), hooks_(hooks) {
    workers_ = static_cast<std::uint32_t>(dice_.between(2, 7));
    servers_ = hooks ? 0 : static_cast<std::uint32_t>(dice_.between(0, 2));
    job_.host_runs_ahead = static_cast<int>(dice_.between(0, 3));
    add_meetings(job_, workers_, time());
    if (workers_ % 2 == 0) {
      std::vector<std::vector<std::uint32_t>> pairs;
      for (std::uint32_t w = 0; w < workers_; w += 2) {
        pairs.push_back({w, w + 1});
      }
      add_meetings(job_, workers_, time(), pairs);
    }
    add_servers();
    job_.roles.front().threads = {Thread{}};
    Program program = worker();
    job_.roles.front().threads.front() = {program, program};
    if (dice_.maybe(0.5)) {
      add_casts(job_, dice_, 5'000'000);
    }
    if (dice_.maybe(0.5)) {
      job_.variability.slow_gpus = {
          {{static_cast<std::int64_t>(dice_.below(workers_))}, 0, dice_.real(1, 20)}};
    }
    if (dice_.maybe(0.3)) {
      job_.variability.transient = {
          {dice_.real(0, 0.5), static_cast<int>(dice_.between(1, 3)), dice_.real(1, 4)}};
    }
  }

  TrainingJob take() { return std::move(job_); }

 private:
  SimTime time() { return SimTime{dice_.between(1, 5'000'000)}; }
  SimTime host_cost() { return SimTime{dice_.between(0, 1) * dice_.between(1, 500'000)}; }

  // A family for each server; routes there and back.
  void add_servers() {
    const std::uint32_t members = workers_ + servers_;
    first_server_family_ = static_cast<std::uint32_t>(job_.families.size());
    job_.members.resize(members);
    for (std::uint32_t s = 0; s < servers_; ++s) {
      job_.families.push_back({{{workers_ + s}}, std::vector<std::uint32_t>(workers_, 0)});
    }
    for (std::uint32_t from = 0; from < members; ++from) {
      for (std::uint32_t to = 0; to < members; ++to) {
        if ((from < workers_) != (to < workers_)) {
          job_.routes.push_back({from, to, time(), BytesPerSecond(dice_.real(1e9, 1e11))});
        }
      }
    }
    Serving& serving = job_.serving;
    for (std::int64_t i = dice_.between(servers_, 2 * servers_); servers_ > 0 && i > 0; --i) {
      serving.shards.push_back({workers_ + static_cast<std::uint32_t>(dice_.below(servers_)), 0,
                                Bytes(dice_.between(0, 1'000'000)), time(), time()});
    }
    serving.workers = workers_;
    serving.synchronous = dice_.maybe(0.5);
    serving.quorum = static_cast<std::uint32_t>(dice_.maybe(0.5) ? dice_.between(1, workers_) : workers_);
    serving.staleness =
        dice_.maybe(0.5) ? static_cast<std::uint32_t>(dice_.between(0, 3)) : Serving::kAnyStaleness;
  }

  Op with_cost(Op op) {
    op.host_cost = host_cost();
    return op;
  }
  Op kernel() {
    return with_cost(
        {.kind = OpKind::kernel, .duration = time(), .purpose = {dice_.one_of(kNames<Phase>).value}});
  }

  Program worker() {
    Program program;
    const auto shards = static_cast<std::uint32_t>(job_.serving.shards.size());
    const auto lag = static_cast<std::uint32_t>(dice_.between(0, 1));
    const auto pulls = [&] {
      for (std::uint32_t shard = 0; shard < shards; ++shard) {
        program.ops.push_back(with_cost({.kind = OpKind::gate, .index = shard, .lag = lag}));
        if (dice_.maybe(0.3)) {
          program.ops.push_back(kernel());
        }
      }
    };
    if (lag == 1) {
      pulls();
    }
    for (std::int64_t i = dice_.between(1, 3); i > 0; --i) {
      program.ops.push_back(kernel());
    }
    if (servers_ == 0) {
      collectives(program);
    }
    for (std::uint32_t shard = 0; shard < shards; ++shard) {
      program.ops.push_back(
          with_cost({.kind = OpKind::send,
                     .index = shard,
                     .to = first_server_family_ + job_.serving.shards[shard].server - workers_,
                     .bytes = Bytes(dice_.between(0, 1'000'000))}));
      if (dice_.maybe(0.5)) {
        program.ops.push_back(kernel());
      }
    }
    if (lag == 0) {
      pulls();
    }
    for (const Op& join : joins_) {
      program.ops.push_back(join);
    }
    joins_.clear();
    program.ops.push_back(kernel());
    return program;
  }

  // What follows a collective, on another stream of the GPU, with a further collective or without; waited for at the
  // end, or by the host.
  void hook(Program& program, std::uint32_t collective, const Op& issued) {
    const auto stream = static_cast<std::uint32_t>(dice_.between(1, 3));
    const auto beside = [&](After after, std::uint32_t op) {
      Op one = kernel();
      one.every = issued.every;
      one.stream = stream;
      one.after = after;
      one.after_op = op;
      program.ops.push_back(one);
      return static_cast<std::uint32_t>(program.ops.size() - 1);
    };
    std::uint32_t last = beside(After::op, collective);
    for (std::int64_t i = dice_.between(0, 2); i > 0; --i) {
      last = beside(After::nothing, 0);
    }
    if (dice_.maybe(0.5)) {
      const auto number = static_cast<std::uint32_t>(program.collectives.size());
      program.collectives.push_back(program.collectives.back());
      program.ops.push_back(with_cost({.kind = OpKind::collective,
                                       .index = number,
                                       .every = issued.every,
                                       .queue = issued.queue,
                                       .after = After::op,
                                       .after_op = last}));
      last = beside(After::op, static_cast<std::uint32_t>(program.ops.size() - 1));
    }
    if (dice_.maybe(0.3)) {
      program.ops.push_back(with_cost({.kind = OpKind::synchronize, .stream = kWholeDevice}));
    }
    joins_.push_back({.kind = OpKind::join, .every = issued.every, .after_op = last});
  }

  // Collectives of the world on queue 0, of pairs on queue 1, each waited for, some in every second iteration.
  void collectives(Program& program) {
    for (std::int64_t i = dice_.between(0, 3); i > 0; --i) {
      const auto number = static_cast<std::uint32_t>(program.collectives.size());
      const auto family = static_cast<std::uint32_t>(workers_ % 2 == 0 ? dice_.between(0, 1) : 0);
      program.collectives.push_back(2 * family);
      const auto every = static_cast<std::uint32_t>(dice_.maybe(0.3) ? dice_.between(2, 3) : 1);
      const auto lag = static_cast<std::uint32_t>(dice_.maybe(0.3) ? every * dice_.between(0, 1) : 0);
      const bool after_kernel = dice_.maybe(0.3);
      program.ops.push_back(with_cost({.kind = OpKind::collective,
                                       .index = number,
                                       .every = every,
                                       .queue = family,
                                       .after = after_kernel       ? After::op
                                                : dice_.maybe(0.3) ? After::nothing
                                                                   : After::compute,
                                       .after_op = 0}));
      if (hooks_ && program.ops.back().after != After::nothing) {
        hook(program, static_cast<std::uint32_t>(program.ops.size() - 1), Op(program.ops.back()));
      }
      if (dice_.maybe(0.7)) {
        program.ops.push_back(kernel());
      }
      program.ops.push_back(with_cost({.kind = OpKind::wait, .index = number, .every = every, .lag = lag}));
    }
  }

  Dice dice_;
  std::uint32_t workers_ = 1, servers_ = 0, first_server_family_ = 0;
  bool hooks_ = false;
  std::vector<Op> joins_;
  TrainingJob job_;
};

void check_spans(const Result& result, const PlainSimulation::Spans& expected) {
  for (const TracedIteration& traced : result.trace) {
    for (std::size_t i = 0; i < traced.ops.size(); ++i) {
      const auto at = expected.find({traced.rank.value, traced.iteration, i});
      const auto [start, end] = at == expected.end() ? std::pair<SimTime, SimTime>{} : at->second;
      INFO("rank " << traced.rank.value << ", iteration " << traced.iteration << ", operation " << i);
      REQUIRE(traced.ops[i].start == start);
      REQUIRE(traced.ops[i].end == end);
    }
  }
}

TEST_CASE(
    "kernels of several streams: the event engine and a plain simulation agree, and work is conserved") {
  std::uint64_t taken = 0;  // turns that a kernel of another stream had before one of the compute stream
  for (std::uint64_t seed = 1; seed <= rounds(1000); ++seed) {
    INFO("seed " << seed);
    const TrainingJob job = RandomRoles(seed, true).take();
    RunSpec run;
    run.iterations = static_cast<int>(1 + seed % 6);
    const TraceRequest all = trace_of_first(static_cast<std::uint32_t>(job.ranks()),
                                            static_cast<std::uint32_t>(run.iterations) + 1);
    const Result result = simulate(job, run, all);
    check_spans(result, PlainSimulation(job, run).run());
    check_path_adds_up(job, run, result, 1);
    std::vector<SimTime> worked(job.ranks());
    for (const TracedIteration& traced : result.trace) {
      const std::vector<Op>& ops = job.program(traced.rank, traced.iteration).ops;
      SimTime last;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        if (ops[i].kind == OpKind::kernel) {
          const SimTime from = std::max(traced.ops[i].start, result.iteration_end.front());
          worked[traced.rank.index()] += std::max(SimTime{}, traced.ops[i].end - from);
          taken += ops[i].stream == 0 && last > SimTime{} && last == traced.ops[i].start ? 1 : 0;
          last = ops[i].stream > 0 ? traced.ops[i].end : last;
        }
      }
    }
    for (std::size_t r = 0; r < job.ranks(); ++r) {
      const Breakdown& b = result.breakdown[r];
      CHECK(b.compute == worked[r]);
      CHECK(b.compute + b.exposed_communication + b.straggler_wait + b.input_wait + b.other ==
            result.iteration_end.back() - result.iteration_end.front());
      for (const SimTime part : {b.exposed_communication, b.straggler_wait, b.other}) {
        CHECK(part >= SimTime{});
      }
    }
  }
  CHECK(taken > rounds(200));
}

TEST_CASE("with kernels of several streams, too, iterations are repeated only as they would be simulated") {
  std::uint64_t repeated = 0;
  for (std::uint64_t seed = 1; seed <= rounds(1000); ++seed) {
    INFO("seed " << seed);
    TrainingJob job = RandomRoles(seed, true).take();
    job.variability.transient.clear();
    RunSpec run;
    run.iterations = 7;
    const TraceRequest all = trace_of_first(static_cast<std::uint32_t>(job.ranks()), 8);
    EventEngine simulated(job, run, all, AlikeSteps::simulated), quick(job, run, all);
    simulated.run();
    quick.run();
    repeated += quick.repeated() > 0 ? 1 : 0;
    const Result expected = simulated.finish(), found = quick.finish();
    check_same_result(found, expected);
    REQUIRE(found.trace.size() == expected.trace.size());
    for (std::size_t i = 0; i < found.trace.size(); ++i) {
      CHECK(found.trace[i].ops == expected.trace[i].ops);
    }
  }
  CHECK(repeated >= rounds(30));
}

TEST_CASE("jobs of any roles: the event engine and a plain simulation agree to the picosecond") {
  std::uint64_t ended = 0, messages = 0;
  for (std::uint64_t seed = 1; seed <= rounds(2000); ++seed) {
    INFO("seed " << seed);
    const TrainingJob job = RandomRoles(seed).take();
    RunSpec run;
    run.iterations = static_cast<int>(1 + seed % 6);
    run.engine = EngineChoice::event;
    const PlainSimulation::Spans expected = PlainSimulation(job, run).run();
    const TraceRequest all = trace_of_first(static_cast<std::uint32_t>(job.ranks()),
                                            static_cast<std::uint32_t>(run.iterations) + 1);
    if (expected.empty()) {
      CHECK_THROWS(simulate(job, run, all));
      continue;
    }
    ++ended;
    messages += job.routes.empty() ? 0 : 1;
    const Result result = simulate(job, run, all);
    check_spans(result, expected);
    const bool served = !job.serving.empty();
    if (!served) {
      check_path_adds_up(job, run, result, 1);
    }
    for (std::size_t r = 0; r < result.breakdown.size(); ++r) {
      const Breakdown& b = result.breakdown[r];
      const std::vector<SimTime>& ends = served ? result.own_ends[r] : result.iteration_end;
      const SimTime all_parts =
          b.compute + b.exposed_communication + b.straggler_wait + b.server_wait + b.input_wait + b.other;
      CHECK(all_parts == ends[static_cast<std::size_t>(run.iterations)] - ends.front());
      for (const SimTime part :
           {b.compute, b.exposed_communication, b.straggler_wait, b.server_wait, b.other}) {
        CHECK(part >= SimTime{});
      }
    }
    if (served && !job.serving.synchronous) {
      CHECK(result.served.updates == result.served.first.pushes + result.served.later.pushes);
      CHECK(result.served.later.dropped == 0);
    }
  }
  CHECK(ended > rounds(1500));
  CHECK(messages > rounds(800));
}

}  // namespace
}  // namespace paceline
