// What training needs of a GPU's memory, counted by hand.
#include "sim/strategy/memory.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <iterator>

#include "scenarios/scenario.h"
#include "sim/strategy/sharding.h"
#include "tests/ddp_job.h"

namespace paceline {
namespace {

constexpr RankLayout kOne{1, 1}, kTwoNodes{2, 4};
constexpr std::int64_t kElements = 8 * 11'000;

// Tensors that 8 ranks divide. The root is what is in no block: 2,000 of 11,000 eighths of the parameters.
Model blocks() {
  const auto layer = [](const char* name, std::int64_t eighths, std::int64_t outputs) {
    return Layer{.name = name, .parameters = {8 * eighths}, .output_elements = outputs};
  };
  return {.name = "blocks",
          .input = "",
          .layers = {layer("embedding", 1'500, 10), layer("layers.0.up", 600, 40),
                     layer("layers.0.down", 400, 20), layer("layers.1.up", 3'000, 400),
                     layer("layers.1.down", 1'000, 200), layer("layers.2", 2'500, 30),
                     layer("layers.3", 1'500, 60), layer("head", 500, 70)}};
}

TrainingSpec mixed(StrategyKind strategy) {
  TrainingSpec training;
  training.batch_per_gpu = 3;
  training.precision = training.gradients = Precision::bf16;
  training.optimizer = Optimizer::adam;
  training.strategy = strategy;
  return training;
}

GpuMemory memory(const TrainingSpec& training, const RankLayout& job = kTwoNodes) {
  return memory_of(strategy_of(training), blocks(), training, job);
}

Bytes each(std::int64_t bytes) { return Bytes(bytes * kElements); }

TEST_CASE("DDP keeps a copy for the kernels, gradients, and the optimizer's state with its master copy") {
  TrainingSpec training = mixed(StrategyKind::ddp);
  GpuMemory m = memory(training);
  CHECK(m.parameters == each(2));
  CHECK(m.gradients == each(2));
  CHECK(m.optimizer == each(12));
  CHECK(m.gathered == Bytes(0));
  CHECK(m.buckets == each(2));
  CHECK(m.activations == Bytes(3 * 2 * 830));  // all outputs
  CHECK(m.model_states() == each(16));
  CHECK(m.total() == each(18) + m.activations);

  training.ddp.gradient_as_bucket_view = true;
  CHECK(memory(training).buckets == Bytes(0));
  training.ddp.gradient_as_bucket_view = false;
  training.optimizer = Optimizer::sgd;  // with momentum
  CHECK(memory(training).optimizer == each(8));
}

TEST_CASE("where formats agree the copy is the master") {
  TrainingSpec training = mixed(StrategyKind::ddp);
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    training.precision = precision;
    training.gradients = Precision::fp32;
    training.optimizer = Optimizer::adam;
    CHECK(memory(training).parameters == each(4));
    CHECK(memory(training).optimizer == each(8));
    training.optimizer = Optimizer::sgd;
    CHECK(memory(training).model_states() == each(4 + 4 + 4));
  }
  training = mixed(StrategyKind::ddp);
  training.parameters = Precision::bf16;  // model.bfloat16()
  CHECK(memory(training).model_states() == each(2 + 2 + 4));
}

TEST_CASE("ZeRO divides the optimizer's state, then gradients, then parameters") {
  TrainingSpec training = mixed(StrategyKind::zero);
  GpuMemory m = memory(training);
  CHECK(m.parameters == each(2));
  CHECK(m.gradients == each(2));
  CHECK(8 * m.optimizer == each(12));
  CHECK(m.buckets == each(2));  // DDP's
  training.zero.stage = 2;
  m = memory(training);
  CHECK(m.parameters == each(2));
  CHECK(8 * m.gradients == each(2));
  CHECK(8 * m.optimizer == each(12));
  CHECK(m.gathered == Bytes(0));  // its copy is whole
  CHECK(m.buckets == Bytes(8 * (2 * (2'000 + 4'000) + 2 * 4'000)));
  training.zero.stage = 3;
  m = memory(training);
  CHECK(8 * m.model_states() == each(16));
  CHECK(m.gathered == Bytes(2 * 8 * (2'000 + 4'000 + 2'500)));
}

TEST_CASE("FSDP divides all that is kept, and the shard is the master") {
  TrainingSpec training = mixed(StrategyKind::fsdp);
  GpuMemory m = memory(training);
  CHECK(8 * m.parameters == each(4));
  CHECK(8 * m.gradients == each(4));  // after the cast
  CHECK(8 * m.optimizer == each(8));
  CHECK(m.gathered == Bytes(2 * 8 * (2'000 + 4'000 + 2'500)));       // root, layers.1 and layers.2
  CHECK(m.buckets == Bytes(8 * (2 * (2'000 + 4'000) + 2 * 4'000)));  // of the root and layers.1; its input
  training.fsdp.reduce_precision = Precision::fp32;
  CHECK(memory(training).buckets == Bytes(8 * (2 * (2'000 + 4'000) + 4 * 4'000)));
  training.accumulation = 2;  // under no_sync sums of all are whole, in the format that they are reduced in
  CHECK(memory(training).buckets == each(4) + Bytes(8 * (2 * (2'000 + 4'000) + 4 * 4'000)));
  training.fsdp.reduce_precision = Precision::bf16;  // where they arrive
  training.gradients = Precision::bf16;
  CHECK(memory(training).buckets == each(2) + Bytes(8 * 2 * 4'000));
  training.fsdp.reduce_precision = Precision::fp32;
  training.no_sync = false;
  CHECK(memory(training).buckets == Bytes(8 * (2 * (2'000 + 4'000) + 4 * 4'000)));
  training.strategy = StrategyKind::zero;  // whose passes reduce, if nothing is said
  training.zero.stage = 3;
  training.no_sync.reset();
  CHECK(memory(training).buckets == Bytes(8 * (2 * (2'000 + 4'000) + 4 * 4'000)));
  training.no_sync = true;
  CHECK(memory(training).buckets == each(4) + Bytes(8 * (2 * (2'000 + 4'000) + 4 * 4'000)));
  training.strategy = StrategyKind::fsdp;
  training.fsdp.shard_group.node = true;
  m = memory(training);
  CHECK(4 * m.model_states() == each(4 + 4 + 8));
}

TEST_CASE("with kernels in fp8 parameters and activations stay in 16 bits") {
  for (const StrategyKind strategy : {StrategyKind::ddp, StrategyKind::fsdp, StrategyKind::zero}) {
    TrainingSpec training = mixed(strategy);
    const GpuMemory half = memory(training);
    training.precision = Precision::fp8;
    const GpuMemory eighth = memory(training);
    CHECK(eighth.parameters == half.parameters);
    CHECK(eighth.gathered == half.gathered);
    CHECK(eighth.activations == half.activations);
    CHECK(eighth.optimizer == half.optimizer);
  }
  TrainingSpec training = mixed(StrategyKind::fsdp);  // the root, layers.1 and layers.2
  training.fsdp.param_precision = Precision::fp32;
  CHECK(memory(training).gathered == Bytes(4 * 8 * (2'000 + 4'000 + 2'500)));
  training.fsdp.param_precision = Precision::fp8;  // of the blocks' products alone
  CHECK(memory(training).gathered == Bytes(8 * (2 * 2'000 + 4'000 + 2'500)));
  Model norms = blocks();
  for (Layer& layer : norms.layers) {
    layer.kind = LayerKind::norm;
  }
  CHECK(memory_of(training.fsdp, norms, training, kTwoNodes).gathered ==
        Bytes(2 * 8 * (2'000 + 4'000 + 2'500)));
}

TEST_CASE("FSDP gathers all where it doesn't reshard, and keeps a part where it reshards to fewer ranks") {
  TrainingSpec training = mixed(StrategyKind::fsdp);
  training.fsdp.reshard_after_forward = {.reshards = false};
  CHECK(memory(training).gathered == each(2));
  training.fsdp.reshard_after_forward = {.reshards = true, .within = 4};
  // layers.2 and layers.3 whole, and what blocks 0 and 1 keep; layers.1 and layers.2 would be more, beside
  // what block 0 keeps.
  CHECK(memory(training).gathered == Bytes(2 * 8 * (2'000 + 4'000 + 2'500 + 1'000 / 4)));
  training.fsdp.reshard_after_forward.within = 2;
  CHECK(memory(training).gathered == Bytes(2 * 8 * (2'000 + 4'000 + 2'500 + 1'000 / 2)));
  training.fsdp.reshard_after_forward.within = 8;  // all of them: nothing apart
  CHECK(memory(training).gathered == Bytes(2 * 8 * (2'000 + 4'000 + 2'500)));
}

TEST_CASE("what is recomputed needs the outputs of units and one whole unit, but no more than all outputs") {
  TrainingSpec training = mixed(StrategyKind::fsdp);
  CHECK(memory(training).activations == Bytes(3 * 2 * 830));
  training.activation_checkpointing = ActivationCheckpointing::full;
  CHECK(memory(training).activations == Bytes(3 * 2 * 830));
  Model deep = blocks();
  deep.layers[1].output_elements = 300;  // layers.0.up
  const std::int64_t root = 10 + 70, last_outputs = 20 + 200 + 30 + 60, largest = 400 + 200;
  for (const StrategyKind strategy : {StrategyKind::fsdp, StrategyKind::ddp}) {
    training.strategy = strategy;
    CHECK(memory_of(strategy_of(training), deep, training, kTwoNodes).activations ==
          Bytes(3 * 2 * (root + last_outputs + largest)));
  }
  // Of every two the last: layers.1, and layers.3, which writes more now. All else is kept.
  training.recompute_every = 2;
  deep.layers.insert(deep.layers.begin() + 6,
                     {.name = "layers.3.up", .parameters = {8}, .output_elements = 550});
  const std::int64_t kept = root + 300 + 20 + 30, last_of_two = 200 + 60, largest_of_two = 550 + 60;
  CHECK(memory_of(strategy_of(training), deep, training, kTwoNodes).activations ==
        Bytes(3 * 2 * (kept + last_of_two + largest_of_two)));
}

TEST_CASE(
    "with selective_op a unit keeps attention and every other product without a bias, and runs the rest "
    "again") {
  const auto layer = [](const char* name, LayerKind kind, std::int64_t outputs, std::size_t tensors = 1) {
    return Layer{.name = name,
                 .kind = kind,
                 .parameters = std::vector<std::int64_t>(tensors, 8),
                 .forward_macs = kind == LayerKind::norm ? 0 : 1000,
                 .output_elements = outputs};
  };
  using enum LayerKind;
  // Products of one tensor: q, v and down are kept, k and up are not.
  Model model{.name = "two",
              .input = "",
              .layers = {layer("in", embedding, 1), layer("layers.0.q", linear, 2),
                         layer("layers.0.k", linear, 400), layer("layers.0.attention", attention, 8, 0),
                         layer("layers.0.v", linear, 16), layer("layers.0.biased", linear, 32, 2),
                         layer("layers.0.up", linear, 640), layer("layers.0.down", linear, 128),
                         layer("layers.0.norm", norm, 5), layer("layers.1.q", linear, 7),
                         layer("layers.1.k", linear, 300), layer("layers.1.v", linear, 9)}};
  TrainingSpec training = mixed(StrategyKind::fsdp);
  const auto activations = [&] { return memory_of(training.fsdp, model, training, kTwoNodes).activations; };
  const auto again = [&] {
    std::vector<std::uint32_t> layers;
    for (const FsdpUnit& unit : recomputed_units(training, model)) {
      std::ranges::copy(recomputed_layers(training, model, unit), std::back_inserter(layers));
    }
    return layers;
  };
  using Layers = std::vector<std::uint32_t>;
  const std::int64_t root = 1, kept = 2 + 8 + 16 + 32 + 128 + 7 + 9, last = 5 + 9, largest = 400 + 640 + 5;
  // What is in no block never runs again, and FSDP's units change nothing of a block.
  for (const std::vector<std::int64_t>& units :
       {std::vector<std::int64_t>{}, {1, 8, 3}, {5, 7}, {1, 1, 10}}) {
    training.fsdp.units.layers = units;
    training.activation_checkpointing = ActivationCheckpointing::selective_op;
    CHECK(again() == Layers{2, 6, 8, 10});
    CHECK(activations() == Bytes(3 * 2 * (root + kept + last + largest)));
    CHECK(recomputes_products(training, model));
    training.precision = Precision::fp8;  // all products are kept
    CHECK(again() == Layers{8});
    CHECK_FALSE(recomputes_products(training, model));
    training.precision = Precision::bf16;
    training.activation_checkpointing = ActivationCheckpointing::full;
    CHECK(again() == Layers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  }
  // Nor does a head, whatever unit it is in.
  model.layers.push_back(layer("head", linear, 2'000));
  for (const std::vector<std::int64_t>& units : {std::vector<std::int64_t>{1, 8, 3, 1}, {1, 8, 4}}) {
    training.fsdp.units.layers = units;
    CHECK(activations() == Bytes(3 * 2 * (root + last + 2 + 400 + 8 + 16 + 32 + 640 + 128 + 5 + 2'000)));
  }
}

TEST_CASE(
    "a loss that no kernel fuses has the logits of a model of tokens three times in fp32, and isn't "
    "counted") {
  Model model = blocks();
  const TrainingSpec training = mixed(StrategyKind::ddp);
  const auto memory = [&] { return memory_of(training.ddp, model, training, kTwoNodes); };
  model.layers.back().kind = LayerKind::linear;
  CHECK(memory().unfused_loss == Bytes(0));  // of images: a thousand classes
  model.tokens = 10;
  CHECK(memory().unfused_loss == Bytes(3 * 3 * 4 * 70));
  model.layers.push_back(
      {.name = "pooled", .kind = LayerKind::linear, .parameters = {8}, .output_elements = 2});
  CHECK(memory().unfused_loss == Bytes(3 * 3 * 4 * 70));
  CHECK(memory().activations == Bytes(3 * 2 * 832));
}

TEST_CASE("one GPU trains plainly, whatever the strategy") {
  for (const StrategyKind strategy : {StrategyKind::ddp, StrategyKind::fsdp, StrategyKind::zero}) {
    const GpuMemory m = memory(mixed(strategy), kOne);
    CHECK(m.model_states() == each(16));
    CHECK(m.total() == each(16) + Bytes(3 * 2 * 830));
  }
  TrainingSpec recomputes = mixed(StrategyKind::fsdp);
  recomputes.activation_checkpointing = ActivationCheckpointing::full;
  CHECK(memory(recomputes, kOne).activations == memory(recomputes).activations);
  CHECK(memory(recomputes, kOne).model_states() == each(16));
}

TEST_CASE("what every layer may write at most is beyond all GPUs, not beyond all numbers") {
  Model model = blocks();
  model.layers.assign(10'000, {.name = "l", .parameters = {1}, .output_elements = 100'000'000'000'000});
  TrainingSpec training;
  training.batch_per_gpu = 1'000'000;
  for (const StrategyKind strategy : {StrategyKind::ddp, StrategyKind::fsdp}) {
    training.strategy = strategy;
    const GpuMemory m = memory_of(strategy_of(training), model, training, kTwoNodes);
    CHECK(m.total() > Bytes(1LL << 59));
  }
}

TEST_CASE("each optimizer keeps its moments") {
  const auto moments = [](Optimizer optimizer, Precision parameters, StrategyKind strategy) {
    TrainingSpec training = mixed(strategy);
    training.optimizer = optimizer;
    training.precision = training.parameters = parameters;  // no master copy beside them
    return memory(training).optimizer;
  };
  for (const Optimizer two : {Optimizer::adam, Optimizer::adamw, Optimizer::lamb}) {
    CHECK(moments(two, Precision::fp32, StrategyKind::ddp) == each(8));
    CHECK(moments(two, Precision::bf16, StrategyKind::ddp) == each(4));
  }
  for (const Optimizer one : {Optimizer::sgd, Optimizer::lars}) {
    CHECK(moments(one, Precision::fp32, StrategyKind::ddp) == each(4));
    CHECK(8 * moments(one, Precision::fp32, StrategyKind::fsdp) == each(4));
  }
  // 88,000 parameters: two bytes each, and two constants in fp32 for each block of 256, the last one begun.
  const std::int64_t one_byte = 88'000 + 1'375;
  CHECK(moments(Optimizer::adam_8bit, Precision::fp32, StrategyKind::ddp) == Bytes(2 * one_byte));
  CHECK(moments(Optimizer::adam_8bit, Precision::bf16, StrategyKind::ddp) == Bytes(2 * one_byte));
  CHECK(moments(Optimizer::adam_8bit, Precision::fp32, StrategyKind::fsdp) == Bytes(2 * (11'000 + 172)));

  TrainingSpec training = mixed(StrategyKind::ddp);
  training.optimizer = Optimizer::adam_8bit;
  CHECK(memory(training).optimizer == each(4) + Bytes(2 * one_byte));  // the master copy
}

TEST_CASE("the optimizer moves what the memory holds") {
  const Model model = builtin_model("resnet18");
  const GpuSpec gpu = gpu_preset("A100-80GB");
  struct Step {
    SimTime duration, launches;
    bool operator==(const Step&) const = default;
  };
  const auto step = [&](Optimizer optimizer, OptimizerKernels kernels, Precision parameters,
                        Precision gradients) {
    TrainingSpec training;
    training.parameters = parameters;
    training.gradients = gradients;
    training.optimizer = optimizer;
    training.optimizer_kernels = kernels;
    const Op op = reference_job(model, gpu, training, {}).main().steady.ops.back();
    return Step{op.duration, op.host_cost};
  };
  const auto expected = [&](double bytes_each, int launches) {
    const GpuCosts costs{gpu, {}, Precision::fp32};
    const Bytes traffic(static_cast<std::int64_t>(std::ceil(11'689'512 * bytes_each)));
    return Step{to_sim_time(memory_time(costs, traffic)), to_sim_time(HostSpec{}.kernel_launch * launches)};
  };
  constexpr Precision kFp32 = Precision::fp32, kBf16 = Precision::bf16;
  constexpr int kTensors = 62;

  SECTION("fused") {
    const auto fused = [&](Optimizer optimizer, Precision parameters, Precision gradients) {
      return step(optimizer, OptimizerKernels::fused, parameters, gradients);
    };
    CHECK(fused(Optimizer::sgd, kFp32, kFp32) == expected(4 * 4 + 4, 1));
    CHECK(fused(Optimizer::adam, kFp32, kFp32) == expected(6 * 4 + 4, 1));
    CHECK(fused(Optimizer::adam, kBf16, kBf16) == expected(6 * 2 + 2, 1));
    CHECK(fused(Optimizer::adamw, kFp32, kFp32) == fused(Optimizer::adam, kFp32, kFp32));
    CHECK(fused(Optimizer::lamb, kFp32, kFp32) == expected((1 + 5 + 2) * 4 + (1 + 2 + 1 + 1) * 4, 3 * 2 + 2));
    CHECK(fused(Optimizer::lamb, kFp32, kBf16) == expected(8 * 4 + 5 * 2, 8));
    CHECK(fused(Optimizer::lars, kFp32, kFp32) == expected((1 + 4) * 4 + (1 + 1) * 4, 2 * 2 + 1));
  }
  SECTION("operation by operation") {
    for (const OptimizerKernels kernels : {OptimizerKernels::foreach, OptimizerKernels::for_loop}) {
      const int tensors = kernels == OptimizerKernels::foreach ? 1 : kTensors;
      CHECK(step(Optimizer::sgd, kernels, kFp32, kFp32) == expected(10 * 4 + 4, 4 * tensors));
      CHECK(step(Optimizer::adam, kernels, kFp32, kFp32) == expected(16 * 4 + 2 * 4, 7 * tensors));
      CHECK(step(Optimizer::adamw, kernels, kFp32, kFp32) == expected(18 * 4 + 2 * 4, 8 * tensors));
      CHECK(step(Optimizer::lamb, kernels, kFp32, kBf16) == expected(27 * 4 + 2 * 2, 17 * tensors));
      CHECK(step(Optimizer::lars, kernels, kFp32, kBf16) == expected(11 * 4 + 6 * 2, 17 * tensors));
    }
  }
  SECTION("moments of one byte: a kernel for each tensor, whatever is asked for") {
    const double moments = 2 * 2 * (1 + 4.0 / 256);  // read and written, with their blocks' constants
    for (const auto& [name, kernels] : kNames<OptimizerKernels>) {
      const Step one_byte = step(Optimizer::adam_8bit, kernels, kFp32, kFp32);
      CHECK(one_byte.launches == expected(0, kTensors).launches);
      const double off =
          static_cast<double>((one_byte.duration - expected(2 * 4 + 4 + moments, 1).duration).ps);
      CHECK(std::abs(off) < 10);  // a block that is begun
    }
  }
}

TEST_CASE(
    "clipping by norm reads the gradients once more and scales them, but for fused LAMB, which does so "
    "anyway") {
  const Model model = builtin_model("resnet18");
  const GpuSpec gpu = gpu_preset("A100-80GB");
  const auto ops = [&](Optimizer optimizer, OptimizerKernels kernels, bool clip_norm) {
    TrainingSpec training;
    training.gradients = Precision::bf16;
    training.optimizer = optimizer;
    training.optimizer_kernels = kernels;
    training.clip_norm = clip_norm;
    return reference_job(model, gpu, training, {}).main().steady.ops;
  };
  for (const auto& [name, optimizer] : kNames<Optimizer>) {
    for (const auto& [how, kernels] : kNames<OptimizerKernels>) {
      INFO(name << ' ' << how);
      const std::vector<Op> plain = ops(optimizer, kernels, false), clipped = ops(optimizer, kernels, true);
      CHECK(clipped.back().duration == plain.back().duration);
      if (optimizer == Optimizer::lamb && kernels == OptimizerKernels::fused) {
        CHECK(clipped.size() == plain.size());
        continue;
      }
      REQUIRE(clipped.size() == plain.size() + 1);
      const Op& clip = clipped[clipped.size() - 2];
      const GpuCosts costs{gpu, {}, Precision::fp32};
      CHECK(clip.duration == to_sim_time(memory_time(costs, Bytes(3 * 2 * 11'689'512LL))));
      CHECK(clip.host_cost == to_sim_time(HostSpec{}.kernel_launch * 2));
    }
  }
}

}  // namespace
}  // namespace paceline
