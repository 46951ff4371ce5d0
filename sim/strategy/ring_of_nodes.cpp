#include "sim/strategy/ring_of_nodes.h"

#include <string>
#include <vector>

#include "core/error.h"

namespace paceline {
namespace {

// Where the family of the next node's first GPU stands: behind that of the GPUs of each node.
constexpr std::uint32_t kNextNode = 1;

class RingOfNodes {
 public:
  RingOfNodes(const Workload& work, PlanTable& plans)
      : work_(work), layout_(plans.layout()), b_(work, plans) {}

  Program program(bool first) {
    passes();
    std::vector<std::uint32_t> broadcasts;
    const auto broadcast = [&](std::uint32_t g) {
      b_.wait(gradients_[g].summed);  // what the ring does since then is communication, nobody's own time
      broadcasts.push_back(in_node(CollectiveKind::broadcast, g));
    };
    if (first) {
      round(broadcast);
    }
    for (std::uint32_t g = 0; !first && g < gradients_.size(); ++g) {
      broadcast(g);
    }
    for (const std::uint32_t each : broadcasts) {
      b_.wait(each);
    }
    b_.optimizer(work_.model, parameter_count(work_.model), work_.training.gradients);
    return b_.finish();
  }

 private:
  struct Gradient {
    Bytes bytes, chunk;
    std::uint32_t summed = 0;  // a collective
  };

  static Purpose purpose(std::uint32_t g) { return {.phase = Phase::exchange, .bucket = g}; }

  std::uint32_t in_node(CollectiveKind kind, std::uint32_t g) {
    return b_.collective({kind, gradients_[g].bytes, gpus_of_each_node(layout_)}, purpose(g),
                         std::string(name_of(kind)) + " gradient " + std::to_string(g));
  }

  // Gradients exist in the reverse order of the variables, those of a layer together.
  void passes() {
    const std::int64_t element = bytes_per_element(work_.training.gradients), nodes = layout_.nodes;
    for (int micro = 0; micro < work_.training.accumulation; ++micro) {
      b_.take_batch();
      const auto layers = static_cast<std::uint32_t>(work_.model.layers.size());
      for (std::uint32_t l = 0; l < layers; ++l) {
        b_.forward(work_.model, l, work_.layers[l]);
      }
      for (std::uint32_t l = layers; l-- > 0;) {
        b_.backward(work_.model, l, work_.layers[l]);
        if (micro > 0) {
          b_.accumulate(work_.model, l);
        }
        const std::vector<std::int64_t>& tensors = work_.model.layers[l].parameters;
        for (auto t = tensors.rbegin(); micro + 1 == work_.training.accumulation && t != tensors.rend();
             ++t) {
          gradients_.push_back({Bytes(*t * element), Bytes((*t + nodes - 1) / nodes * element)});
          const auto g = static_cast<std::uint32_t>(gradients_.size() - 1);
          gradients_[g].summed = in_node(CollectiveKind::all_reduce, g);
        }
      }
    }
  }

  // What was sent in step `step` of the ring has come, and is added in the first half of the steps.
  void receive(std::uint32_t step, std::uint32_t g) {
    b_.gate(channel(step, g), 1, "chunk of gradient " + std::to_string(g));
    if (step + 1 < layout_.nodes) {
      b_.copy(3 * gradients_[g].chunk, 1, g, "add " + std::to_string(g));
    }
  }

  // All gradients make a step, then the next; then: then(gradient).
  template <class F>
  void round(const F& then) {
    const auto count = static_cast<std::uint32_t>(gradients_.size());
    const std::uint32_t steps = 2 * (layout_.nodes - 1);
    for (std::uint32_t step = 0; step < steps; ++step) {
      for (std::uint32_t g = 0; g < count; ++g) {
        if (step == 0) {
          b_.wait(gradients_[g].summed);
        } else {
          receive(step - 1, g);
        }
        b_.send(channel(step, g), kNextNode, gradients_[g].chunk, purpose(g),
                "chunk of gradient " + std::to_string(g));
      }
    }
    for (std::uint32_t g = 0; g < count; ++g) {
      receive(steps - 1, g);
      b_.copy(2 * gradients_[g].bytes, 1, g, "join " + std::to_string(g));
      then(g);
    }
  }

  std::uint32_t channel(std::uint32_t step, std::uint32_t g) const {
    return step * static_cast<std::uint32_t>(gradients_.size()) + g;
  }

  const Workload& work_;
  RankLayout layout_;
  ProgramBuilder b_;
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
      const Program program = RingOfNodes(work, plans).program(first);
      job.roles.push_back({first ? "first of its node" : "other", {{program, program}}});
    }
  }
  job.families = plans.families();
  Family next;
  for (std::uint32_t r = 0; r < layout.ranks(); ++r) {
    const std::uint32_t node = r / layout.gpus_per_node;
    const bool first = r % layout.gpus_per_node == 0;
    job.members.push_back({2 * mixed.of(r) + (first ? 0U : 1U), {}});
    next.group_of.push_back(node);
    if (first) {
      next.groups.push_back({(node + 1) % layout.nodes * layout.gpus_per_node});
    }
  }
  job.families.push_back(std::move(next));
}

}  // namespace paceline
