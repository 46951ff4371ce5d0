#include "sim/strategy/ring_of_nodes.h"

#include <string>
#include <vector>

#include "core/error.h"

namespace paceline {
namespace {

// Where the families of the next node's first GPU and of each by itself stand: behind that of the GPUs of each node.
constexpr std::uint32_t kNextNode = 1, kItself = 2;

// Channels: of each step of the ring those of all gradients, then of what a node has summed, then of what all have.
class RingOfNodes {
 public:
  RingOfNodes(const Workload& work, PlanTable& plans) : work_(work), plans_(plans), layout_(plans.layout()) {}

  // What a node's first GPU does has a thread for each gradient's ring beside it.
  std::vector<Thread> threads(bool first) {
    std::vector<Thread> made{every_iteration(main(first))};
    for (std::uint32_t g = 0; first && g < gradients_.size(); ++g) {
      made.push_back(every_iteration(ring(g)));
    }
    return made;
  }

 private:
  struct Gradient {
    Bytes bytes, chunk;
    std::uint32_t summed = 0;  // a collective
  };

  static Thread every_iteration(const Program& program) { return {program, program}; }
  static Purpose purpose(std::uint32_t g) { return {.phase = Phase::exchange, .bucket = g}; }
  static std::string chunk_of(std::uint32_t g) { return "chunk of gradient " + std::to_string(g); }

  Program main(bool first) {
    ProgramBuilder b(work_, plans_);
    gradients_.clear();
    b.passes([&](std::uint32_t layer) { add_gradients(b, work_.model.layers[layer]); });
    const auto count = static_cast<std::uint32_t>(gradients_.size());
    for (std::uint32_t g = 0; g < count; ++g) {
      b.wait(gradients_[g].summed);  // what the ring does since then is communication, nobody's own time
      if (first) {
        b.send(channel(steps(), g), kItself, {}, purpose(g), "gradient " + std::to_string(g));
      }
    }
    std::vector<std::uint32_t> broadcasts;
    for (std::uint32_t g = 0; g < count; ++g) {
      if (first) {
        b.gate(channel(steps() + 1, g), 1, "ring of gradient " + std::to_string(g));
      }
      broadcasts.push_back(in_node(b, CollectiveKind::broadcast, g));
    }
    for (const std::uint32_t each : broadcasts) {
      b.wait(each);
    }
    b.optimizer(parameter_count(work_.model), work_.training.gradients);
    return b.finish();
  }

  // A chunk goes on when it has come and is added, in the first half of the steps, whatever other gradients do.
  Program ring(std::uint32_t g) {
    ProgramBuilder b(work_, plans_);
    const auto& [bytes, chunk, summed] = gradients_[g];
    b.gate(channel(steps(), g), 1, "gradient " + std::to_string(g));
    for (std::uint32_t step = 0; step < steps(); ++step) {
      b.send(channel(step, g), kNextNode, chunk, purpose(g), chunk_of(g));
      b.gate(channel(step, g), 1, chunk_of(g));
      if (step + 1 < layout_.nodes) {
        b.copy(3 * chunk, 1, g, "add " + std::to_string(g));
      }
    }
    b.copy(2 * bytes, 1, g, "join " + std::to_string(g));
    b.send(channel(steps() + 1, g), kItself, {}, purpose(g), "sum " + std::to_string(g));
    return b.finish();
  }

  std::uint32_t in_node(ProgramBuilder& b, CollectiveKind kind, std::uint32_t g) const {
    return b.collective({kind, gradients_[g].bytes, gpus_of_each_node(layout_)}, purpose(g),
                        std::string(name_of(kind)) + " gradient " + std::to_string(g));
  }

  // Gradients exist in the reverse order of the variables, those of a layer together.
  void add_gradients(ProgramBuilder& b, const Layer& layer) {
    const std::int64_t element = bytes_per_element(work_.training.gradients), nodes = layout_.nodes;
    for (auto t = layer.parameters.rbegin(); t != layer.parameters.rend(); ++t) {
      gradients_.push_back({Bytes(*t * element), Bytes((*t + nodes - 1) / nodes * element)});
      const auto g = static_cast<std::uint32_t>(gradients_.size() - 1);
      gradients_[g].summed = in_node(b, CollectiveKind::all_reduce, g);
    }
  }

  std::uint32_t steps() const { return 2 * (layout_.nodes - 1); }
  std::uint32_t channel(std::uint32_t step, std::uint32_t g) const {
    return step * static_cast<std::uint32_t>(gradients_.size()) + g;
  }

  const Workload& work_;
  PlanTable& plans_;
  RankLayout layout_;
  std::vector<Gradient> gradients_;
};

// Each node sends every gradient's chunks, so their number grows with the square of the nodes.
void require_few_messages(const Model& model, std::uint32_t nodes) {
  constexpr double kMost = 2e7;  // minutes a step, and 12 GB
  const double messages = 2.0 * nodes * (nodes - 1.0) * static_cast<double>(parameter_tensors(model));
  if (messages > kMost) {
    throw InputError(
        "expected fewer nodes or gradients with nccl_then_ring, at most 20 million chunks a step, found " +
            std::to_string(static_cast<std::int64_t>(messages / 1e6)) + " million",
        "/training/mirrored/cross_device_ops");
  }
}

}  // namespace

void add_ring_of_nodes(const MixedWork& mixed, PlanTable& plans, TrainingJob& job) {
  const RankLayout layout = plans.layout();
  require_few_messages(mixed.works.front().model, layout.nodes);
  for (const Workload& work : mixed.works) {
    for (const bool first : {true, false}) {
      job.roles.push_back({first ? "first of its node" : "other", RingOfNodes(work, plans).threads(first)});
    }
  }
  job.families = plans.families();
  Family next, itself;
  for (std::uint32_t r = 0; r < layout.ranks(); ++r) {
    const std::uint32_t node = r / layout.gpus_per_node;
    const bool first = r % layout.gpus_per_node == 0;
    job.members.push_back({2 * mixed.of(r) + (first ? 0U : 1U), {}});
    next.group_of.push_back(node);
    itself.group_of.push_back(r);
    itself.groups.push_back({r});
    if (first) {
      next.groups.push_back({(node + 1) % layout.nodes * layout.gpus_per_node});
    }
  }
  job.families.push_back(std::move(next));
  job.families.push_back(std::move(itself));
}

}  // namespace paceline
