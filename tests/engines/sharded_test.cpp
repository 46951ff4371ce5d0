// Jobs of the shape of FSDP, hybrid sharding and ZeRO, whose gathers run ahead of the compute stream and slow down
// kernels that were issued before them: do the engines agree?
#include <catch2/catch.hpp>
#include <cstdint>
#include <utility>
#include <vector>

#include "random_job.h"
#include "same_result.h"
#include "sim/engine/simulate.h"
#include "tests/dice.h"
#include "tests/meetings.h"
#include "tests/trace_of_first.h"

namespace paceline {
namespace {

class RandomSharded {
 public:
  explicit RandomSharded(std::uint64_t seed) : dice_(seed) {
    const auto ranks = static_cast<std::uint32_t>(2 * dice_.between(1, 6));
    units_ = static_cast<std::uint32_t>(dice_.between(1, 6));
    passes_ = static_cast<std::uint32_t>(dice_.between(1, 3));
    hybrid_ = dice_.maybe(0.4);
    gathers_late_ = dice_.maybe(0.3);
    slow_host_ = dice_.maybe(0.3);
    plan_collectives(ranks);
    job_.host_runs_ahead = static_cast<int>(dice_.between(0, 3));
    job_.variability = random_variability(dice_, ranks);
    if (dice_.maybe(0.3)) {
      job_.input = InputPipeline{SimTime{dice_.between(0, 60'000'000)}, static_cast<int>(dice_.between(1, 3)),
                                 random_distribution(dice_)};
    }
    if (dice_.maybe(0.8)) {
      job_.slowdown = {dice_.between(11, 20), 10};
    }
    job_.main().steady = program();
    job_.main().warm_up = job_.main().steady;
    if (dice_.maybe(0.5)) {
      add_casts(job_, dice_, 5'000'000);
    }
  }

  TrainingJob take() { return std::move(job_); }

 private:
  // Of all ranks on random graphs, or within groups of two halves, and among those of one place in them.
  void plan_collectives(std::uint32_t ranks) {
    if (dice_.maybe(0.5)) {
      CollectivePlanner planner = random_planner(dice_, ranks);
      for (const CollectiveKind kind :
           {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce}) {
        job_.plans.push_back(planner.plan(kind, Bytes(dice_.between(1, 1'000'000))));
      }
      job_.communicator = planner.communicator();
      gather_ = 0, scatter_ = 1, reduce_ = 2;
      return;
    }
    std::vector<std::vector<std::uint32_t>> halves(2), pairs(ranks / 2);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      halves[r / (ranks / 2)].push_back(r);
      pairs[r % (ranks / 2)].push_back(r);
    }
    add_meetings(job_, ranks, SimTime{dice_.between(1, 40'000'000)}, halves);
    add_meetings(job_, ranks, SimTime{dice_.between(1, 40'000'000)}, pairs);
    job_.plans[1].hops.front().latency = SimTime{dice_.between(1, 40'000'000)};
    gather_ = 0, scatter_ = 1, reduce_ = 2;
  }

  std::uint32_t add(Op op) {
    op.host_cost = SimTime{dice_.between(0, 1) * dice_.between(0, slow_host_ ? 9'000'000 : 300'000)};
    program_.ops.push_back(op);
    return static_cast<std::uint32_t>(program_.ops.size() - 1);
  }
  std::uint32_t kernel(std::int64_t longest) {
    return add({.kind = OpKind::kernel,
                .duration = SimTime{dice_.between(0, longest)},
                .purpose = {dice_.one_of(kNames<Phase>).value}});
  }
  void kernels() {
    for (std::int64_t i = dice_.between(1, 3); i > 0; --i) {
      kernel(20'000'000);
    }
  }
  std::uint32_t collective(std::uint32_t plan, Op op) {
    op.kind = OpKind::collective;
    op.index = static_cast<std::uint32_t>(program_.collectives.size());
    program_.collectives.push_back(plan);
    return add(op);
  }
  void wait(std::uint32_t collective) {
    add({.kind = OpKind::wait, .index = program_.ops[collective].index});
  }
  std::uint32_t copy_out(std::uint32_t gathered) {
    wait(gathered);
    return kernel(3'000'000);
  }

  void forward() {
    std::vector<std::uint32_t> copied;
    for (std::uint32_t i = 0; i < units_; ++i) {
      copied.push_back(copy_out(i == 0 ? collective(gather_, {})
                                : i == 1
                                    ? collective(gather_, {.after = After::nothing})
                                    : collective(gather_, {.after = After::op, .after_op = copied[i - 2]})));
      kernels();
    }
  }

  void backward(bool reduces) {
    std::vector<std::uint32_t> ends;
    std::uint32_t gathered = collective(gather_, {});
    for (std::uint32_t i = units_; i-- > 0;) {
      const std::uint32_t copied = copy_out(gathered);
      if (i > 0) {
        gathered = collective(gather_, {.after = After::op, .after_op = copied});
      }
      kernels();
      if (reduces) {
        if (!ends.empty() && !hybrid_) {
          wait(ends.back());
        }
        kernel(3'000'000);
        ends.push_back(collective(scatter_, {}));
        if (hybrid_) {
          ends.back() = collective(reduce_, {.queue = 1, .after = After::op, .after_op = ends.back()});
        }
      }
    }
    for (const std::uint32_t end : ends) {
      wait(end);
    }
  }

  Program program() {
    if (gathers_late_) {  // the last one of the iteration before
      add({.kind = OpKind::kernel});
    }
    for (std::uint32_t pass = 1; pass <= passes_; ++pass) {
      if (job_.input) {
        add({.kind = OpKind::take_batch});
      }
      forward();
      if (dice_.maybe(0.1)) {
        add({.kind = OpKind::synchronize});
      }
      backward(pass == passes_);
    }
    kernel(9'000'000);
    if (gathers_late_) {
      const std::uint32_t number = program_.ops[collective(gather_, {})].index;
      program_.ops.front() = {.kind = OpKind::wait, .index = number, .lag = 1};
    }
    return std::move(program_);
  }

  Dice dice_;
  std::uint32_t units_ = 1, passes_ = 1, gather_ = 0, scatter_ = 0, reduce_ = 0;
  bool hybrid_ = false, gathers_late_ = false, slow_host_ = false;
  Program program_;
  TrainingJob job_;
};

TEST_CASE(
    "sharded jobs, whose gathers run ahead and slow kernels down: the engines agree to the picosecond") {
  for (std::uint64_t seed = 1; seed <= rounds(2000); ++seed) {
    INFO("seed " << seed);
    const TrainingJob job = RandomSharded(seed).take();
    RunSpec run;
    run.iterations = static_cast<int>(1 + seed % 4);
    run.seed = seed;
    const TraceRequest all = trace_of_first(static_cast<std::uint32_t>(job.ranks()),
                                            1 + static_cast<std::uint32_t>(run.iterations));
    run.engine = EngineChoice::event;
    const Result event = simulate(job, run, all);
    run.engine = EngineChoice::vector;
    const Result vector = simulate(job, run, all);
    check_same_result(event, vector);
    check_same_traces(event, vector);
  }
}

}  // namespace
}  // namespace paceline
