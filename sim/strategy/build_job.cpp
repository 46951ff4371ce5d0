#include "sim/strategy/build_job.h"

#include "core/error.h"
#include "sim/strategy/ddp.h"
#include "sim/strategy/fsdp.h"
#include "sim/strategy/parameter_server.h"
#include "sim/strategy/program_builder.h"
#include "sim/strategy/sharding.h"
#include "sim/strategy/workers.h"

namespace paceline {
namespace {

TrainingJob without_programs(const Workload& work, std::size_t ranks) {
  const TrainingSpec& training = work.training;
  TrainingJob job;
  job.variability = work.variability;
  job.slowdown = training.slowdown_while_communicating;
  job.host_runs_ahead = training.host.runs_ahead;
  job.samples_per_iteration =
      static_cast<std::int64_t>(ranks) * training.batch_per_gpu * training.accumulation;
  if (training.input) {
    const Seconds batch(static_cast<double>(training.batch_per_gpu) / training.input->rate.value);
    job.input = InputPipeline{to_sim_time(batch), training.input->prefetch, training.input->jitter};
  }
  return job;
}

// Adds programs and plans.
struct AddPrograms {
  const Workload& work;
  PlanTable& plans;
  TrainingJob& job;

  void operator()(const DdpSpec& ddp) const { add_ddp_programs(ddp, false, work, plans, job); }
  void operator()(const FsdpSpec& fsdp) const { add_fsdp_programs(fsdp, work, plans, job); }
  void operator()(const ZeroSpec& zero) const {
    if (zero.stage == 1) {
      add_ddp_programs(work.training.ddp, true, work, plans, job);
    } else {
      add_fsdp_programs(fsdp_of(zero, work.training.fsdp), work, plans, job);
    }
  }
  void operator()(const ParameterServerSpec& servers) const {
    add_parameter_server_programs(servers, work, plans.layout(), job);
  }
};

TrainingJob lone_job(const Workload& work) {
  TrainingJob job = without_programs(work, 1);
  job.main().steady = job.main().warm_up = plain_program(work);
  return job;
}

}  // namespace

TrainingJob build_job(const Strategy& strategy, const Workload& work, CollectivePlanner& planner) {
  if (parameter_tensors(work.model) == 0) {
    throw InputError("expected a model with parameters, found none in " + work.model.name, "/model");
  }
  const std::uint32_t ranks = planner.communicator().ranks;
  const bool serves = std::holds_alternative<ParameterServerSpec>(strategy);
  if (ranks == 1 && !serves) {
    if (std::holds_alternative<FsdpSpec>(strategy)) {
      static_cast<void>(units_of(std::get<FsdpSpec>(strategy).units, work.model));  // refused on one GPU, too
    }
    return lone_job(work);
  }
  const bool gloo = work.training.collective.library == CollectiveLibrary::gloo;
  if (gloo && fully_shards(work.training)) {
    throw InputError(
        "expected DDP with the library gloo, found a sharded strategy: how PyTorch runs it on hosts isn't "
        "modelled "
        "(a real step took 1.6 times as long)",
        "/training/strategy");
  }
  TrainingJob job = without_programs(work, ranks);
  PlanTable plans(planner);
  std::visit(AddPrograms{work, plans, job}, strategy);
  job.plans = plans.plans();
  if (!serves) {
    job.families = plans.families();
  }
  job.communicator = for_plans(planner.communicator(), job.plans);
  if (gloo) {
    constexpr std::uint32_t kThreads = 2;  // of a process group: ProcessGroupGloo::Options
    run_side_by_side(job, kThreads);
  }
  return job;
}

TrainingJob build_reference_job(const Workload& work) {
  Workload alone = work;
  alone.variability = {};
  alone.variability.per_operation = work.variability.per_operation;
  alone.variability.per_iteration = work.variability.per_iteration;
  alone.variability.per_step = work.variability.per_step;
  return lone_job(alone);
}

}  // namespace paceline
