#include "sim/strategy/optimizer.h"

#include <array>

namespace paceline {
namespace {

// Passes are reads and writes of as many elements as there are parameters.
struct Kernels {
  int state_passes = 0;     // over parameters, moments and temporaries, in the format of `parameters`
  int gradient_passes = 0;  // in the gradients' format
  std::size_t launches = 1;
};

// Moments of one byte, read and written beside the passes: a constant in fp32 goes with each block. A tensor's blocks
// are its own, so each tensor has its kernel.
constexpr std::int64_t kMomentBlock = 256, kMomentBlockBytes = kMomentBlock + 4;

struct OptimizerCost {
  Optimizer optimizer;
  int moments = 1;
  bool one_byte_moments = false;
  Kernels fused, operations;
};

constexpr std::array kCosts{
    // torch.optim.SGD with momentum; operation by operation also the weight decay's (_single_tensor_sgd: add, mul_,
    // add_, add_).
    OptimizerCost{Optimizer::sgd, 1, false, {4, 1, 1}, {10, 1, 4}},
    // torch.optim.Adam, AdamW (_single_tensor_adam: lerp_, mul_, addcmul_, sqrt, div, add_, addcdiv_; AdamW first
    // mul_).
    OptimizerCost{Optimizer::adam, 2, false, {6, 1, 1}, {16, 2, 7}},
    OptimizerCost{Optimizer::adamw, 2, false, {6, 1, 1}, {18, 2, 8}},
    // Apex FusedLAMB (csrc/multi_tensor_lamb.cu): norms of gradients and parameters; stage 1 (parameter, both moments,
    // the update in the gradient's place); the update's norm; stage 2 (update, parameter). A norm has two kernels.
    // Operation by operation: cybertronai/pytorch-lamb with weight decay.
    OptimizerCost{Optimizer::lamb, 2, false, {8, 5, 8}, {27, 2, 17}},
    // Apex FusedLARS (csrc/multi_tensor_lars.cu): norms of parameters and gradients; SGD with momentum. Operation by
    // operation: Apex LARC around torch.optim.SGD.
    OptimizerCost{Optimizer::lars, 1, false, {5, 2, 5}, {11, 6, 17}},
    // bitsandbytes Adam8bit (kOptimizerStatic8bit2StateBlockwise): the parameter; moments as above.
    OptimizerCost{Optimizer::adam_8bit, 2, true, {2, 1, 1}, {2, 1, 1}},
};

constexpr const OptimizerCost& cost_of(Optimizer optimizer) {
  return kCosts[static_cast<std::size_t>(optimizer)];
}
static_assert([] {
  for (const Named<Optimizer>& each : kNames<Optimizer>) {
    if (cost_of(each.value).optimizer != each.value) {
      return false;
    }
  }
  return kCosts.size() == kNames<Optimizer>.size();
}());

}  // namespace

Bytes optimizer_moments(const TrainingSpec& training, std::int64_t parameters) {
  const OptimizerCost& cost = cost_of(training.optimizer);
  const std::int64_t each = cost.one_byte_moments
                                ? (parameters * kMomentBlockBytes + kMomentBlock - 1) / kMomentBlock
                                : parameters * bytes_per_element(training.parameters);
  return Bytes(cost.moments * each);
}

OptimizerStep optimizer_step(const TrainingSpec& training, std::int64_t parameters, Precision gradients,
                             std::size_t tensors) {
  const OptimizerCost& cost = cost_of(training.optimizer);
  const bool fused = training.optimizer_kernels == OptimizerKernels::fused;
  const Kernels& kernels = fused ? cost.fused : cost.operations;
  const bool each_tensor = cost.one_byte_moments || training.optimizer_kernels == OptimizerKernels::for_loop;
  const Bytes passes(parameters * (kernels.state_passes * bytes_per_element(training.parameters) +
                                   kernels.gradient_passes * bytes_per_element(gradients)));
  const Bytes moments = cost.one_byte_moments ? 2 * optimizer_moments(training, parameters) : Bytes(0);
  return {passes + moments, kernels.launches * (each_tensor ? tensors : 1)};
}

Norms norms_of(const TrainingSpec& training) {
  const bool lamb = training.optimizer == Optimizer::lamb;
  const bool fused = training.optimizer_kernels == OptimizerKernels::fused;
  return {training.clip_norm || (lamb && fused), lamb || training.optimizer == Optimizer::lars ? 2 : 0};
}

// One kernel reads the gradients for the norm, one scales them. Apex FusedLAMB does with its own norm.
OptimizerStep clipping_step(const TrainingSpec& training, std::int64_t parameters, Precision gradients) {
  const bool clips_itself =
      training.optimizer == Optimizer::lamb && training.optimizer_kernels == OptimizerKernels::fused;
  if (!training.clip_norm || clips_itself) {
    return {Bytes(0), 0};
  }
  return {Bytes(3 * parameters * bytes_per_element(gradients)), 2};
}

}  // namespace paceline
