// Local SGD against closed forms. Memory moves a byte in a picosecond, hosts take no time; an all-reduce of S bytes takes
// kBeginsAll + kOfByte S from the last rank's launch to everybody's end, in groups of some ranks kWithin + S. H: the
// period.
#include "sim/strategy/local_sgd.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/engine/variability.h"
#include "sim/report/traffic.h"
#include "sim/strategy/build_job.h"
#include "sim/strategy/ddp.h"
#include "sim/strategy/memory.h"
#include "sim/strategy/run_length.h"
#include "tests/error_of.h"
#include "tests/meetings.h"

namespace paceline {
namespace {

constexpr SimTime kBeginsAll{5'000'000}, kWithin{1'000'000}, kForward{10'000'000}, kBackward{20'000'000};
constexpr std::int64_t kOfByte = 3;
constexpr RankLayout kTwoNodes{2, 2};

struct Local {
  LocalSgdSpec spec{};
  std::vector<std::vector<std::int64_t>> layers{{100'000, 500}, {300'000, 1}};  // elements of tensors
  VariabilitySpec variability{};
  DdpSpec ddp{};
  Precision parameters = Precision::fp32;
};

Workload local_work(const Local& of) {
  Workload work;
  work.training.strategy = StrategyKind::local_sgd;
  work.training.local_sgd = of.spec;
  work.training.parameters = of.parameters;
  work.training.host = {Seconds(0), Seconds(0), 1};
  work.training.batch_per_gpu = 1;
  work.training.roofline.memory_efficiency = 1;
  work.training.ddp = of.ddp;
  work.variability = of.variability;
  work.costs.roofline = work.training.roofline;
  work.costs.gpu.memory_bandwidth = BytesPerSecond(1e12);
  for (const std::vector<std::int64_t>& tensors : of.layers) {
    Layer layer;
    layer.name = "layer " + std::to_string(work.model.layers.size());
    layer.parameters = tensors;
    work.model.layers.push_back(layer);
    work.layers.push_back({kForward, kBackward, 1, 1});
  }
  return work;
}

SimTime reduced_by_all(std::int64_t bytes) { return kBeginsAll + SimTime{kOfByte * bytes}; }
SimTime reduced_within(std::int64_t bytes) { return kWithin + SimTime{bytes}; }

CollectivePlanner local_planner(const RankLayout& layout) {
  return meeting_planner(layout, [layout](const CollectiveRequest& request) {
    return in_numbers(request.groups, layout) == in_numbers(kAllRanks, layout)
               ? reduced_by_all(request.bytes.value)
               : reduced_within(request.bytes.value);
  });
}

TrainingJob local_job(const Local& of, const RankLayout& layout = kTwoNodes) {
  CollectivePlanner planner = local_planner(layout);
  return build_job(of.spec, local_work(of), planner);
}

// Of both engines.
Result run_local(const TrainingJob& job, int iterations, const TraceRequest& trace = {}) {
  RunSpec run;
  run.iterations = iterations;
  REQUIRE_FALSE(why_not_vector(job));
  const Result result = run_vector_engine(job, run, trace);
  CHECK(run_event_engine(job, run, trace).fingerprint == result.fingerprint);
  return result;
}

std::vector<SimTime> steps_of(const Result& result) {
  std::vector<SimTime> steps;
  for (std::size_t i = 1; i < result.iteration_end.size(); ++i) {
    steps.push_back(result.iteration_end[i] - result.iteration_end[i - 1]);
  }
  return steps;
}

std::int64_t elements_of(const Local& of) { return parameter_count(local_work(of).model); }

// F, B of each layer, U: SGD with momentum reads and writes 5 numbers of each parameter.
SimTime computed(const Local& of) {
  const std::int64_t state = of.parameters == Precision::fp32 ? 4 : 2;
  return static_cast<std::int64_t>(of.layers.size()) * (kForward + kBackward) +
         SimTime{elements_of(of) * (4 * state + 4)};
}

TEST_CASE("local SGD: H - 1 steps of F + B + U, then one more with flatten, divide, all-reduce, copy back") {
  Local of;
  of.spec.period = 3;
  const std::int64_t bytes = 4 * elements_of(of);
  const SimTime averages = 3 * SimTime{2 * bytes} + reduced_by_all(bytes), step = computed(of);
  CHECK(steps_of(run_local(local_job(of), 6)) ==
        std::vector<SimTime>{step, step, step + averages, step, step, step + averages});
  of.spec.copy_back = false;
  CHECK(steps_of(run_local(local_job(of), 3)).back() == step + averages - SimTime{2 * bytes});
  of.spec.copy_back = true;
  of.parameters = Precision::bf16;  // what the optimizer updates is what is averaged
  CHECK(steps_of(run_local(local_job(of), 3)).back() ==
        computed(of) + 3 * SimTime{bytes} + reduced_by_all(bytes / 2));
  of.spec.period = 1;
  for (const SimTime each : steps_of(run_local(local_job(of), 2))) {
    CHECK(each == computed(of) + 3 * SimTime{bytes} + reduced_by_all(bytes / 2));
  }
}

// PeriodicModelAverager: steps s, from 0, with s >= warm_up and (s - warm_up) % period == 0.
TEST_CASE("without steps of DDP before, the steps that average are PeriodicModelAverager's") {
  Local of;
  of.spec.period = 4;
  const Result result = run_local(local_job(of), 12);
  const SimTime averages = result.iteration_end[0] - computed(of);
  CHECK(averages > SimTime{});
  for (std::uint32_t s = 1; s <= 12; ++s) {
    const SimTime step = result.iteration_end[s] - result.iteration_end[s - 1];
    CHECK(step == computed(of) + (s % 4 == 0 ? averages : SimTime{}));
  }
}

TEST_CASE("after steps of DDP the first iteration is DDP's") {
  Local of;
  of.ddp.bucket_cap = Bytes(1'000'000);
  of.spec.warm_up = 100;
  const Workload work = local_work(of);
  CollectivePlanner planner = local_planner(kTwoNodes);
  const TrainingJob ddp = build_job(of.ddp, work, planner);
  const TrainingJob local = local_job(of);
  CHECK(local.main().warm_up == ddp.main().warm_up);
  CHECK(local.main().steady == local_job({.layers = of.layers}).main().steady);
}

// The launch of an average is the last rank's, whose kernels of H steps took longest; each rank copies back by itself.
TEST_CASE("with jitter a period is the longest of the ranks' sums, then one all-reduce: drawn again") {
  Local of;
  of.spec.period = 5;
  of.variability.per_operation = {DistributionKind::lognormal, 0.3, {}};
  of.variability.per_iteration = {DistributionKind::gamma, 0.2, {}};
  constexpr int kPeriods = 40, kPeriod = 5;
  const TrainingJob job = local_job(of);
  const Result result = run_local(job, kPeriods * kPeriod);
  const Variability draws(of.variability, job.ranks(), RunSpec{}.seed);
  const std::int64_t bytes = 4 * elements_of(of);
  const auto lasts = [&](std::uint32_t iteration, std::uint32_t rank, std::uint32_t op, SimTime duration) {
    const double jitter = draws.per_operation().draw(draws.operation_address(iteration), Rank(rank), op);
    return disturbed(duration, draws.rank_factor(Rank(rank), iteration), jitter);
  };
  const SimTime update{5 * bytes}, copy{2 * bytes};
  // Two layers: forward, forward, backward, backward, update; flatten, divide, host's wait, all-reduce, wait, copy.
  const std::vector<SimTime> kernels{kForward, kForward, kBackward, kBackward, update, copy, copy};
  constexpr std::uint32_t kCopyBack = 10;
  std::vector<SimTime> at(job.ranks());  // each rank's
  for (std::uint32_t i = 0; i <= kPeriods * kPeriod; ++i) {
    const bool averages = i % kPeriod == 0;
    SimTime launched;
    for (std::uint32_t r = 0; r < at.size(); ++r) {
      for (std::uint32_t k = 0; k < (averages ? 7U : 5U); ++k) {
        at[r] += lasts(i, r, k, kernels[k]);
      }
      launched = std::max(launched, at[r]);
    }
    for (std::uint32_t r = 0; averages && r < at.size(); ++r) {
      at[r] = launched + reduced_by_all(bytes) + lasts(i, r, kCopyBack, copy);
    }
    CHECK(result.iteration_end[i] == std::ranges::max(at));
  }
}

// Rank r takes `factor` times as long in step r of a period of n alone. DDP waits for one slow rank in every step: n
// (f t + C). Between two averages all have been slow once: (n - 1) t + f t + C.
TEST_CASE("ranks that are slow in turn: DDP waits in each step, local SGD for one of them in a period") {
  constexpr SimTime kStep{1'000'000}, kMeets{50'000};
  constexpr std::uint32_t kRanks = 6;
  constexpr std::int64_t kFactor = 4;
  for (const bool local : {false, true}) {
    TrainingJob job;
    add_meetings(job, kRanks, kMeets);
    job.roles.clear();
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      Program program;
      program.ops = {
          {.kind = OpKind::kernel, .duration = kStep},
          {.kind = OpKind::kernel, .duration = (kFactor - 1) * kStep, .from = r + 1, .until = r + 2},
          {.kind = OpKind::collective, .every = local ? kRanks : 1},
          {.kind = OpKind::wait, .every = local ? kRanks : 1}};
      program.collectives = {0};
      job.roles.push_back({"rank", {{program, program}}});
      job.members.push_back({r, {}});
    }
    RunSpec run;
    run.iterations = kRanks;
    const Result result = simulate(job, run);
    const SimTime all = result.iteration_end.back() - result.iteration_end.front();
    CHECK(all ==
          (local ? (kRanks - 1) * kStep + kFactor * kStep + kMeets : kRanks * (kFactor * kStep + kMeets)));
    for (const Breakdown& b : result.breakdown) {
      CHECK(b.compute == (kRanks - 1) * kStep + kFactor * kStep);
      CHECK(b.compute + b.exposed_communication + b.straggler_wait + b.input_wait + b.other == all);
      CHECK(b.other >= SimTime{});
    }
  }
}

// Of one bucket: copies in, the hook's division and copies out read and write m bytes each.
TEST_CASE("post-local SGD: buckets are divided and reduced in each node, parameters over all") {
  Local of;
  of.spec.period = 2;
  of.spec.group = LocalGroup::node;
  of.ddp.bucket_cap = Bytes(100'000'000);
  const std::int64_t bytes = 4 * elements_of(of);
  const SimTime step = computed(of) + 3 * SimTime{2 * bytes} + reduced_within(bytes);
  const SimTime averages = 3 * SimTime{2 * bytes} + reduced_by_all(bytes);
  CHECK(steps_of(run_local(local_job(of), 4)) ==
        std::vector<SimTime>{step, step + averages, step, step + averages});
  of.ddp.gradient_as_bucket_view = true;  // the hook alone divides, and nothing is copied
  CHECK(steps_of(run_local(local_job(of), 2)).front() == step - 2 * SimTime{2 * bytes});
  of.ddp.find_unused_parameters = true;  // a map of them is all DDP's own, among all ranks
  const TrainingJob job = local_job(of);
  CHECK(std::ranges::count_if(job.main().steady.ops, [&](const Op& op) {
          return op.kind == OpKind::collective && op.every == 1 &&
                 job.plans[job.main().steady.collectives[op.index]].family == kWorld;
        }) == 1);
}

TEST_CASE("post-local SGD in a local step: every collective stays in its node") {
  Local of;
  of.spec.group = LocalGroup::node;
  const TrainingJob job = local_job(of);
  std::size_t within = 0;
  for (const Op& op : job.main().steady.ops) {
    if (op.kind != OpKind::collective) {
      continue;
    }
    const CollectivePlan& plan = job.plans[job.main().steady.collectives[op.index]];
    CHECK((plan.family == kWorld) == (op.every == 8));
    if (plan.family != kWorld) {
      ++within;
      CHECK(job.families[plan.family].groups == std::vector<std::vector<std::uint32_t>>{{0, 1}, {2, 3}});
    }
  }
  CHECK(within > 0);
}

TEST_CASE("local SGD sends 1 / H of an all-reduce of the parameters in a step") {
  for (const int period : {1, 3, 8, 100}) {
    Local of;
    of.spec.period = period;
    const TrainingJob job = local_job(of);
    double bytes = 0;
    for (const Op& op : job.main().steady.ops) {
      if (op.kind == OpKind::collective) {
        bytes += static_cast<double>(job.plans[job.main().steady.collectives[op.index]].bytes.value) /
                 op.steps_each();
      }
    }
    CHECK(bytes == static_cast<double>(4 * elements_of(of)) / period);
  }
}

TEST_CASE("iterations are rounded up to whole periods, and where ranks join they are the longest's batches") {
  TrainingSpec training;
  RunSpec run;
  CHECK(with_length(run, training).iterations == 20);
  training.strategy = StrategyKind::local_sgd;
  for (const auto& [period, iterations] : {std::pair{8, 24}, {20, 20}, {1, 20}, {21, 21}, {7, 21}}) {
    training.local_sgd.period = period;
    CHECK(with_length(run, training).iterations == iterations);
  }
  training.ddp.join = JoinSpec{{5, 90, 7}};
  CHECK(with_length(run, training).iterations == 21);
  training.strategy = StrategyKind::ddp;
  CHECK(with_length(run, training).iterations == 89);
}

TEST_CASE("the buffer of an average needs memory, and so do DDP's buckets in a group") {
  Local of;
  const Workload work = local_work(of);
  const Bytes bytes(4 * elements_of(of));
  CHECK(memory_of(of.spec, work.model, work.training, kTwoNodes).buckets == bytes);
  of.spec.group = LocalGroup::node;
  CHECK(memory_of(of.spec, work.model, work.training, kTwoNodes).buckets == 2 * bytes);
}

TEST_CASE("a group by node needs several nodes of several GPUs, and DDP's one hook") {
  Local of;
  of.spec.group = LocalGroup::node;
  const auto told = [&](const RankLayout& layout) { return error_of([&] { local_job(of, layout); }); };
  CHECK(told({1, 4}).find("/training/local_sgd/group: expected several nodes") != std::string::npos);
  CHECK(told({4, 1}).find("expected nodes of 2 or more GPUs") != std::string::npos);
  of.ddp.wire = Precision::fp16;
  CHECK(told({2, 2}).find("/training/ddp/wire: expected none with local SGD's group") != std::string::npos);
  of.ddp = {};
  of.ddp.reduction = Reduction::apex_ddp;
  CHECK(told({2, 2}).find("/training/ddp/reduction: expected pytorch_ddp") != std::string::npos);
  of.ddp = {};
  of.ddp.join = JoinSpec{{2, 2, 2, 2}};
  CHECK(told({2, 2}).find("/training/ddp/join: expected the strategy ddp") != std::string::npos);
}

}  // namespace
}  // namespace paceline
