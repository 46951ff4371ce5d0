// DDP's join(), no_sync, static_graph and search for unused parameters against recursions. Memory moves a byte in a picosecond,
// hosts take no time; a collective of S bytes takes kAlways + kPerByte S from the last rank's launch to everybody's end.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/report/report.h"
#include "sim/strategy/build_job.h"
#include "sim/strategy/ddp.h"
#include "tests/dice.h"
#include "tests/error_of.h"
#include "tests/meetings.h"

namespace paceline {
namespace {

constexpr SimTime kAlways{3'000'000}, kAhead{7'000'000}, kBack{15'000'000};
constexpr std::int64_t kPerByte = 2, kFour = 4;

struct Options {
  DdpSpec ddp{};
  std::vector<std::int64_t> tensors{400'000, 1'000, 700'000};  // each of a layer of its own
  bool batch_norm = false;                                     // the second layer
  std::vector<SlowGpus> slow{};
  HostSpec host{Seconds(0), Seconds(0), 1, Seconds(0)};
  int accumulation = 1;
  bool no_sync = true;
};

Workload work_with(const Options& of) {
  Workload work;
  work.training.ddp = of.ddp;
  work.training.host = of.host;
  work.training.batch_per_gpu = 16;
  work.training.accumulation = of.accumulation;
  work.training.no_sync = of.no_sync;
  work.training.roofline.memory_efficiency = 1;
  work.variability.slow_gpus = of.slow;
  work.costs.roofline = work.training.roofline;
  work.costs.gpu.memory_bandwidth = BytesPerSecond(1e12);
  for (const std::int64_t tensor : of.tensors) {
    Layer layer;
    layer.name = "layer " + std::to_string(work.model.layers.size());
    layer.parameters = {tensor};
    layer.kind = of.batch_norm && work.model.layers.size() == 1 ? LayerKind::batch_norm : LayerKind::linear;
    work.model.layers.push_back(layer);
    work.layers.push_back({kAhead, kBack, 1, 1});
  }
  return work;
}

SimTime meets_in(std::int64_t bytes) { return kAlways + SimTime{kPerByte * bytes}; }

TrainingJob job_with(const Options& of, std::uint32_t ranks = kFour) {
  CollectivePlanner planner = meeting_planner(
      {1, ranks}, [](const CollectiveRequest& request) { return meets_in(request.bytes.value); });
  return build_job(of.ddp, work_with(of), planner);
}

Result run_with(const TrainingJob& job, int iterations, EngineChoice engine = EngineChoice::automatic) {
  RunSpec run;
  run.iterations = iterations;
  run.engine = engine;
  return simulate(job, run);
}

// The rules of join(): each rank has a stream and a queue; collectives are entered in the same order by all.
class Joining {
 public:
  Joining(const Options& of, const std::vector<double>& factor)
      : of_(of), factor_(factor), stream_(factor.size()), queue_(factor.size()) {}

  // One bucket for each layer in steps, one for all in the first.
  std::vector<SimTime> ends() {
    std::vector<SimTime> ends;
    const std::vector<std::int64_t>& batches = of_.ddp.join->batches;
    const std::int64_t steps = std::ranges::max(batches);
    for (std::int64_t i = 0; i < steps; ++i) {
      active_.clear();
      for (const std::int64_t mine : batches) {
        active_.push_back(i < mine);
      }
      step(i == 0);
      if (i == steps - 1) {
        last();
      }
      ends.push_back(std::ranges::max(stream_));
    }
    return ends;
  }

 private:
  enum class Who : std::uint8_t { all, active, joined };

  bool is(Who who, std::size_t r) const {
    return who == Who::all || (who == Who::active) == static_cast<bool>(active_[r]);
  }
  void kernel(Who who, SimTime duration) {
    for (std::size_t r = 0; r < stream_.size(); ++r) {
      stream_[r] += is(who, r) ? SimTime{round_to_picoseconds(static_cast<double>(duration.ps) * factor_[r])}
                               : SimTime{};
    }
  }
  SimTime collective(std::int64_t bytes) {
    SimTime launched;
    for (std::size_t r = 0; r < stream_.size(); ++r) {
      launched = std::max({launched, stream_[r], queue_[r]});
    }
    std::ranges::fill(queue_, launched + meets_in(bytes));
    return queue_.front();
  }
  void wait(Who who, SimTime end) {
    for (std::size_t r = 0; r < stream_.size(); ++r) {
      stream_[r] = is(who, r) ? std::max(stream_[r], end) : stream_[r];
    }
  }
  void notify() {
    kernel(Who::all, SimTime{4});
    wait(Who::joined, collective(4));
  }
  void agree_on_rank() {
    kernel(Who::all, SimTime{8});
    wait(Who::all, collective(8));
  }

  void step(bool first) {
    const std::int64_t layers = static_cast<std::int64_t>(of_.tensors.size());
    notify();
    if (of_.batch_norm) {
      agree_on_rank();
      wait(Who::all, collective(4 * of_.tensors[1]));
      wait(Who::all, collective(8));
    }
    notify();
    std::int64_t all = 0;
    for (const std::int64_t tensor : of_.tensors) {
      all += 4 * tensor;
    }
    for (std::size_t l = of_.tensors.size(); l-- > 0;) {  // a bucket each; in the first step all are active
      kernel(Who::joined, SimTime{4 * of_.tensors[l]});
    }
    for (std::int64_t l = 0; l < layers; ++l) {
      kernel(Who::active, kAhead);
    }
    std::vector<SimTime> reduced;
    for (std::size_t l = of_.tensors.size(); l-- > 0;) {
      kernel(Who::active, kBack);
      kernel(Who::active, SimTime{8 * of_.tensors[l]});
      if (!first) {
        reduced.push_back(collective(4 * of_.tensors[l]));
      }
    }
    if (first) {
      wait(Who::all, collective(all));
      kernel(Who::active, SimTime{2 * all});
    }
    for (std::size_t k = 0; k < reduced.size(); ++k) {
      wait(Who::all, reduced[k]);
      kernel(Who::active, SimTime{8 * of_.tensors[of_.tensors.size() - 1 - k]});
    }
    kernel(Who::active, SimTime{5 * all});
    if (first) {
      wait(Who::all, collective(4 * layers));
      wait(Who::all, collective(4 * (layers + 1)));
    }
  }

  void last() {
    std::int64_t all = 0;
    for (const std::int64_t tensor : of_.tensors) {
      all += 4 * tensor;
    }
    kernel(Who::all, SimTime{4});
    wait(Who::all, collective(4));
    agree_on_rank();
    all += of_.batch_norm ? 4 * of_.tensors[1] : 0;  // statistics are fp32, too
    kernel(Who::all, SimTime{2 * all});
    SimTime end = collective(all);
    if (of_.batch_norm) {
      end = collective(8);
    }
    wait(Who::all, end);
    kernel(Who::all, SimTime{2 * all});
  }

  const Options& of_;
  std::vector<double> factor_;
  std::vector<SimTime> stream_, queue_;
  std::vector<bool> active_;
};

TEST_CASE("join(): who has finished adds zeros, and the step shrinks to what the others have left") {
  Dice dice(22);
  for (std::uint64_t round = 0; round < rounds(300); ++round) {
    Options of;
    of.ddp.bucket_cap = of.ddp.first_bucket = Bytes(1);  // a bucket for each tensor
    of.batch_norm = dice.maybe(0.4);
    of.ddp.join.emplace();
    std::vector<double> factor;
    for (std::uint32_t r = 0; r < kFour; ++r) {
      of.ddp.join->batches.push_back(dice.between(1, 6));
      factor.push_back(dice.maybe(0.5) ? 1 : dice.real(1, 4));
      of.slow.push_back({{static_cast<std::int64_t>(r)}, 0, factor.back()});
    }
    of.ddp.join->batches[dice.below(kFour)] += 2;
    const std::int64_t steps = std::ranges::max(of.ddp.join->batches);
    const TrainingJob job = job_with(of);
    const Result result = run_with(job, static_cast<int>(steps - 1), EngineChoice::event);
    const std::vector<SimTime> expected = Joining(of, factor).ends();
    CHECK(result.iteration_end == expected);
    double computed = 0;  // samples of all steps but the first
    for (const std::int64_t mine : of.ddp.join->batches) {
      computed += 16 * static_cast<double>(mine - 1);
    }
    const SimTime all = expected.back() - expected.front();
    CHECK(lasting_throughput(job, result) == Approx(computed / to_seconds(all).value).epsilon(1e-12));
    for (const Breakdown& b : result.breakdown) {
      CHECK(b.compute + b.exposed_communication + b.straggler_wait + b.other == all);
      CHECK(std::min({b.compute, b.exposed_communication, b.straggler_wait, b.other}) >= SimTime{});
    }
  }
}

// The slow rank has two batches, the others ten: when it has finished, steps are the fast ones'.
TEST_CASE("join(): a slow rank that has finished slows nobody") {
  Options of;
  of.ddp.join = JoinSpec{{10, 10, 2, 10}};
  of.slow = {{{2}, 0, 5}};
  const Result result = run_with(job_with(of), 9);
  const auto step = [&](std::size_t i) { return result.iteration_end[i] - result.iteration_end[i - 1]; };
  Options equal = of;
  equal.slow.clear();
  equal.ddp.join->batches[2] = 10;
  const Result fast = run_with(job_with(equal), 9);
  CHECK(fast.engine == EngineKind::vector);  // one role, all of whose operations run
  CHECK(step(1) > step(5));
  CHECK(step(5) == fast.iteration_end[5] - fast.iteration_end[4]);
  CHECK(run_with(job_with(equal), 9, EngineChoice::event).fingerprint == fast.fingerprint);
}

TEST_CASE("join(): what it can't do is told") {
  const auto told = [](const auto& change) {
    Options of;
    of.ddp.join = JoinSpec{{2, 2, 2, 2}};
    Workload work = work_with(of);
    change(work.training);
    CollectivePlanner planner =
        meeting_planner({1, kFour}, [](const CollectiveRequest&) { return SimTime{1}; });
    return error_of([&] { build_job(strategy_of(work.training), work, planner); });
  };
  CHECK(told([](TrainingSpec&) {}).empty());
  CHECK(told([](TrainingSpec& t) { t.ddp.join->batches.pop_back(); }) ==
        "/training/ddp/join/batches: expected one number for each of 4 GPUs, found 3");
  CHECK(told([](TrainingSpec& t) { t.ddp.join->batches = {1, 1, 1, 1}; }).find("2 batches or more") !=
        std::string::npos);
  CHECK(told([](TrainingSpec& t) { t.accumulation = 2; }) ==
        "/training/ddp/join: expected accumulation 1, found 2");
  CHECK(told([](TrainingSpec& t) { t.ddp.reduction = Reduction::apex_ddp; }).find("pytorch_ddp") !=
        std::string::npos);
  CHECK(told([](TrainingSpec& t) { t.strategy = StrategyKind::zero; }).find("expected the strategy ddp") !=
        std::string::npos);
}

// gloo's threads run collectives of every role side by side.
TEST_CASE("with gloo ranks of several roles meet as ranks of one, and may join") {
  Options of;
  of.ddp.bucket_cap = of.ddp.first_bucket = Bytes(1);
  Workload work = work_with(of);
  work.training.collective.library = CollectiveLibrary::gloo;
  const auto planner = [] {
    return meeting_planner({1, kFour},
                           [](const CollectiveRequest& request) { return meets_in(request.bytes.value); });
  };
  CollectivePlanner one = planner(), two = planner(), three = planner();
  const Result alike = run_with(build_job(of.ddp, work, one), 4);
  const MixedWork roles{{work, work}, {0, 1, 1, 0}};
  CHECK(run_with(build_job(of.ddp, roles, two), 4).fingerprint == alike.fingerprint);
  of.ddp.join = JoinSpec{{5, 3, 5, 2}};
  const Result joined = run_with(build_job(of.ddp, work, three), 4);
  CHECK(joined.iteration_end.size() == 5);
  CHECK(joined.breakdown[3].compute < joined.breakdown[0].compute);
}

// A bucket for each tensor.
SimTime step_by_the_rules(const Options& of) {
  SimTime stream, queue;
  std::int64_t parameters = 0;
  for (const std::int64_t tensor : of.tensors) {
    parameters += tensor;
  }
  for (int pass = 1; pass <= of.accumulation; ++pass) {
    std::vector<SimTime> reduced;
    stream = stream + std::ssize(of.tensors) * kAhead;
    for (std::size_t l = of.tensors.size(); l-- > 0;) {
      const std::int64_t bytes = 4 * of.tensors[l];
      stream = stream + kBack + SimTime{pass > 1 ? 3 * bytes : 0};
      if (pass == of.accumulation || !of.no_sync) {
        stream = stream + SimTime{2 * bytes};
        queue = std::max(queue, stream) + meets_in(bytes);
        reduced.push_back(queue);
      }
    }
    for (std::size_t i = 0; i < reduced.size(); ++i) {
      stream = std::max(stream, reduced[i]) + SimTime{2 * 4 * of.tensors[of.tensors.size() - 1 - i]};
    }
  }
  return stream + SimTime{5 * 4 * parameters};
}

TEST_CASE("passes of accumulation under no_sync exchange nothing, others wait for what they reduce") {
  Options of;
  of.ddp.bucket_cap = of.ddp.first_bucket = Bytes(1);
  for (const int accumulation : {1, 2, 5}) {
    for (const bool no_sync : {true, false}) {
      of.accumulation = accumulation;
      of.no_sync = no_sync;
      INFO(accumulation << (no_sync ? " under" : " without") << " no_sync");
      const TrainingJob job = job_with(of);
      CHECK(bucket_collectives(job.main().steady).size() == 3U * (no_sync ? 1 : accumulation));
      for (const EngineChoice engine : {EngineChoice::event, EngineChoice::vector}) {
        const Result result = run_with(job, 2, engine);
        CHECK(result.iteration_end[2] - result.iteration_end[1] == step_by_the_rules(of));
      }
    }
  }
}

TEST_CASE("static_graph: the first iteration reduces when backward has ended, the others are as without") {
  Options of;
  const TrainingJob plain = job_with(of);
  of.ddp.static_graph = true;
  const TrainingJob job = job_with(of);
  CHECK(job.main().steady.ops == plain.main().steady.ops);
  std::int64_t bytes = 0;
  for (const std::int64_t tensor : of.tensors) {
    bytes += 4 * tensor;
  }
  // The map of used parameters is reduced beside the copies.
  const SimTime passes = 3 * (kAhead + kBack), copies{2 * bytes};
  const SimTime first = passes + std::max(copies, meets_in(4 * 3)) + meets_in(bytes) + copies +
                        SimTime{5 * bytes} + meets_in(4 * 3) + meets_in(4 * 4);
  for (const EngineChoice engine : {EngineChoice::event, EngineChoice::vector}) {
    CHECK(run_with(job, 1, engine).iteration_end.front() == first);
  }
  of.ddp.find_unused_parameters = true;  // nobody searches, buckets are rebuilt
  CHECK(job_with(of).main().steady.ops == plain.main().steady.ops);
}

TEST_CASE("a host that searches for unused parameters comes later to the backward pass") {
  Options of;
  of.host.runs_ahead = 0;
  of.ddp.find_unused_parameters = true;
  const auto step = [&](double each) {
    of.host.unused_search = Seconds(each);
    const Result result = run_with(job_with(of), 2);
    return result.iteration_end[2] - result.iteration_end[1];
  };
  const SimTime without = step(0);
  CHECK(step(2e-6) == without);  // 6 us, while forward takes 21
  CHECK(step(1e-3) == without + SimTime{3'000'000'000} - 3 * kAhead);
  of.ddp.static_graph = true;
  CHECK(step(1e-3) == step(0));
}

}  // namespace
}  // namespace paceline
