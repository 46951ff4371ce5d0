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

void ProgramBuilder::kernel(SimTime duration, std::size_t launches, const Purpose& purpose,
                            std::string label) {
  const SimTime cost = to_sim_time(training_.host.kernel_launch * static_cast<double>(launches));
  program_.ops.push_back({OpKind::kernel, 0, duration, cost, std::move(label), purpose});
}

void ProgramBuilder::take_batch() {
  if (training_.input) {
    program_.ops.push_back({OpKind::take_batch, 0, {}, {}, "wait for batch"});
  }
}

void ProgramBuilder::forward(const Model& model, const std::vector<LayerSpan>& layers) {
  for (std::uint32_t l = 0; l < layers.size(); ++l) {
    kernel(layers[l].forward, static_cast<std::size_t>(layers[l].forward_launches), {Phase::forward, l},
           "forward " + model.layers[l].name);
  }
}

void ProgramBuilder::backward(const Model& model, std::uint32_t layer, const LayerSpan& span) {
  kernel(span.backward, static_cast<std::size_t>(span.backward_launches), {Phase::backward, layer},
         "backward " + model.layers[layer].name);
}

void ProgramBuilder::accumulate(std::uint32_t layer, Bytes gradients, std::size_t tensors) {
  if (tensors > 0) {
    kernel(to_sim_time(memory_time(costs_, 3 * gradients)), tensors, {Phase::accumulate, layer},
           "accumulate");
  }
}

void ProgramBuilder::copy(Bytes gradients, std::size_t tensors, std::uint32_t bucket,
                          const std::string& label) {
  kernel(to_sim_time(memory_time(costs_, 2 * gradients)), tensors, {Phase::exchange, kNoIndex, bucket},
         label);
}

// One fused kernel. SGD with momentum reads and writes parameter and momentum; Adam has a
// second moment as well; both read the gradient.
void ProgramBuilder::optimizer(std::int64_t parameters) {
  const std::int64_t state_bytes = bytes_per_element(training_.parameters);
  const std::int64_t passes = training_.optimizer == Optimizer::sgd ? 4 : 6;
  const Bytes traffic(parameters * (passes * state_bytes + bytes_per_element(training_.gradients)));
  kernel(to_sim_time(memory_time(costs_, traffic)), 1, {Phase::update}, "optimizer");
}

void ProgramBuilder::synchronize() {
  program_.ops.push_back({OpKind::synchronize, 0, {}, {}, "synchronize"});
}

std::uint32_t ProgramBuilder::collective(CollectiveKind kind, Bytes bytes, const Purpose& purpose,
                                         const std::string& label) {
  const auto index = static_cast<std::uint32_t>(program_.collectives.size());
  program_.collectives.push_back(plans_.number(kind, bytes));
  program_.ops.push_back(
      {OpKind::collective, index, {}, to_sim_time(training_.host.collective_launch), label, purpose});
  return index;
}

void ProgramBuilder::wait(std::uint32_t collective) {
  program_.ops.push_back(
      {OpKind::wait, collective, {}, {}, "wait for collective " + std::to_string(collective)});
}

Program plain_program(const Workload& work) {
  const auto& [model, training, variability, costs, layers] = work;
  CollectivePlanner nobody = lone_planner();
  PlanTable no_plans(nobody);
  ProgramBuilder b(training, costs, no_plans);
  for (int micro = 0; micro < training.accumulation; ++micro) {
    b.take_batch();
    b.forward(model, layers);
    for (auto l = static_cast<std::uint32_t>(model.layers.size()); l-- > 0;) {
      b.backward(model, l, layers[l]);
      if (const std::vector<std::int64_t>& tensors = model.layers[l].parameters;
          micro > 0 && !tensors.empty()) {
        std::int64_t elements = 0;
        for (const std::int64_t t : tensors) {
          elements += t;
        }
        b.accumulate(l, Bytes(elements * bytes_per_element(training.gradients)), tensors.size());
      }
    }
  }
  b.optimizer(parameter_count(model));
  return b.finish();
}

}  // namespace paceline
