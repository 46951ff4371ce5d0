#include "sim/strategy/build_job.h"

#include "core/error.h"
#include "sim/strategy/compression.h"
#include "sim/strategy/data_parallel.h"
#include "sim/strategy/ddp.h"
#include "sim/strategy/fsdp.h"
#include "sim/strategy/horovod.h"
#include "sim/strategy/local_sgd.h"
#include "sim/strategy/mirrored.h"
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
  const MixedWork& mixed;
  const CollectivePlanner& planner;
  PlanTable& plans;
  TrainingJob& job;

  void operator()(const DdpSpec& ddp) const {
    if (ddp.join) {
      add_join_programs(ddp, mixed, plans, job);
    } else {
      for_each_work([&](const Workload& work) { add_ddp_programs(ddp, {}, work, plans, job); });
    }
  }
  void operator()(const FsdpSpec& fsdp) const {
    for_each_work([&](const Workload& work) { add_fsdp_programs(fsdp, work, plans, job); });
  }
  void operator()(const ZeroSpec& zero) const {
    for_each_work([&](const Workload& work) {
      if (zero.stage == 1) {
        require_no_join(work.training);
        add_ddp_programs(work.training.ddp, {.zero = zero}, work, plans, job);
      } else {
        add_fsdp_programs(fsdp_of(zero, work.training.fsdp), work, plans, job);
      }
    });
  }
  void operator()(const ParameterServerSpec& servers) const {
    add_parameter_server_programs(servers, mixed, plans.layout(), job);
  }
  void operator()(const DataParallelSpec&) const {
    add_data_parallel_programs(mixed.works.front(), plans, job);
  }
  void operator()(const MirroredSpec& mirrored) const { add_mirrored_programs(mirrored, mixed, plans, job); }
  void operator()(const HorovodSpec& horovod) const {
    for_each_work([&](const Workload& work) { add_horovod_programs(horovod, work, planner, plans, job); });
  }
  void operator()(const LocalSgdSpec& local) const {
    for_each_work([&](const Workload& work) { add_local_sgd_programs(local, work, plans, job); });
  }

  // A role for each of the works.
  template <class AddMain>
  void for_each_work(const AddMain& add_main) const {
    std::vector<Role> roles;
    for (const Workload& work : mixed.works) {
      add_main(work);
      roles.push_back(job.roles.front());
    }
    job.roles = std::move(roles);
    for (std::size_t r = 0; r < mixed.of_rank.size(); ++r) {
      job.members.push_back({mixed.of_rank[r], {}});
    }
    job.families = plans.families();
  }
};

TrainingJob lone_job(const Workload& work) {
  TrainingJob job = without_programs(work, 1);
  job.main().steady = job.main().warm_up = plain_program(work);
  return job;
}

std::int64_t samples_of(const MixedWork& mixed, std::size_t ranks) {
  std::int64_t samples = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    const TrainingSpec& training = mixed.works[mixed.of(r)].training;
    samples += training.batch_per_gpu * training.accumulation;
  }
  return samples;
}

}  // namespace

TrainingJob build_job(const Strategy& strategy, const Workload& work, CollectivePlanner& planner) {
  return build_job(strategy, MixedWork{{work}}, planner);
}

TrainingJob build_job(const Strategy& strategy, const MixedWork& mixed, CollectivePlanner& planner) {
  const Workload& work = mixed.works.front();
  if (parameter_tensors(work.model) == 0) {
    throw InputError("expected a model with parameters, found none in " + work.model.name, "/model");
  }
  check_compression(work.training, work.model);
  const std::uint32_t ranks = planner.communicator().ranks;
  if (ranks == 1 && !std::holds_alternative<ParameterServerSpec>(strategy)) {
    if (std::holds_alternative<FsdpSpec>(strategy)) {
      static_cast<void>(units_of(std::get<FsdpSpec>(strategy).units, work.model));  // refused on one GPU, too
    }
    return lone_job(mixed.works[mixed.of(0)]);
  }
  const bool gloo = work.training.collective.library == CollectiveLibrary::gloo;
  const auto* const zero = std::get_if<ZeroSpec>(&strategy);
  if (gloo && zero != nullptr && zero->stage > 1) {
    throw InputError("expected DDP, FSDP or ZeRO's stage 1 with the library gloo, found ZeRO's stage " +
                         std::to_string(zero->stage) + ": how DeepSpeed runs it on hosts isn't modelled",
                     "/training/strategy");
  }
  if (work.training.collective.library == CollectiveLibrary::tensorflow &&
      !std::holds_alternative<MirroredSpec>(strategy)) {
    throw InputError(
        "expected the library nccl, mpi or gloo, found TensorFlow's ring, which is "
        "MultiWorkerMirroredStrategy's: the strategy mirrored with cross_device_ops multi_worker",
        "/training/collective/library");
  }
  if (gloo && std::holds_alternative<HorovodSpec>(strategy)) {
    throw InputError(
        "expected the library nccl or mpi, found gloo, of whose workers each reduces what it meets first",
        "/training/collective/library");
  }
  TrainingJob job = without_programs(work, ranks);
  job.samples_per_iteration = samples_of(mixed, ranks);
  PlanTable plans(planner);
  std::visit(AddPrograms{mixed, planner, plans, job}, strategy);
  job.plans = plans.plans();
  job.communicator = for_plans(planner.communicator(), job.plans);
  if (gloo && !std::holds_alternative<FsdpSpec>(strategy)) {  // whose collectives block the host
    constexpr std::uint32_t kThreads = 2;                     // of a process group: ProcessGroupGloo::Options
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
