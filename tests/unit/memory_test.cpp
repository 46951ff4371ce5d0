// What DDP keeps on a GPU, counted by hand: parameters, gradients, their copies in buckets, optimizer state.
#include "sim/strategy/memory.h"

#include <catch2/catch.hpp>

#include "scenarios/scenario.h"
#include "tests/ddp_job.h"

namespace paceline {
namespace {

constexpr std::int64_t kLlama = 8'030'261'248;

TEST_CASE("Llama 3 8B needs 16 bytes for each parameter: 128 GB") {
  const Model llama = builtin_model("llama3_8b");
  TrainingSpec training;
  training.precision = training.gradients = Precision::bf16;
  training.optimizer = Optimizer::adam;
  const TrainingMemory m = least_memory(llama, training, 512);
  CHECK(m.parameters == Bytes(4 * kLlama));  // fp32, which the optimizer updates
  CHECK(m.gradients == Bytes(2 * kLlama));
  CHECK(m.buckets == Bytes(2 * kLlama));
  CHECK(m.optimizer == Bytes(8 * kLlama));  // two moments in fp32
  CHECK(m.total() == Bytes(128'484'179'968));

  training.ddp.gradient_as_bucket_view = true;
  CHECK(least_memory(llama, training, 512).total() == Bytes(14 * kLlama));
  training.ddp.gradient_as_bucket_view = false;
  CHECK(least_memory(llama, training, 1).total() == Bytes(14 * kLlama));  // no DDP, no buckets
  training.optimizer = Optimizer::sgd;                                    // with momentum
  CHECK(least_memory(llama, training, 512).total() == Bytes(12 * kLlama));
}

TEST_CASE("the precision of kernels is not that of what is kept") {
  const Model llama = builtin_model("llama3_8b");
  TrainingSpec training;
  training.optimizer = Optimizer::adam;
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
    training.precision = precision;  // autocast: 4 + 4 + 4 + 8
    CHECK(least_memory(llama, training, 8).total() == Bytes(20 * kLlama));
  }
  training.gradients = training.parameters = Precision::bf16;  // model.bfloat16(): 2 + 2 + 2 + 4
  CHECK(least_memory(llama, training, 8).total() == Bytes(10 * kLlama));
}

TEST_CASE("the optimizer moves what the memory holds") {
  const Model model = builtin_model("resnet18");
  const GpuSpec gpu = gpu_preset("A100-80GB");
  const auto optimizer_of = [&](Precision parameters, Optimizer optimizer) {
    TrainingSpec training;
    training.parameters = training.gradients = parameters;
    training.optimizer = optimizer;
    return reference_job(model, gpu, training, {}).main().steady.ops.back().duration;
  };
  const auto expected = [&](std::int64_t bytes_each) {
    const GpuCosts costs{gpu, {}, Precision::fp32};
    return to_sim_time(memory_time(costs, Bytes(11'689'512 * bytes_each)));
  };
  CHECK(optimizer_of(Precision::fp32, Optimizer::sgd) == expected(4 * 4 + 4));
  CHECK(optimizer_of(Precision::fp32, Optimizer::adam) == expected(6 * 4 + 4));
  CHECK(optimizer_of(Precision::bf16, Optimizer::adam) == expected(6 * 2 + 2));
}

}  // namespace
}  // namespace paceline
