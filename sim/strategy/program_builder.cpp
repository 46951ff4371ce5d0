#include "sim/strategy/program_builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/strategy/optimizer.h"

namespace paceline {

std::uint32_t PlanTable::number(const CollectiveRequest& request) {
  const auto known = std::ranges::find(requests_, request);
  const auto number = static_cast<std::uint32_t>(known - requests_.begin());
  if (known == requests_.end()) {
    requests_.push_back(request);
    plans_.push_back(planner_.plan(request));
    plans_.back().family = family(request.groups);
  }
  return number;
}

std::uint32_t PlanTable::family(const GroupShape& shape) {
  if (in_numbers(shape, layout()) == in_numbers(kAllRanks, layout())) {
    return kWorld;
  }
  const auto known = std::ranges::find(shapes_, shape);
  const auto number = static_cast<std::uint32_t>(known - shapes_.begin());
  if (known == shapes_.end()) {
    shapes_.push_back(shape);
    families_.push_back(family_of(shape, layout()));
  }
  return number;
}

ProgramBuilder::ProgramBuilder(const Workload& work, PlanTable& plans)
    : work_(work), plans_(plans), recomputed_(recomputed_units(work.training, work.model)) {}

void ProgramBuilder::kernel(SimTime duration, std::size_t launches, const Purpose& purpose,
                            std::string label) {
  const SimTime cost = to_sim_time(work_.training.host.kernel_launch * static_cast<double>(launches));
  program_.ops.push_back({OpKind::kernel, 0, duration, cost, std::move(label), purpose});
}

void ProgramBuilder::take_batch() {
  if (work_.training.input) {
    program_.ops.push_back({OpKind::take_batch, 0, {}, {}, "wait for batch"});
  }
}

void ProgramBuilder::forward_kernels(std::uint32_t layer, Phase phase, const char* word) {
  const LayerSpan& span = work_.layers[layer];
  kernel(span.forward, static_cast<std::size_t>(span.forward_launches), {phase, layer},
         word + work_.model.layers[layer].name);
}

void ProgramBuilder::forward(std::uint32_t layer) { forward_kernels(layer, Phase::forward, "forward "); }

void ProgramBuilder::recompute(std::uint32_t layer) {
  if (const auto unit = std::ranges::find(recomputed_, layer + 1, &FsdpUnit::end);
      unit != recomputed_.end()) {
    for (const std::uint32_t l : recomputed_layers(work_.training, work_.model, *unit)) {
      forward_kernels(l, Phase::backward, "recompute ");
    }
  }
}

void ProgramBuilder::backward_kernels(std::uint32_t layer) {
  const LayerSpan& span = work_.layers[layer];
  kernel(span.backward, static_cast<std::size_t>(span.backward_launches), {Phase::backward, layer},
         "backward " + work_.model.layers[layer].name);
}

void ProgramBuilder::backward(std::uint32_t layer) {
  recompute(layer);
  backward_kernels(layer);
}

void ProgramBuilder::accumulate(std::uint32_t layer) {
  gradients(layer, 3 * bytes_per_element(work_.training.gradients), "accumulate");
}

void ProgramBuilder::gradients(std::uint32_t layer, std::int64_t bytes_of_element, const char* label) {
  const std::vector<std::int64_t>& tensors = work_.model.layers[layer].parameters;
  if (!tensors.empty()) {
    const Bytes traffic(std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0}) * bytes_of_element);
    kernel(to_sim_time(memory_time(work_.costs, traffic)), tensors.size(), {Phase::accumulate, layer}, label);
  }
}

std::uint32_t ProgramBuilder::copy(Bytes traffic, std::size_t launches, std::uint32_t bucket,
                                   const std::string& label) {
  kernel(to_sim_time(memory_time(work_.costs, traffic)), launches, {Phase::exchange, kNoIndex, bucket},
         label);
  return last_op();
}

std::uint32_t ProgramBuilder::kernels(SimTime duration, std::size_t launches, std::uint32_t bucket,
                                      const std::string& label, std::uint32_t stream,
                                      std::optional<std::uint32_t> after) {
  constexpr std::size_t kMostOperations = 32;  // so that they begin long before the last one is launched
  const std::size_t pieces = std::clamp<std::size_t>(launches / 4, 1, kMostOperations);
  for (std::size_t i = 0; i < pieces; ++i) {
    const auto before = [&](std::size_t of, std::size_t n) {  // of * n / pieces
      return of / pieces * n + of % pieces * n / pieces;
    };
    const auto part = [&](std::size_t of) { return before(of, i + 1) - before(of, i); };
    kernel(SimTime{static_cast<std::int64_t>(part(static_cast<std::size_t>(duration.ps)))}, part(launches),
           {Phase::compress, kNoIndex, bucket}, label);
    Op& op = program_.ops.back();
    op.stream = stream;
    op.after = stream == 0 ? After::compute : after && i == 0 ? After::op : After::nothing;
    op.after_op = op.after == After::op ? *after : 0;
  }
  return last_op();
}

void ProgramBuilder::join(std::uint32_t op, std::uint32_t bucket) {
  program_.ops.push_back({.kind = OpKind::join,
                          .label = "wait for the hook of bucket " + std::to_string(bucket),
                          .purpose = {Phase::exchange, kNoIndex, bucket},
                          .after_op = op});
}

void ProgramBuilder::move(Bytes traffic, const Purpose& purpose, const std::string& label) {
  kernel(to_sim_time(memory_time(work_.costs, traffic)), 1, purpose, label);
}

void ProgramBuilder::mark(const std::string& label) { kernel({}, 0, {}, label); }

void ProgramBuilder::host_work(SimTime time, const Purpose& purpose, const std::string& label) {
  program_.ops.push_back({OpKind::kernel, 0, {}, time, label, purpose});
}

void ProgramBuilder::reduce_norms() {
  const auto reduce = [&](std::int64_t floats, const char* label) {
    wait(collective({CollectiveKind::all_reduce, Bytes(4 * floats)},
                    {.phase = Phase::update, .payload = Payload::statistics}, label, {}));
  };
  const auto [of_all, of_each_tensor] = norms_of(work_.training);
  if (of_all) {
    reduce(1, "all_reduce norm");
  }
  if (of_each_tensor > 0) {
    reduce(of_each_tensor * static_cast<std::int64_t>(parameter_tensors(work_.model)),
           "all_reduce norms of tensors");
  }
}

void ProgramBuilder::optimizer(std::int64_t parameters, Precision gradients) {
  if (const OptimizerStep clip = clipping_step(work_.training, parameters, gradients); clip.launches > 0) {
    kernel(to_sim_time(memory_time(work_.costs, clip.traffic)), clip.launches, {Phase::update}, "clip");
  }
  const OptimizerStep step =
      optimizer_step(work_.training, parameters, gradients, parameter_tensors(work_.model));
  const SimTime span = to_sim_time(memory_time(work_.costs, step.traffic)) + work_.rest_of_step;
  kernel(std::max(span, SimTime{}), step.launches, {Phase::update}, "optimizer");
  if (work_.delay.ps > 0) {
    kernel(work_.delay, 0, {Phase::update}, "delays");
  }
}

void ProgramBuilder::synchronize(std::uint32_t stream) {
  program_.ops.push_back({.kind = OpKind::synchronize, .label = "synchronize", .stream = stream});
}

void ProgramBuilder::rest_of_step() {
  if (const SimTime rest = work_.rest_of_step + work_.delay; rest > SimTime{}) {
    kernel(rest, 0, {Phase::update}, "rest of the step");
  }
}

void ProgramBuilder::send(std::uint32_t channel, std::uint32_t family, Bytes bytes, const Purpose& purpose,
                          const std::string& label, std::uint32_t source) {
  program_.ops.push_back({.kind = OpKind::send,
                          .index = channel,
                          .host_cost = to_sim_time(work_.training.host.kernel_launch),
                          .label = label,
                          .purpose = purpose,
                          .to = family,
                          .bytes = bytes,
                          .source = source});
}

void ProgramBuilder::gate(std::uint32_t channel, std::uint32_t quorum, const std::string& label) {
  program_.ops.push_back({.kind = OpKind::gate, .index = channel, .label = label, .quorum = quorum});
}

void ProgramBuilder::receive(std::uint32_t channel, std::uint32_t lag, const Purpose& purpose,
                             const std::string& label) {
  program_.ops.push_back(
      {.kind = OpKind::gate, .index = channel, .label = label, .purpose = purpose, .lag = lag});
}

std::uint32_t ProgramBuilder::collective(const CollectiveRequest& request, const Purpose& purpose,
                                         const std::string& label, const Issue& issue) {
  const auto index = static_cast<std::uint32_t>(program_.collectives.size());
  program_.collectives.push_back(plans_.number(request));
  program_.ops.push_back({.kind = OpKind::collective,
                          .index = index,
                          .host_cost = to_sim_time(work_.training.host.collective_launch),
                          .label = label,
                          .purpose = purpose,
                          .queue = issue.queue,
                          .after = issue.after,
                          .after_op = issue.after_op,
                          .prepare = issue.prepare,
                          .conclude = issue.conclude});
  return index;
}

void ProgramBuilder::wait(std::uint32_t collective) {
  program_.ops.push_back(
      {OpKind::wait, collective, {}, {}, "wait for collective " + std::to_string(collective)});
}

Program plain_program(const Workload& work) {
  CollectivePlanner nobody = lone_planner();
  PlanTable no_plans(nobody);
  ProgramBuilder b(work, no_plans);
  b.passes([](std::uint32_t) {});
  b.optimizer(parameter_count(work.model), work.training.gradients);
  return b.finish();
}

}  // namespace paceline
