#include "sim/strategy/local_sgd.h"

#include <string>
#include <utility>

#include "core/error.h"
#include "sim/strategy/ddp.h"

namespace paceline {
namespace {

// utils.py, average_parameters.
Program average(const LocalSgdSpec& spec, const Workload& work, PlanTable& plans) {
  const Bytes all(parameter_count(work.model) * bytes_per_element(work.training.parameters));
  ProgramBuilder b(work, plans);
  b.move(2 * all, {Phase::exchange}, "flatten parameters");
  b.move(2 * all, {Phase::exchange}, "divide parameters");
  b.synchronize();
  b.wait(b.collective({CollectiveKind::all_reduce, all},
                      {.phase = Phase::exchange, .payload = Payload::parameters}, "all_reduce parameters"));
  if (spec.copy_back) {
    b.copy(2 * all, parameter_tensors(work.model), kNoIndex, "copy parameters back");
  }
  return b.finish();
}

// In iterations that `every` divides.
Program with(Program program, Program last, int every) {
  const auto collectives = static_cast<std::uint32_t>(program.collectives.size());
  for (Op& op : last.ops) {
    op.every = static_cast<std::uint32_t>(every);
    op.index += op.kind == OpKind::collective || op.kind == OpKind::wait ? collectives : 0;
    program.ops.push_back(std::move(op));
  }
  program.collectives.insert(program.collectives.end(), last.collectives.begin(), last.collectives.end());
  return program;
}

void require_nodes(const TrainingSpec& training, const RankLayout& job) {
  if (job.nodes < 2) {
    throw InputError("expected several nodes to average over, found one: its GPUs would all be in one group",
                     "/training/local_sgd/group");
  }
  if (job.gpus_per_node < 2) {
    throw InputError("expected nodes of 2 or more GPUs to reduce in, found nodes of one",
                     "/training/local_sgd/group");
  }
  if (const Reduction reduction = training.ddp.reduction;
      reduction != Reduction::pytorch_ddp && reduction != Reduction::unknown) {
    throw InputError(
        "expected pytorch_ddp, whose hook reduces in each node, found " + std::string(name_of(reduction)),
        "/training/ddp/reduction");
  }
  if (training.ddp.wire && !same_format(*training.ddp.wire, training.gradients)) {
    throw InputError(
        "expected none with local SGD's group: DDP takes one hook, and that reduces in each node, found " +
            std::string(name_of(*training.ddp.wire)),
        "/training/ddp/wire");
  }
}

}  // namespace

void add_local_sgd_programs(const LocalSgdSpec& spec, const Workload& work, PlanTable& plans,
                            TrainingJob& job) {
  const DdpSpec& ddp = work.training.ddp;
  const bool grouped = spec.group == LocalGroup::node;
  require_no_join(work.training);
  if (grouped) {
    require_nodes(work.training, plans.layout());
  }
  const DdpUse before{.hook_divides = grouped};
  const DdpUse within{.hook_divides = grouped, .reduced_in = gpus_of_each_node(plans.layout())};
  const auto averaged = [&](Program program) {
    return with(std::move(program), average(spec, work, plans), spec.period);
  };
  job.main().warm_up = spec.warm_up > 0 ? ddp_warm_up(ddp, before, work, plans)
                       : grouped        ? averaged(ddp_warm_up(ddp, within, work, plans))
                                        : averaged(plain_program(work));
  job.main().steady = averaged(grouped ? ddp_steady(ddp, within, work, plans) : plain_program(work));
}

}  // namespace paceline
