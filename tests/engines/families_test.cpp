// Jobs whose collectives run in groups, on queues beside one another: do the engines agree, and does
// why_not_vector say what keeps the vector engine from a job?
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "path_of.h"
#include "random_job.h"
#include "same_result.h"
#include "sim/engine/event_engine.h"
#include "sim/engine/simulate.h"
#include "tests/dice.h"
#include "tests/meetings.h"
#include "tests/trace_of_first.h"

namespace paceline {
namespace {

// One to three families of groups of equal size, drawn at random; each on a queue of its own.
class RandomFamilies {
 public:
  explicit RandomFamilies(std::uint64_t seed) : dice_(seed) {
    const std::vector<std::uint32_t> sizes{2, 4, 6, 8, 12};
    ranks_ = dice_.one_of(sizes);
    families_ = static_cast<std::uint32_t>(dice_.between(1, 3));
    for (std::uint32_t f = 0; f < families_; ++f) {
      add_meetings(job_, ranks_, SimTime{dice_.between(1, 20'000'000)}, groups());
    }
    job_.host_runs_ahead = static_cast<int>(dice_.between(0, 3));
    job_.variability = random_variability(dice_, ranks_);
    if (dice_.maybe(0.3)) {
      job_.input = InputPipeline{SimTime{dice_.between(0, 30'000'000)}, static_cast<int>(dice_.between(1, 3)),
                                 random_distribution(dice_)};
    }
    job_.main() = {program(), program()};
    if (dice_.maybe(0.5)) {
      add_casts(job_, dice_);
    }
  }

  TrainingJob take() { return std::move(job_); }

 private:
  std::vector<std::vector<std::uint32_t>> groups() {
    std::vector<std::uint32_t> order(ranks_), divisors;
    std::iota(order.begin(), order.end(), 0U);
    for (std::size_t i = order.size(); i-- > 1;) {
      std::swap(order[i], order[dice_.below(i + 1)]);
    }
    for (std::uint32_t size = 1; size <= ranks_; ++size) {
      if (ranks_ % size == 0) {
        divisors.push_back(size);
      }
    }
    std::vector<std::vector<std::uint32_t>> made(ranks_ / dice_.one_of(divisors));
    for (std::size_t i = 0; i < order.size(); ++i) {
      made[i % made.size()].push_back(order[i]);
    }
    return made;
  }

  Op with_cost(Op op) {
    op.host_cost = SimTime{dice_.between(0, 1) * dice_.between(0, 3'000'000)};
    return op;
  }

  // Perhaps not in the first iterations, or not in the last.
  Op limited(Op op) {
    op.from = static_cast<std::uint32_t>(dice_.maybe(0.1) ? dice_.between(1, 3) : 0);
    op.until = dice_.maybe(0.1) ? op.from + static_cast<std::uint32_t>(dice_.between(0, 3)) : kNoIndex;
    return op;
  }

  Op kernel(std::int64_t longest) {
    return with_cost({.kind = OpKind::kernel,
                      .duration = SimTime{dice_.between(0, longest)},
                      .purpose = {dice_.one_of(kNames<Phase>).value}});
  }

  std::uint32_t every() { return static_cast<std::uint32_t>(dice_.maybe(0.2) ? dice_.between(2, 3) : 1); }

  // Each collective is waited for, at once, later, or an iteration later.
  Program program() {
    Program program;
    std::vector<Op> waits;
    if (job_.input) {
      program.ops.push_back({.kind = OpKind::take_batch});
    }
    for (std::int64_t i = dice_.between(1, 8); i > 0; --i) {
      if (dice_.maybe(0.7)) {
        program.ops.push_back(limited(kernel(20'000'000)));
      }
      if (dice_.maybe(0.1)) {
        program.ops.push_back(with_cost({.kind = OpKind::synchronize, .every = every()}));
      }
      if (job_.input && dice_.maybe(0.1)) {
        program.ops.push_back(with_cost({.kind = OpKind::take_batch}));
      }
      const auto number = static_cast<std::uint32_t>(program.collectives.size());
      const auto family = static_cast<std::uint32_t>(dice_.below(families_));
      program.collectives.push_back(2 * family);
      Op collective{.kind = OpKind::collective, .index = number, .queue = family};
      const auto after_op = static_cast<std::uint32_t>(dice_.below(program.ops.size() + 1));
      if (after_op < program.ops.size() && program.ops[after_op].every == 1 &&
          program.ops[after_op].from == 0 && program.ops[after_op].until == kNoIndex &&
          program.ops[after_op].kind != OpKind::take_batch &&
          program.ops[after_op].kind != OpKind::synchronize) {
        collective.after = After::op;
        collective.after_op = after_op;
      } else if (dice_.maybe(0.3)) {
        collective.after = After::nothing;
      }
      collective.every = every();
      collective = limited(collective);
      program.ops.push_back(with_cost(collective));
      waits.push_back(with_cost({.kind = OpKind::wait,
                                 .index = number,
                                 .every = collective.every,
                                 .from = collective.from,
                                 .until = collective.until}));
      while (!waits.empty() && dice_.maybe(0.5)) {
        program.ops.push_back(waits.front());
        waits.erase(waits.begin());
      }
    }
    program.ops.insert(program.ops.end(), waits.begin(), waits.end());
    if (dice_.maybe(0.5)) {
      program.ops.push_back(kernel(9'000'000));
    }
    return program;
  }

  Dice dice_;
  std::uint32_t ranks_ = 2, families_ = 1;
  TrainingJob job_;
};

// Waits of the steady program that may look an iteration back, as the warm-up has the same collectives.
void look_back(TrainingJob& job, Dice& dice) {
  job.main().warm_up = job.main().steady;
  for (Op& op : job.main().steady.ops) {
    if (op.kind == OpKind::wait) {
      op.lag = dice.maybe(0.3) && op.from == 0 ? op.every : 0;
    }
  }
  job.main().warm_up = job.main().steady;
}

TEST_CASE("collectives of one to three families: the engines agree to the picosecond") {
  std::uint32_t slowed = 0;
  for (std::uint64_t seed = 1; seed <= rounds(3000); ++seed) {
    INFO("seed " << seed);
    TrainingJob job = RandomFamilies(seed).take();
    Dice dice(seed);
    if (dice.maybe(0.5)) {
      look_back(job, dice);
    }
    RunSpec run;
    run.iterations = static_cast<int>(1 + seed % 5);
    run.seed = seed;
    const auto ranks = static_cast<std::uint32_t>(job.ranks());
    const TraceRequest all = trace_of_first(ranks, 1 + static_cast<std::uint32_t>(run.iterations));
    REQUIRE(!why_not_vector(job));
    if (dice.maybe(0.6)) {
      job.slowdown = {dice.between(11, 20), 10};
      if (why_not_vector(job)) {
        continue;
      }
      ++slowed;
    }
    run.engine = EngineChoice::event;
    const Result event = simulate(job, run, all);
    run.engine = EngineChoice::vector;
    const Result vector = simulate(job, run, all);
    check_same_result(event, vector);
    check_same_traces(event, vector);
    for (const Breakdown& b : event.breakdown) {
      CHECK(b.other >= SimTime{});
    }
    if (seed % 4 == 0) {
      check_path_adds_up(job, run, vector, 1);
    }
  }
  CHECK(slowed >= rounds(3000) / 8);
}

TEST_CASE("with queues and slow-downs, too, iterations are repeated only as they would be simulated") {
  std::uint32_t repeated = 0;
  for (std::uint64_t seed = 1; seed <= rounds(600); ++seed) {
    INFO("seed " << seed);
    TrainingJob job = RandomFamilies(seed).take();
    Dice dice(seed);
    job.variability = {};
    job.input.reset();
    for (Program* program : {&job.main().warm_up, &job.main().steady}) {
      for (Op& op : program->ops) {
        op.every = 1;
        op.from = 0;
        op.until = kNoIndex;
        op.kind = op.kind == OpKind::take_batch ? OpKind::synchronize : op.kind;
      }
    }
    if (dice.maybe(0.7)) {
      job.slowdown = {dice.between(11, 20), 10};
    }
    RunSpec run;
    run.iterations = 8;
    EventEngine repeating(job, run, {}, AlikeSteps::repeated),
        simulating(job, run, {}, AlikeSteps::simulated);
    repeating.run();
    simulating.run();
    repeated += repeating.repeated() > 0 ? 1 : 0;
    check_same_result(repeating.finish(), simulating.finish());
  }
  CHECK(repeated >= rounds(600) / 12);
}

TEST_CASE("why_not_vector: each refusal is lifted by taking away what it names") {
  const auto kernel = Op{.kind = OpKind::kernel, .duration = SimTime{1'000'000}};
  const auto job_of = [&](std::vector<Op> more) {
    TrainingJob job;
    add_meetings(job, 4, SimTime{2'000'000});
    std::vector<Op> ops{kernel, {.kind = OpKind::collective}, {.kind = OpKind::wait}};
    ops.insert(ops.end(), more.begin(), more.end());
    job.main() = {{ops, {0}}, {ops, {0}}};
    job.families.push_back({{{0, 1, 2, 3}}, {0, 0, 0, 0}});
    return job;
  };
  struct Refusal {
    std::string why;
    TrainingJob job;
    std::function<void(TrainingJob&)> lift;
  };
  std::vector<Refusal> refusals;
  const auto on_op = [](std::size_t i, auto change) {
    return [=](TrainingJob& job) {
      change(job.main().warm_up.ops[i]);
      change(job.main().steady.ops[i]);
    };
  };
  const auto make_kernel = [&](Op& op) { op = kernel; };
  for (const OpKind kind : {OpKind::send, OpKind::gate}) {
    refusals.push_back({"its ranks wait for messages, which depend on the run", job_of({{.kind = kind}}),
                        on_op(3, make_kernel)});
  }
  TrainingJob slowed = job_of({{.kind = OpKind::take_batch}, {.kind = OpKind::kernel}});
  slowed.slowdown = {3, 2};
  slowed.input = InputPipeline{SimTime{500'000}, 1, {}};
  TrainingJob ahead = slowed;
  on_op(1, [](Op& op) { op.after = After::nothing; })(ahead);
  const std::string before = "its collectives may slow down kernels of the iteration before";
  refusals.push_back({before, ahead, [](TrainingJob& job) { job.slowdown = {}; }});
  refusals.push_back({before, ahead, on_op(1, [](Op& op) { op.after = After::compute; })});
  refusals.push_back({before, ahead, on_op(0, [](Op& op) { op.kind = OpKind::synchronize; })});
  TrainingJob second = ahead;  // behind one that some iterations don't have
  for (Program* program : {&second.main().warm_up, &second.main().steady}) {
    program->collectives.push_back(0);
    program->ops.push_back({.kind = OpKind::collective, .index = 1, .after = After::nothing});
    program->ops.push_back({.kind = OpKind::wait, .index = 1});
  }
  on_op(1, [](Op& op) { op = {.kind = OpKind::collective, .every = 2}; })(second);
  on_op(2, [](Op& op) { op.every = 2; })(second);
  refusals.push_back({before, second, [&](TrainingJob& job) {
                        for (const std::size_t i : {1, 2}) {
                          on_op(i, [](Op& op) { op.every = 1; })(job);
                        }
                        on_op(3, [](Op& op) { op.kind = OpKind::kernel; })(job);
                      }});
  TrainingJob batch = slowed;
  for (Program* program : {&batch.main().warm_up, &batch.main().steady}) {
    program->collectives.push_back(0);
    program->ops.push_back({.kind = OpKind::collective, .index = 1, .after = After::op, .after_op = 0});
    program->ops.push_back({.kind = OpKind::wait, .index = 1});
  }
  refusals.push_back({"its collectives may slow down kernels that were issued before the host took a batch",
                      batch, on_op(3, make_kernel)});
  TrainingJob roles = job_of({});
  roles.roles.push_back({"another", {roles.main()}});
  roles.roles.back().threads.front().steady.ops.push_back(kernel);
  refusals.push_back(
      {"its members play several roles", roles, [](TrainingJob& job) { job.roles.pop_back(); }});
  TrainingJob threads = job_of({});
  threads.roles.front().threads.push_back({{{kernel}, {}}, {{kernel}, {}}});
  refusals.push_back({"its members play several roles", threads,
                      [](TrainingJob& job) { job.roles.front().threads.pop_back(); }});
  for (Refusal& refusal : refusals) {
    INFO(refusal.why);
    CHECK(why_not_vector(refusal.job) == refusal.why);
    refusal.lift(refusal.job);
    CHECK(why_not_vector(refusal.job) == std::nullopt);
    RunSpec run;
    run.iterations = 3;
    run.engine = EngineChoice::event;
    const Result event = simulate(refusal.job, run);
    run.engine = EngineChoice::vector;
    check_same_result(event, simulate(refusal.job, run));
  }
}

}  // namespace
}  // namespace paceline
