// Megatron-Core's distributed optimizer, which is ZeRO's first stage: its timeline by a closed form and by its rules
// (docs/model.md) as a recursion over buckets. A gather of a bucket takes a, its reduction r; a layer's passes f and b,
// copying what a bucket has of it in c, the optimizer u. Hosts cost nothing.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/layers/layer_spans.h"
#include "sim/strategy/build_job.h"
#include "sim/strategy/ddp.h"
#include "tests/dice.h"
#include "tests/meetings.h"

namespace paceline {
namespace {

constexpr std::int64_t kElements = 401;  // of a tensor, on four ranks: not a multiple

struct BucketTimes {
  std::int64_t layers = 1, f = 0, b = 0, a = 0, r = 0, c = 0, u = 0;
  std::int64_t tensors = 1, in_bucket = 1;  // of a layer; that close a bucket
};

// Of what no rank has as a whole: clipping asks for one norm, LAMB and LARS for two of each tensor, FusedLAMB for both.
TEST_CASE("ranks reduce the norms that the optimizer asks for where its state is sharded") {
  const auto norms = [](const Strategy& strategy, Optimizer optimizer, bool clips, bool fused) {
    Model model{.name = "layers", .input = "", .layers = {{.name = "layers.0", .parameters = {400, 40, 4}}}};
    TrainingSpec training;
    training.layer_times = {{}};
    training.optimizer = optimizer;
    training.optimizer_kernels = fused ? OptimizerKernels::fused : OptimizerKernels::for_loop;
    training.clip_norm = clips;
    std::vector<std::int64_t> sizes;
    CollectivePlanner planner = meeting_planner({2, 2}, [&](const CollectiveRequest& request) {
      if (request.kind == CollectiveKind::all_reduce && request.bytes < Bytes(400)) {
        sizes.push_back(request.bytes.value);
      }
      return SimTime{1};
    });
    build_job(strategy, workload(model, gpu_preset("H100"), training, {}), planner);
    return sizes;
  };
  using Sizes = std::vector<std::int64_t>;
  for (const Strategy& strategy : {Strategy(ZeroSpec{1}), Strategy(ZeroSpec{3}), Strategy(FsdpSpec{})}) {
    CHECK(norms(strategy, Optimizer::adam, false, true).empty());
    CHECK(norms(strategy, Optimizer::adam, true, true) == Sizes{4});
    CHECK(norms(strategy, Optimizer::lamb, false, true) == Sizes{4, 2 * 3 * 4});
    CHECK(norms(strategy, Optimizer::lamb, false, false) == Sizes{2 * 3 * 4});
    CHECK(norms(strategy, Optimizer::lars, true, true) == Sizes{4, 2 * 3 * 4});
  }
  CHECK(norms(DdpSpec{}, Optimizer::lamb, true, true).empty());  // each has all
}

// On two nodes of two GPUs.
TrainingJob job_of(const BucketTimes& t, int accumulation, const ZeroSpec& zero,
                   std::vector<CollectiveRequest>* asked_for = nullptr) {
  Model model{.name = "layers", .input = "", .layers = {}};
  TrainingSpec training;
  training.accumulation = accumulation;
  training.host = {.kernel_launch = Seconds(0), .collective_launch = Seconds(0), .runs_ahead = 1};
  training.ddp.reduction = Reduction::megatron;
  training.ddp.bucket_cap = Bytes(4 * kElements * t.in_bucket);
  for (std::int64_t l = 0; l < t.layers; ++l) {
    model.layers.push_back({.name = "layer" + std::to_string(l),
                            .parameters = std::vector(static_cast<std::size_t>(t.tensors), kElements)});
    training.layer_times.push_back({});
  }
  CollectivePlanner planner = meeting_planner({2, 2}, [&](const CollectiveRequest& request) {
    if (asked_for != nullptr) {
      asked_for->push_back(request);
    }
    return SimTime{request.kind == CollectiveKind::all_gather ? t.a : t.r};
  });
  TrainingJob job = build_job(zero, workload(model, gpu_preset("H100"), training, {}), planner);
  for (Program* program : {&job.main().warm_up, &job.main().steady}) {
    for (Op& op : program->ops) {
      if (op.kind == OpKind::kernel) {
        op.duration = SimTime{op.purpose.phase == Phase::forward    ? t.f
                              : op.purpose.phase == Phase::backward ? t.b
                              : op.purpose.phase == Phase::exchange ? t.c
                              : op.purpose.phase == Phase::update   ? t.u
                                                                    : 0};
      }
    }
  }
  return job;
}

SimTime later_step(const TrainingJob& job) {
  RunSpec run;
  run.iterations = 2;
  const Result result = simulate(job, run);
  return result.iteration_end[2] - result.iteration_end[1];
}

// Tensors are numbered as backward makes them ready, the last layer's first.
std::int64_t by_the_rules(const BucketTimes& t, int accumulation, bool beside) {
  const std::int64_t all = t.layers * t.tensors, buckets = (all + t.in_bucket - 1) / t.in_bucket;
  const auto first_layer = [&](std::int64_t bucket) {
    const std::int64_t last = std::min(all, (bucket + 1) * t.in_bucket) - 1;
    return t.layers - 1 - last / t.tensors;
  };
  std::int64_t stream = 0, queue = 0;
  for (int pass = 1; pass <= accumulation; ++pass) {
    std::int64_t left = pass == 1 && beside ? buckets : 0;
    queue = left > 0 ? std::max(queue, stream) + t.a : queue;
    for (std::int64_t l = 0; l < t.layers; ++l) {
      while (left > 0 && first_layer(left - 1) <= l) {
        stream = std::max(stream, queue);
        --left;
        queue = left > 0 ? stream + t.a : queue;  // the next one's
      }
      stream += t.f;
    }
    std::int64_t ready = 0;
    for (std::int64_t l = 0; l < t.layers; ++l) {
      stream += t.b;
      for (const std::int64_t end = ready + t.tensors; pass == accumulation && ready < end;) {
        const std::int64_t closes = std::min(all, (ready / t.in_bucket + 1) * t.in_bucket);
        stream += t.c;
        ready = std::min(end, closes);
        queue = ready == closes ? std::max(queue, stream) + t.r : queue;
      }
    }
  }
  return std::max(stream, queue) + t.u + (beside ? 0 : t.a);
}

TEST_CASE("Megatron: communication that hides shows as a gather and a reduction") {
  for (const BucketTimes& t :
       {BucketTimes{1, 300, 600, 200, 500, 50, 11}, BucketTimes{4, 300, 700, 290, 700, 60, 7},
        BucketTimes{33, 1000, 2000, 900, 1800, 17, 5}}) {
    const std::int64_t expected = t.a + t.layers * (t.f + t.b + t.c) + t.r + t.u;
    CHECK(later_step(job_of(t, 1, {1, true, true})).ps == expected);
  }
}

TEST_CASE("Megatron's distributed optimizer is what its rules say") {
  Dice dice(21);
  for (std::uint64_t round = 0; round < rounds(3'000); ++round) {
    const auto any = [&] { return dice.maybe(0.1) ? 0 : dice.between(1, dice.maybe(0.5) ? 1000 : 5000); };
    const BucketTimes t{dice.between(1, 12), any(), any(), any(), any(), any(), any(), dice.between(1, 3),
                        dice.between(1, 7)};
    const auto accumulation = static_cast<int>(dice.maybe(0.7) ? 1 : dice.between(2, 3));
    const bool beside = dice.maybe(0.7);
    INFO("round " << round);
    REQUIRE(later_step(job_of(t, accumulation, {1, true, beside})).ps ==
            by_the_rules(t, accumulation, beside));
  }
}

struct SentByMegatron {
  std::int64_t reduced = 0, gathered = 0, copies_back = 0;
};

SentByMegatron sent(const Program& program) {
  SentByMegatron all;
  for (const Op& op : program.ops) {
    all.reduced += op.label.starts_with("reduce_scatter bucket") ? 1 : 0;
    all.gathered += op.label.starts_with("all_gather bucket") ? 1 : 0;
    all.copies_back += op.label.starts_with("copy from bucket") ? 1 : 0;
  }
  return all;
}

TEST_CASE("Megatron gathers nothing before its first step, and copies nothing back") {
  std::vector<CollectiveRequest> asked_for;
  const TrainingJob job = job_of({.layers = 5}, 2, {1, true, true}, &asked_for);
  const SentByMegatron first = sent(job.main().warm_up), later = sent(job.main().steady);
  CHECK(first.gathered == 0);
  CHECK(later.gathered == 5);
  CHECK(later.reduced == 5);
  CHECK(later.copies_back == 0);
  CHECK(std::ranges::count(asked_for, CollectiveKind::all_gather, &CollectiveRequest::kind) == 1);
  CHECK(std::ranges::count(asked_for, CollectiveKind::reduce_scatter, &CollectiveRequest::kind) == 1);
  for (const CollectiveRequest& request : asked_for) {
    CHECK(request.bytes == Bytes(4 * 404));  // for each of four ranks as much
  }
}

TEST_CASE("Megatron closes a bucket at 40 million elements, or at a million for each GPU") {
  DdpSpec ddp;
  ddp.reduction = Reduction::megatron;
  CHECK(bucket_limits(ddp, Precision::fp32, "2.15", 8).cap == Bytes(160'000'000));
  CHECK(bucket_limits(ddp, Precision::bf16, "2.15", 40).cap == Bytes(80'000'000));
  CHECK(bucket_limits(ddp, Precision::fp32, "2.15", 1024).cap == Bytes(4 * std::int64_t{1'024'000'000}));
  ddp.bucket_cap = Bytes(1000);
  CHECK(bucket_limits(ddp, Precision::fp32, "2.15", 1024).cap == Bytes(1000));
}

}  // namespace
}  // namespace paceline
