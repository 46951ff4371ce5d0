// Writes a Program operation by operation, pricing each as it goes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/job.h"
#include "sim/strategy/sharding.h"
#include "sim/strategy/workload.h"

namespace paceline {

// The plans of a job, each different collective once, and the families that run them.
class PlanTable {
 public:
  explicit PlanTable(CollectivePlanner& planner) : planner_(planner) {}
  std::uint32_t number(const CollectiveRequest&);  // throws InputError as the planner does
  const std::vector<CollectivePlan>& plans() const { return plans_; }
  const std::vector<Family>& families() const { return families_; }
  const RankLayout& layout() const { return planner_.layout(); }

 private:
  std::uint32_t family(const GroupShape&);

  CollectivePlanner& planner_;
  std::vector<CollectiveRequest> requests_;
  std::vector<CollectivePlan> plans_;
  std::vector<GroupShape> shapes_;
  std::vector<Family> families_;
};

// Where a collective is issued, and what it comes after: as in Op.
struct Issue {
  std::uint32_t queue = 0;
  After after = After::compute;
  std::uint32_t after_op = 0;
  SimTime prepare{}, conclude{};
};

class ProgramBuilder {
 public:
  // The arguments outlive the builder. Throws InputError as recomputed_units does.
  ProgramBuilder(const Workload&, PlanTable&);

  void take_batch();  // nothing when the input is never the bottleneck
  void forward(std::uint32_t layer);
  // Before it, at a recomputed unit's last layer, the unit's forward once more.
  void backward(std::uint32_t layer);
  void recompute(std::uint32_t layer);  // that forward alone, and
  void backward_kernels(std::uint32_t layer);
  // AccumulateGrad into existing gradients: reads both, writes one. Nothing for a layer without parameters.
  void accumulate(std::uint32_t layer);
  // Kernels, one a tensor, that move so many bytes of each of the layer's gradients.
  void gradients(std::uint32_t layer, std::int64_t bytes_of_element, const char* label);
  // Forward and backward of all micro-batches; in the last one's backward pass, after each layer: there(layer).
  template <class F>
  void passes(const F& there);
  // Kernels of a bucket that read and write `traffic` together: one for each tensor where they are copied one
  // by one. Returns the operation.
  std::uint32_t copy(Bytes traffic, std::size_t launches, std::uint32_t bucket, const std::string& label);
  // Kernels of a bucket's hook, on a stream beside the compute stream, once `after` has ended, or behind what
  // stands there. Many launches are spread over several operations. On stream 0: of the compute stream. Returns
  // the last operation.
  std::uint32_t kernels(SimTime duration, std::size_t launches, std::uint32_t bucket,
                        const std::string& label, std::uint32_t stream, std::optional<std::uint32_t> after);
  // The compute stream waits for a kernel beside it.
  void join(std::uint32_t op, std::uint32_t bucket);
  // One kernel that does nothing but read and write `traffic`.
  void move(Bytes traffic, const Purpose&, const std::string& label);
  // What takes the GPU no time, and is issued when the host has come to it.
  void mark(const std::string& label);
  // What takes the host alone time.
  void host_work(SimTime, const Purpose&, const std::string& label);
  // Of what each rank has a part of: the norms that clipping and the optimizer ask for.
  void reduce_norms();
  // On so many of the model's parameters, whose gradients have this precision.
  void optimizer(std::int64_t parameters, Precision gradients);
  void synchronize(std::uint32_t stream = 0);
  // What equal passes leave of a measured step, and what steps lose, where no optimizer's kernel takes it.
  void rest_of_step();
  // A message on a channel to the members of its group of a family; out of another member's memory where `source` says
  // whose.
  void send(std::uint32_t channel, std::uint32_t family, Bytes, const Purpose&, const std::string& label,
            std::uint32_t source = kNoIndex);
  // Until each of so many members has sent one for this iteration.
  void gate(std::uint32_t channel, std::uint32_t quorum, const std::string& label);
  // Until there is one for the iteration `lag` before.
  void receive(std::uint32_t channel, std::uint32_t lag, const Purpose&, const std::string& label);

  // Returns its number in the iteration.
  std::uint32_t collective(const CollectiveRequest&, const Purpose&, const std::string& label,
                           const Issue& = {});
  void wait(std::uint32_t collective);

  const Program& program() const { return program_; }
  std::uint32_t last_op() const { return static_cast<std::uint32_t>(program_.ops.size() - 1); }
  Program finish() { return std::move(program_); }

 private:
  void kernel(SimTime duration, std::size_t launches, const Purpose&, std::string label);
  void forward_kernels(std::uint32_t layer, Phase, const char* word);

  const Workload& work_;
  PlanTable& plans_;
  std::vector<FsdpUnit> recomputed_;
  Program program_;
};

template <class F>
void ProgramBuilder::passes(const F& there) {
  const auto layers = static_cast<std::uint32_t>(work_.model.layers.size());
  for (int micro = 0; micro < work_.training.accumulation; ++micro) {
    take_batch();
    for (std::uint32_t l = 0; l < layers; ++l) {
      forward(l);
    }
    for (std::uint32_t l = layers; l-- > 0;) {
      backward(l);
      if (micro > 0) {
        accumulate(l);
      }
      if (micro + 1 == work_.training.accumulation) {
        there(l);
      }
    }
  }
}

// One GPU without DDP: passes, then the optimizer.
Program plain_program(const Workload&);

}  // namespace paceline
