// Writes a Program operation by operation, pricing each as it goes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/job.h"
#include "sim/strategy/workload.h"

namespace paceline {

// The plans of a job, each different collective once.
class PlanTable {
 public:
  explicit PlanTable(CollectivePlanner& planner) : planner_(planner) {}
  std::uint32_t number(CollectiveKind, Bytes);
  const std::vector<CollectivePlan>& plans() const { return plans_; }

 private:
  CollectivePlanner& planner_;
  std::vector<CollectivePlan> plans_;
};

class ProgramBuilder {
 public:
  // The arguments outlive the builder.
  ProgramBuilder(const TrainingSpec& training, const GpuCosts& costs, PlanTable& plans)
      : training_(training), costs_(costs), plans_(plans) {}

  void take_batch();  // nothing when the input is never the bottleneck
  void forward(const Model&, const std::vector<LayerSpan>&);
  void backward(const Model&, std::uint32_t layer, const LayerSpan&);
  // AccumulateGrad into existing gradients: reads both, writes one.
  void accumulate(std::uint32_t layer, Bytes gradients, std::size_t tensors);
  // One kernel per tensor that reads and writes its bytes once: into a bucket with the division by the number
  // of ranks (gradient_as_bucket_view: the division in place), or back out.
  void copy(Bytes gradients, std::size_t tensors, std::uint32_t bucket, const std::string& label);
  void optimizer(std::int64_t parameters);
  void synchronize();

  // Returns its number in the iteration.
  std::uint32_t collective(CollectiveKind, Bytes, const Purpose&, const std::string& label);
  void wait(std::uint32_t collective);

  const Program& program() const { return program_; }
  Program finish() { return std::move(program_); }

 private:
  void kernel(SimTime duration, std::size_t launches, const Purpose&, std::string label);

  const TrainingSpec& training_;
  const GpuCosts& costs_;
  PlanTable& plans_;
  Program program_;
};

// One GPU without DDP: input, forward and backward for each micro-batch, optimizer.
Program plain_program(const Workload&);

}  // namespace paceline
