#include "sim/strategy/program_builder.h"

#include <utility>

namespace paceline {

std::uint32_t PlanTable::number(CollectiveKind kind, Bytes bytes) {
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    if (plans_[i].kind == kind && plans_[i].bytes == bytes) {
      return static_cast<std::uint32_t>(i);
    }
  }
  plans_.push_back(planner_.plan(kind, bytes));
  return static_cast<std::uint32_t>(plans_.size() - 1);
}

void ProgramBuilder::kernel(SimTime duration, std::size_t launches, std::string label) {
  const SimTime cost = to_sim_time(training_.host.kernel_launch * static_cast<double>(launches));
  program_.ops.push_back({OpKind::kernel, 0, duration, cost, std::move(label)});
}

void ProgramBuilder::take_batch() {
  if (training_.input) {
    program_.ops.push_back({OpKind::take_batch, 0, {}, {}, "wait for batch"});
  }
}

void ProgramBuilder::forward(const Model& model, const std::vector<LayerSpan>& layers) {
  for (std::size_t l = 0; l < layers.size(); ++l) {
    kernel(layers[l].forward, static_cast<std::size_t>(layers[l].forward_launches),
           "forward " + model.layers[l].name);
  }
}

void ProgramBuilder::backward(const Layer& layer, const LayerSpan& span) {
  kernel(span.backward, static_cast<std::size_t>(span.backward_launches), "backward " + layer.name);
}

void ProgramBuilder::accumulate(Bytes gradients, std::size_t tensors) {
  if (tensors > 0) {
    kernel(to_sim_time(memory_time(costs_, 3 * gradients)), tensors, "accumulate");
  }
}

void ProgramBuilder::copy(Bytes gradients, std::size_t tensors, const std::string& what) {
  kernel(to_sim_time(memory_time(costs_, 2 * gradients)), tensors, what);
}

// One fused kernel. SGD with momentum reads and writes parameter and momentum; Adam has a
// second moment as well; both read the gradient.
void ProgramBuilder::optimizer(std::int64_t parameters) {
  const std::int64_t state_bytes = bytes_per_element(training_.parameters);
  const std::int64_t passes = training_.optimizer == Optimizer::sgd ? 4 : 6;
  const Bytes traffic(parameters * (passes * state_bytes + bytes_per_element(training_.gradients)));
  kernel(to_sim_time(memory_time(costs_, traffic)), 1, "optimizer");
}

void ProgramBuilder::synchronize() {
  program_.ops.push_back({OpKind::synchronize, 0, {}, {}, "synchronize"});
}

std::uint32_t ProgramBuilder::collective(CollectiveKind kind, Bytes bytes, const std::string& label) {
  const auto index = static_cast<std::uint32_t>(program_.collectives.size());
  program_.collectives.push_back(plans_.number(kind, bytes));
  program_.ops.push_back(
      {OpKind::collective, index, {}, to_sim_time(training_.host.collective_launch), label});
  return index;
}

void ProgramBuilder::wait(std::uint32_t collective) {
  program_.ops.push_back(
      {OpKind::wait, collective, {}, {}, "wait for collective " + std::to_string(collective)});
}

Program plain_program(const Model& model, const GpuCosts& costs, const TrainingSpec& training,
                      const std::vector<LayerSpan>& layers) {
  CollectivePlanner nobody = lone_planner();
  PlanTable no_plans(nobody);
  ProgramBuilder b(training, costs, no_plans);
  for (int micro = 0; micro < training.accumulation; ++micro) {
    b.take_batch();
    b.forward(model, layers);
    for (std::size_t l = model.layers.size(); l-- > 0;) {
      b.backward(model.layers[l], layers[l]);
      if (const std::vector<std::int64_t>& tensors = model.layers[l].parameters;
          micro > 0 && !tensors.empty()) {
        std::int64_t elements = 0;
        for (const std::int64_t t : tensors) {
          elements += t;
        }
        b.accumulate(Bytes(elements * bytes_per_element(training.gradients)), tensors.size());
      }
    }
  }
  b.optimizer(parameter_count(model));
  return b.finish();
}

}  // namespace paceline
