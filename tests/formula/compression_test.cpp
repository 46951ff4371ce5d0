// DDP's communication hooks against closed forms. Memory moves a byte in a picosecond, the host takes no time; a collective
// of S bytes takes kHookStart + kHookPerByte S.
#include "sim/strategy/compression.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "../engines/test_planner.h"
#include "kernels/gpu.h"
#include "scenarios/scenario.h"
#include "sim/engine/simulate.h"
#include "sim/strategy/build_job.h"
#include "sim/strategy/ddp.h"
#include "sim/strategy/memory.h"
#include "tests/ddp_job.h"
#include "tests/dice.h"
#include "tests/error_of.h"
#include "tests/meetings.h"
#include "tests/trace_of_first.h"

namespace paceline {
namespace {

constexpr SimTime kHookStart{5'000'000};
constexpr std::int64_t kHookPerByte = 3, kHookMembers = 4;

SimTime hook_exchanged(std::int64_t bytes) { return kHookStart + SimTime{kHookPerByte * bytes}; }
SimTime hook_moved(std::int64_t bytes) { return SimTime{bytes}; }

struct HookedLayer {
  std::int64_t rows = 0, columns = 0, vector = 0;  // elements: a matrix, a bias
};

CompressionSpec compression(CompressionKind kind, std::int64_t rank = 1) {
  CompressionSpec spec;
  spec.kind = kind;
  spec.rank = rank;
  return spec;
}

Layer layer_of(const HookedLayer& of) {
  Layer layer;
  layer.name = "layer";
  if (of.rows > 0) {
    layer.parameters.push_back(of.rows * of.columns);
    layer.forward_macs = of.rows * of.columns;
    layer.output_elements = of.rows;
  }
  if (of.vector > 0) {
    layer.parameters.push_back(of.vector);
  }
  return layer;
}

constexpr SimTime kHookForward{10'000'000}, kHookBackward{20'000'000};

Workload hooked_work(const std::vector<HookedLayer>& layers, const CompressionSpec& compression) {
  Workload work;
  work.training.host = {Seconds(0), Seconds(0), 1};
  work.training.batch_per_gpu = 1;
  work.training.roofline = {1, Seconds(0), 1};
  work.training.roofline.top_k_efficiency = 0.5;
  work.training.ddp.broadcast_buffers = false;
  work.training.compression = compression;
  work.costs.roofline = work.training.roofline;
  work.costs.gpu.memory_bandwidth = BytesPerSecond(1e12);
  work.costs.gpu.peak[static_cast<std::size_t>(Precision::fp32)] = FlopsPerSecond(1e30);
  for (const HookedLayer& of : layers) {
    work.model.layers.push_back(layer_of(of));
    work.layers.push_back({kHookForward, kHookBackward, 1, 1});
  }
  return work;
}

TrainingJob hooked_job(const Workload& work, std::uint32_t ranks = kHookMembers) {
  CollectivePlanner planner = meeting_planner(
      {1, ranks}, [](const CollectiveRequest& request) { return hook_exchanged(request.bytes.value); });
  return build_job(work.training.ddp, work, planner);
}

SimTime hooked_step(const TrainingJob& job) {
  RunSpec run;
  run.iterations = 3;
  const Result result = simulate(job, run);
  return result.iteration_end[3] - result.iteration_end[2];
}

// One bucket of one layer: passes, copy in, the hook, copy out, SGD with momentum.
SimTime around(std::int64_t elements, SimTime hook) {
  return kHookForward + kHookBackward + hook_moved(8 * elements) + hook + hook_moved(8 * elements) +
         hook_moved(20 * elements);
}

// The bytes of the hook's kernels, and of its collectives, as its source has them.
template <class N>
struct HookBytesIn {
  CompressionSpec spec;
  N kernels = 0;
  std::vector<N> collectives;
};
using HookBytes = HookBytesIn<std::int64_t>;
template <class N>
std::vector<HookBytesIn<N>> schemes_in(N m, N n) {
  const N channels = m / 512 + 1, padded = 512 * channels, k = m / 50;
  CompressionSpec top_k = compression(CompressionKind::top_k);
  top_k.share = 0.02;
  const N qsgd = m + 4 * ((m + 127) / 128), sign = 4 * ((m + 31) / 32) + 4;
  return {
      {compression(CompressionKind::fp16), (4 + 2 + 2 + 2) * m + (2 + 4) * m, {2 * m}},
      {compression(CompressionKind::bf16), (4 + 2 + 2 + 2) * m + (2 + 4) * m, {2 * m}},
      {compression(CompressionKind::quantize_tensor),
       4 * m + (8 + 8 + 8 + 8 + 5) * m + n * m + 4 * m + n * (5 + 8 + 8 + 12) * m + 8 * m + n * (16 + 2 * m),
       {8 * n, n * m}},
      {compression(CompressionKind::quantize_channel),
       (4 * m + 4 * padded + 4 * m) + 4 * padded + (4 + 4 * 8 + 8 + 5) * padded + n * padded + 4 * padded +
           n * (5 + 4 + 3 * 8 + 12) * padded + 8 * m + n * (16 * channels + 2 * padded),
       {8 * channels * n, n * padded}},
      {compression(CompressionKind::qsgd), (8 + 4) * m + qsgd + n * (qsgd + 8 * m), {n * qsgd}},
      {compression(CompressionKind::sign), (8 + 4) * m + sign + n * (sign + 8 * m), {n * sign}},
      {top_k,
       12 * m + 2 * (4 * m + 8 * k) + 4 * m + n * k * (8 + 64) + 8 * m + k * (4 + 32),
       {4 * k * n, 4 * k * n}}};
}
std::vector<HookBytes> schemes(std::int64_t m, std::int64_t n) { return schemes_in<std::int64_t>(m, n); }

TEST_CASE("hooks: a step of one bucket is the sum of its pieces") {
  const HookedLayer layer{1000, 4000, 700};
  const std::int64_t m = 4'000'700;
  for (const HookBytes& scheme : schemes(m, kHookMembers)) {
    INFO(name_of(scheme.spec.kind));
    SimTime hook = hook_moved(scheme.kernels);
    for (const std::int64_t bytes : scheme.collectives) {
      hook += hook_exchanged(bytes);
    }
    CHECK(hooked_step(hooked_job(hooked_work({layer}, scheme.spec))) == around(m, hook));
  }
}

// PowerSGD of an a x b matrix and a vector of u, with matrices of r columns: Gram-Schmidt takes 3 passes over each column
// and, where c follow it, 2 + 7 c more.
std::int64_t gram_schmidt(std::int64_t length, std::int64_t r) {
  std::int64_t passes = 0;
  for (std::int64_t c = 0; c < r; ++c) {
    passes += 3 + (c > 0 ? 2 + 7 * c : 0);
  }
  return 4 * length * passes;
}

TEST_CASE("PowerSGD: a step of one bucket is the sum of its pieces") {
  const std::int64_t a = 1000, b = 4000, u = 700, m = a * b + u;
  for (const std::int64_t r : {1, 4}) {
    for (const bool feedback : {true, false}) {
      CompressionSpec spec = compression(CompressionKind::powersgd, r);
      spec.error_feedback = feedback;
      const std::int64_t product = 4 * (a * b + (a + b) * r);
      const SimTime hook =
          hook_moved((feedback ? 12 * m + 8 * m + 12 * m : 0) + 8 * u + gram_schmidt(b, r) + product) +
          hook_exchanged(4 * u) + hook_moved(8 * u + 8 * u) + hook_exchanged(4 * a * r) +
          hook_moved(gram_schmidt(a, r) + product) + hook_exchanged(4 * b * r) +
          hook_moved(8 * b * r + product);
      CHECK(hooked_step(hooked_job(hooked_work({{a, b, u}}, spec))) == around(m, hook));
      spec.synchronize = false;  // nothing else waits for it
      CHECK(hooked_step(hooked_job(hooked_work({{a, b, u}}, spec))) == around(m, hook));
    }
  }
  // fp16_compress_wrapper: half of all bytes of the hook, and two casts.
  CompressionSpec spec = compression(CompressionKind::powersgd, 1);
  spec.wrapper = HookWrapper::fp16;
  const std::int64_t product = 2 * (a * b + a + b);
  const SimTime hook = hook_moved(6 * m + 16 * m + 6 * m) + hook_moved(gram_schmidt(b, 1) / 2 + product) +
                       hook_exchanged(2 * a) + hook_moved(gram_schmidt(a, 1) / 2 + product) +
                       hook_exchanged(2 * b) + hook_moved(4 * b + product);
  CHECK(hooked_step(hooked_job(hooked_work({{a, b, 0}}, spec))) - around(a * b, {}) ==
        hook - hook_moved(28 * u));
}

TEST_CASE("PowerSGD sends 200 times less of a 1,000 x 4,000 tensor at rank 4, and all of a vector") {
  const CompressionSpec spec = compression(CompressionKind::powersgd, 4);
  CHECK(powersgd_compresses(spec, {4'000'000, 1000}));
  const std::vector<HookPart> parts = hook_of(spec, {{4'000'000, 1000}}, 4, 8);
  std::int64_t sent = 0;
  for (const HookPart& part : parts) {
    for (const HookPart::Exchange& each : part.exchanges) {
      sent += each.bytes.value;
    }
  }
  CHECK(4 * 4'000'000 / sent == 200);
  CHECK(4 * 4'000'000 % sent == 0);
  CHECK_FALSE(powersgd_compresses(spec, {4'000'000, 0}));
  CHECK_FALSE(powersgd_compresses(spec, {16 * 16, 16}));  // (16 + 16) 4 2 = 256: no less
  for (const HookPart& part : hook_of(spec, {{5000, 0}, {64, 8}}, 4, 8)) {
    for (const HookPart::Exchange& each : part.exchanges) {
      CHECK(each.bytes == Bytes(4 * 5064));
    }
  }
}

// Elements and first dimensions, as torch's state_dict() has them.
TEST_CASE("matrices have the rows that PyTorch's have") {
  struct Known {
    const char *model, *layer;
    std::int64_t rows, columns;
  };
  for (const auto& [name, layer, rows, columns] :
       {Known{"resnet50", "conv1", 64, 3 * 49}, Known{"resnet50", "fc", 1000, 2048},
        Known{"resnet50", "layer2.0.conv2", 128, 128 * 9}, Known{"vgg16", "classifier.0", 4096, 25088},
        Known{"llama3_8b", "layers.0.k_proj", 1024, 4096},
        Known{"llama3_8b", "layers.0.down_proj", 4096, 14336}}) {
    INFO(name << ' ' << layer);
    const Model model = builtin_model(name);
    const auto found = std::ranges::find(model.layers, layer, &Layer::name);
    REQUIRE(found != model.layers.end());
    REQUIRE(found->parameters.front() == rows * columns);
    CHECK(matrix_rows(model, *found, 0) == rows);
  }
  for (const char* name :
       {"resnet50", "resnet152", "vgg16", "bert_large", "bert_base", "gpt2_small", "llama3_8b"}) {
    const Model model = builtin_model(name);
    std::int64_t known = 0;
    for (const Layer& layer : model.layers) {
      for (std::size_t t = 0; t < layer.parameters.size(); ++t) {
        const std::int64_t rows = matrix_rows(model, layer, t);
        CHECK((rows == 0 || layer.parameters[t] % rows == 0));
        known += rows > 1 ? layer.parameters[t] : 0;
      }
    }
    INFO(name << ": " << known << " of " << parameter_count(model));
    CHECK(static_cast<double>(known) > 0.98 * static_cast<double>(parameter_count(model)));
  }
}

// What each bucket's collectives carry: from DDP's buckets and the schemes' definitions.
TEST_CASE("the collectives of each scheme carry its bytes: ResNet-50 and Llama 3 8B, 8 and 512 GPUs") {
  for (const char* name : {"resnet50", "llama3_8b"}) {
    const Model model = builtin_model(name);
    std::vector<std::pair<std::int64_t, std::int64_t>> tensors;  // elements, rows
    for (const Layer& layer : model.layers) {
      for (std::size_t t = 0; t < layer.parameters.size(); ++t) {
        tensors.emplace_back(layer.parameters[t], matrix_rows(model, layer, t));
      }
    }
    for (const std::int64_t n : {8, 512}) {
      CollectivePlanner planner = ring_planner(
          std::vector<HopCost>(static_cast<std::size_t>(n), {BytesPerSecond(1e10), SimTime{1000}, {}}));
      TrainingSpec training;
      training.batch_per_gpu = 1;
      training.ddp.broadcast_buffers = false;
      const std::vector<std::vector<std::size_t>> buckets =
          ddp_buckets(training.ddp, model, Precision::fp32, training.pytorch, n);
      std::vector<CompressionSpec> specs;
      for (const HookBytes& scheme : schemes(1, n)) {
        specs.push_back(scheme.spec);
      }
      specs.push_back(compression(CompressionKind::powersgd, 4));
      for (const CompressionSpec& spec : specs) {
        INFO(name << ", " << n << " GPUs, " << name_of(spec.kind));
        std::vector<std::int64_t> expected;
        for (const std::vector<std::size_t>& bucket : buckets) {
          std::int64_t m = 0, u = 0, p = 0, q = 0;
          for (const std::size_t tensor : bucket) {
            const auto [elements, rows] = tensors[tensor];
            const std::int64_t columns = rows > 0 ? elements / rows : 0;
            m += elements;
            if (rows > 0 && (rows + columns) * std::min({rows, columns, spec.rank}) * 2 < elements) {
              p += rows * std::min({rows, columns, spec.rank});
              q += columns * std::min({rows, columns, spec.rank});
            } else {
              u += elements;
            }
          }
          if (spec.kind == CompressionKind::powersgd) {
            for (const std::int64_t all : {u, p, q}) {
              if (all > 0) {
                expected.push_back(4 * all);
              }
            }
          } else {
            const std::vector<HookBytes> all = schemes(m, n);
            const auto own =
                std::ranges::find(all, spec.kind, [](const HookBytes& s) { return s.spec.kind; });
            expected.insert(expected.end(), own->collectives.begin(), own->collectives.end());
          }
        }
        training.compression = spec;
        const TrainingJob job = ddp_job(model, gpu_preset("A100-80GB"), training, {}, planner);
        std::vector<std::int64_t> found;
        for (const std::uint32_t plan : job.main().steady.collectives) {
          found.push_back(job.plans[plan].bytes.value);
        }
        CHECK(found == expected);
      }
    }
  }
}

// Linear layers of 1,000 x 4,000, 4,000 x 512, 512 x 10 and 10 x 7 in one bucket: what PyTorch 1.13's hooks gave its
// process group on two hosts, by gloo (torch.distributed.all_reduce, observed; 2026-11-23).
TEST_CASE("hooks reduce what PyTorch's reduced in a real run") {
  CompressionSpec spec = compression(CompressionKind::powersgd, 2);
  const std::vector<HookedLayer> layers{{4000, 1000, 4000}, {512, 4000, 512}, {10, 512, 10}, {7, 10, 7}};
  const auto reduced = [&](auto program) {
    Workload work = hooked_work(layers, spec);
    work.training.ddp.bucket_cap = work.training.ddp.first_bucket = Bytes(100 << 20);
    const TrainingJob job = hooked_job(work, 2);
    std::vector<std::int64_t> bytes;
    for (const std::uint32_t plan : (job.main().*program).collectives) {
      bytes.push_back(job.plans[plan].bytes.value);
    }
    return bytes;
  };
  CHECK(reduced(&Thread::steady) == std::vector<std::int64_t>{18'116, 36'232, 44'176});
  CHECK(reduced(&Thread::warm_up).front() == 24'230'876);
  spec = compression(CompressionKind::fp16);
  CHECK(reduced(&Thread::steady) == std::vector<std::int64_t>{12'115'438});
}

// Two layers, a bucket each: layer 1's comes first. Its cast takes 10 m1, its all-reduce kHookStart + 6 m1.
TEST_CASE("fp16: of two buckets' kernels the one that is ready first runs first") {
  for (const SimTime backward : {SimTime{2'000'000}, SimTime{300'000'000}}) {
    const std::int64_t m = 1'000'000;
    Workload work = hooked_work({{1000, 1000, 0}, {1000, 1000, 0}}, compression(CompressionKind::fp16));
    work.training.ddp.bucket_cap = work.training.ddp.first_bucket = Bytes(4 * m);
    work.layers[0].backward = backward;
    const TrainingJob job = hooked_job(work);
    RunSpec run;
    run.iterations = 1;
    const Result result = simulate(job, run, trace_of_first(kHookMembers, 2));
    const auto traced = std::ranges::find(result.trace, 1U, &TracedIteration::iteration);
    const auto kernel = [&](const std::string& label) {
      const std::vector<Op>& ops = job.main().steady.ops;
      const auto op = std::ranges::find(ops, label, &Op::label);
      REQUIRE(op != ops.end());
      return traced->ops[static_cast<std::size_t>(op - ops.begin())];
    };
    // The first bucket: copied in (8 m), cast (6 m), divided (4 m), reduced; meanwhile the other layer's backward.
    const SimTime cast_1 = kernel("hook of bucket 0: divide").end, reduced_1 = cast_1 + hook_exchanged(2 * m);
    const SimTime ready_2 = cast_1 + backward + hook_moved(8 * m);  // its copy has ended
    const OpSpan back_1 = kernel("hook of bucket 0: cast back"), cast_2 = kernel("hook of bucket 1: cast");
    if (ready_2 < reduced_1) {  // the copy back is ready while the second's cast runs, before its division
      CHECK(cast_2.start == ready_2);
      CHECK(back_1.start == cast_2.end);
      CHECK(cast_2.end == ready_2 + hook_moved(6 * m));
      CHECK(kernel("hook of bucket 1: divide").start == back_1.end);
    } else {  // backward runs when the first is reduced: the copy back comes next, before the second's copy into its bucket
      CHECK(back_1.start == cast_1 + backward);
      CHECK(cast_2.start == back_1.end + hook_moved(8 * m));
    }
    CHECK((back_1.start < cast_2.start) == (backward > SimTime{2'000'000}));
  }
}

TEST_CASE("PowerSGD: backward goes on when the bucket's chain has ended, as its host waits for the GPU") {
  Workload work = hooked_work({{1000, 1000, 0}, {1000, 1000, 0}}, compression(CompressionKind::powersgd));
  work.training.ddp.bucket_cap = work.training.ddp.first_bucket = Bytes(4'000'000);
  const auto second_backward = [&] {
    const TrainingJob job = hooked_job(work);
    RunSpec run;
    run.iterations = 1;
    const Result result = simulate(job, run, trace_of_first(kHookMembers, 2));
    const auto traced = std::ranges::find(result.trace, 1U, &TracedIteration::iteration);
    const std::vector<Op>& ops = job.main().steady.ops;
    std::vector<OpSpan> backward;
    SimTime chain, packed;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].kind == OpKind::kernel && ops[i].purpose.phase == Phase::backward) {
        backward.push_back(traced->ops[i]);
      }
      chain = ops[i].label == "hook of bucket 0: M = P Q^T" ? traced->ops[i].end : chain;
      packed = ops[i].label == "hook of bucket 0: P = M Q" ? traced->ops[i].end : packed;
    }
    REQUIRE(backward.size() == 2);
    return std::tuple{backward[1].start, chain, packed};
  };
  auto [start, chain, packed] = second_backward();
  CHECK(start == chain);
  work.training.compression.synchronize = false;
  std::tie(start, chain, packed) = second_backward();
  CHECK(start == packed);
  CHECK(start < chain);
}

TEST_CASE("until PowerSGD starts, all gradients are divided and reduced as they are") {
  const Workload work = hooked_work({{1000, 1000, 300}}, compression(CompressionKind::powersgd));
  const TrainingJob job = hooked_job(work);
  const Program& warm_up = job.main().warm_up;
  CHECK(job.plans[warm_up.collectives.front()].bytes == Bytes(4 * 1'000'300));
  CHECK(std::ranges::none_of(warm_up.ops, runs_beside_compute_stream));
}

TEST_CASE("hooks: the compute part of a step is the sum of its kernels, for random models and schemes") {
  Dice dice(7);
  for (std::uint64_t round = 1; round <= rounds(1000); ++round) {
    std::vector<HookedLayer> layers;
    for (std::int64_t l = dice.between(1, 6); l > 0; --l) {
      layers.push_back(
          {dice.between(1, 300), dice.between(1, 300), dice.between(0, 1) * dice.between(1, 500)});
    }
    CompressionSpec spec;
    spec.kind = static_cast<CompressionKind>(dice.between(1, 8));
    spec.share = dice.real(0.001, 1);
    spec.rank = dice.between(1, 4);
    spec.error_feedback = dice.maybe(0.5);
    spec.synchronize = dice.maybe(0.5);
    spec.min_rate = 0.01;
    Workload work = hooked_work(layers, spec);
    work.training.host.kernel_launch = Seconds(dice.maybe(0.5) ? 0 : 1e-7);
    work.training.ddp.bucket_cap = work.training.ddp.first_bucket = Bytes(dice.between(1000, 300'000));
    work.training.ddp.gradient_as_bucket_view = dice.maybe(0.5);
    const TrainingJob job = hooked_job(work, static_cast<std::uint32_t>(dice.between(2, 5)));
    RunSpec run;
    run.iterations = 3;
    const Result result = simulate(job, run);
    SimTime kernels;
    for (const Op& op : job.main().steady.ops) {
      kernels += op.kind == OpKind::kernel ? op.duration : SimTime{};
    }
    INFO("round " << round << ", " << name_of(spec.kind));
    for (const Breakdown& b : result.breakdown) {
      CHECK(b.compute == 3 * kernels);
      CHECK(b.other >= SimTime{});
    }
  }
}

TEST_CASE("quantize_tensor: with short kernels its 4 n launches per bucket are the host's time") {
  constexpr std::uint32_t kMany = 48;
  Workload work = hooked_work({{10, 10, 0}}, compression(CompressionKind::quantize_tensor));
  work.training.host.kernel_launch = Seconds(5e-6);
  RunSpec run;
  run.iterations = 1;
  const Result result = simulate(hooked_job(work, kMany), run);
  const SimTime launches{std::int64_t{4 * kMany} * 5'000'000};
  for (const Breakdown& b : result.breakdown) {
    CHECK(b.other > launches);
    CHECK(b.other < 2 * launches);
  }
}

// Models of up to 10^15 parameters on up to 4 million GPUs are taken (scenarios/model_description.h, limits.h).
TEST_CASE("hooks: what is too much to count is refused, and nothing else is counted wrong") {
  constexpr double kCounted = 0x1p62;
  int taken = 0, refused = 0;
  const auto check = [&](const CompressionSpec& spec, const HookTensor& tensor, std::uint32_t ranks,
                         double bytes) {
    std::vector<HookPart> parts;
    CAPTURE(name_of(spec.kind), tensor.elements, ranks, bytes);
    const std::string error = error_of([&] { parts = hook_of(spec, {tensor}, 4, ranks); });
    if (!error.empty()) {
      ++refused;
      CHECK(bytes > kCounted);
      CHECK_THAT(error, Catch::Contains("/training/compression: expected fewer GPUs or parameters"));
      return;
    }
    ++taken;
    double counted = 0;
    for (const HookPart& part : parts) {
      for (const std::vector<HookKernels>& all : {part.kernels, part.at_last}) {
        for (const HookKernels& kernels : all) {
          CHECK(kernels.launches > 0);
          CHECK(kernels.traffic.value > 0);
          counted += static_cast<double>(kernels.traffic.value) * (kernels.rate == HookRate::top_k ? 2 : 1);
        }
      }
      for (const HookPart::Exchange& each : part.exchanges) {
        const bool gathers = each.kind == CollectiveKind::all_gather;
        counted += static_cast<double>(each.bytes.value) * (gathers ? ranks : 1.0);
      }
    }
    CHECK(counted == Approx(bytes).epsilon(1e-6));
  };
  for (const double m : {1e9, 1e12, 1e14, 1e15}) {
    for (const std::uint32_t ranks : {2U, 2000U, 4'000'000U}) {
      for (const HookBytesIn<double>& scheme : schemes_in<double>(m, ranks)) {
        check(scheme.spec, {static_cast<std::int64_t>(m), 0}, ranks,
              std::accumulate(scheme.collectives.begin(), scheme.collectives.end(), scheme.kernels));
      }
    }
  }
  for (const double side : {1e4, 1e6, 1e8}) {
    for (const double r : {1.0, 1000.0, 4999.0}) {
      const double length = 1e14 / side, sum = length + side;
      CompressionSpec spec = compression(CompressionKind::powersgd, static_cast<std::int64_t>(r));
      check(spec, {100'000'000'000'000, static_cast<std::int64_t>(side)}, 4,
            4 * sum * (3 * r + 2 * (r - 1) + 7 * r * (r - 1) / 2) +  // Gram-Schmidt, as above
                3 * 4 * (1e14 + sum * r) + 32e14 + 4 * sum * r + 8 * length * r);
    }
  }
  CHECK(taken > 40);
  CHECK(refused > 20);
}

TEST_CASE("hooks: kernels of weeks are as long as their bytes, however they are spread over operations") {
  Workload work = hooked_work({{10'000'000, 10'000'000, 0}}, compression(CompressionKind::quantize_tensor));
  work.costs.gpu.memory_bandwidth = BytesPerSecond(1e11);
  CollectivePlanner planner = meeting_planner({1, 64}, [](const CollectiveRequest&) { return SimTime{1}; });
  const TrainingJob job = build_job(work.training.ddp, work, planner);
  double adding = 0;
  int operations = 0;
  for (const Op& op : job.main().steady.ops) {
    if (op.label == "hook of bucket 0: dequantise and add") {
      adding += static_cast<double>(op.duration.ps);
      ++operations;
    }
  }
  CHECK(operations == 32);
  CHECK(adding == Approx(10 * 33.0 * 64 * 1e14).epsilon(1e-9));
}

TEST_CASE("error feedback takes as much memory as gradients") {
  Workload work = hooked_work({{1000, 1000, 0}}, {});
  const auto buckets = [&](CompressionKind kind) {
    work.training.compression.kind = kind;
    return memory_of(work.training.ddp, work.model, work.training, {1, 4}).buckets;
  };
  CHECK(buckets(CompressionKind::top_k) == buckets(CompressionKind::none) + Bytes(4'000'000));
  CHECK(buckets(CompressionKind::powersgd) == buckets(CompressionKind::none) + Bytes(4'000'000));
  CHECK(buckets(CompressionKind::fp16) == buckets(CompressionKind::none));
}

TEST_CASE("a compression that DDP hasn't is told why") {
  const auto error = [](const std::function<void(TrainingSpec&)>& change) {
    Workload work = hooked_work({{100, 100, 0}}, compression(CompressionKind::powersgd));
    change(work.training);
    return error_of([&] { check_compression(work.training, work.model); });
  };
  CHECK(error([](TrainingSpec&) {}).empty());
  const auto says = [&](const std::string& what, const std::function<void(TrainingSpec&)>& change) {
    INFO(error(change));
    CHECK(error(change).find(what) != std::string::npos);
  };
  says("a smaller side of 100", [](TrainingSpec& t) { t.compression.rank = 60; });
  says("2 or more", [](TrainingSpec& t) { t.compression.start = 1; });
  says("2 or more", [](TrainingSpec& t) {
    t.compression.error_feedback = false;
    t.compression.start = 0;
  });
  says("the strategy ddp", [](TrainingSpec& t) { t.strategy = StrategyKind::fsdp; });
  says("pytorch_ddp", [](TrainingSpec& t) { t.ddp.reduction = Reduction::apex_ddp; });
  says("no join", [](TrainingSpec& t) { t.ddp.join.emplace(); });
  says("\"wire\"", [](TrainingSpec& t) { t.ddp.wire = Precision::fp16; });
  says("nccl", [](TrainingSpec& t) { t.collective.library = CollectiveLibrary::gloo; });
  says("fp32 gradients", [](TrainingSpec& t) {
    t.compression.kind = CompressionKind::top_k;
    t.gradients = Precision::bf16;
  });
  says("round powersgd", [](TrainingSpec& t) {
    t.compression.kind = CompressionKind::top_k;
    t.compression.wrapper = HookWrapper::fp16;
  });
  // A matrix of 100 by 100 with rank 1: 200 elements of 10,000.
  says("/training/compression/min_rate: expected less than 50,",
       [](TrainingSpec& t) { t.compression.min_rate = 50; });
  CHECK(error([](TrainingSpec& t) { t.compression.min_rate = 49; }).empty());
}

}  // namespace
}  // namespace paceline
