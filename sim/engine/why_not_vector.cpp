#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "sim/engine/program_layout.h"
#include "sim/engine/simulate.h"

namespace paceline {
namespace {

// Where collectives slow kernels down: what keeps one from being run before the kernels that it may slow. Known of
// each is the last operation of the compute stream (or of the host, waiting for it) that it can't begin before.
std::optional<std::string> why_not_ahead(const Program& program) {
  std::vector<std::optional<std::size_t>> known(program.collectives.size());
  std::vector<const Op*> collectives;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.kind != OpKind::collective) {
      continue;
    }
    std::optional<std::size_t>& last = known[op.index];
    if (op.after == After::compute) {
      last = i;
    } else if (op.after == After::op) {
      const Op& before = program.ops[op.after_op];
      last = before.kind == OpKind::collective ? known[before.index] : op.after_op;
    }
    for (const Op* const queued : collectives) {
      if (queued->queue == op.queue && only_with(op, *queued)) {
        last = std::max(last, known[queued->index]);
      }
    }
    collectives.push_back(&op);
    for (std::size_t j = 0; j < i; ++j) {
      if (program.ops[j].kind == OpKind::synchronize && only_with(op, program.ops[j])) {
        last = std::max<std::optional<std::size_t>>(last, j);
      }
    }
    if (!last) {
      return "its collectives may slow down kernels of the iteration before";
    }
    for (std::size_t j = *last; j < i; ++j) {
      if (program.ops[j].kind == OpKind::take_batch) {
        return "its collectives may slow down kernels that were issued before the host took a batch";
      }
    }
  }
  return std::nullopt;
}

// Whether what ranks of different roles do differs in nothing but how long kernels take.
bool alike_but_for_durations(const TrainingJob& job) {
  const auto without_durations = [](Program program) {
    for (Op& op : program.ops) {
      op.duration = {};
    }
    return program;
  };
  const Program warm_up = without_durations(job.main().warm_up),
                steady = without_durations(job.main().steady);
  return std::ranges::all_of(job.roles.begin() + 1, job.roles.end(), [&](const Role& role) {
    return role.threads.size() == 1 && without_durations(role.threads.front().warm_up) == warm_up &&
           without_durations(role.threads.front().steady) == steady;
  });
}

// What keeps the ranks from being carried together from one operation to the next.
std::optional<std::string> why_not_in_step(const TrainingJob& job) {
  if (!job.serving.empty()) {
    return "its workers are each in an iteration of their own";
  }
  if (job.one_process) {
    return "its GPUs are one process's, and wait for each other's copies";
  }
  const auto runs_beside = [](const Program& program) {
    return std::ranges::any_of(program.ops, runs_beside_compute_stream);
  };
  if (runs_beside(job.main().warm_up) || runs_beside(job.main().steady)) {
    return "kernels of several streams take turns on a GPU as they become ready";
  }
  if (job.roles.front().threads.size() > 1 || job.member_count() > job.ranks() ||
      !alike_but_for_durations(job)) {
    return "its members play several roles";
  }
  const bool slowed = job.slowdown.slows();
  for (const Program* program : {&job.main().warm_up, &job.main().steady}) {
    for (const Op& op : program->ops) {
      if (op.kind == OpKind::send || op.kind == OpKind::gate) {
        return "its ranks wait for messages, which depend on the run";
      }
    }
    if (std::optional<std::string> why = slowed ? why_not_ahead(*program) : std::nullopt) {
      return why;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_not_vector(const TrainingJob& job) {
  if (job.negotiation) {
    return "what is reduced together is decided while the run goes";
  }
  if (std::optional<std::string> why = why_not_in_step(job)) {
    return why;
  }
  if (job.workers > 0) {
    return "its ranks run " + std::to_string(job.workers) +
           " collectives at once, and which depends on the run";
  }
  const Communicator& communicator = job.communicator;
  std::vector<bool> of_others(communicator.shared_capacity.size());
  for (const SharedFlow& flow : communicator.background) {
    for (const LinkId link : flow.links) {
      of_others[link.index()] = true;
    }
  }
  std::size_t with_others = 0, with_queues = 0;
  for (std::size_t g = 0; g < communicator.graphs.size(); ++g) {
    for (const SharedFifo& fifo : communicator.graphs[g].shared) {
      const bool others = std::ranges::any_of(fifo.links, [&](LinkId l) { return of_others[l.index()]; });
      ++(others ? with_others : with_queues);
    }
  }
  constexpr const char* kSo = ", so their rates change as the run goes";
  if (with_others > 0) {
    return "other traffic crosses " + std::to_string(with_others) + " hops of the collectives" + kSo;
  }
  if (with_queues > 0) {
    return "collectives of different queues share the links of " + std::to_string(with_queues) +
           " of their hops" + kSo;
  }
  return std::nullopt;
}

}  // namespace paceline
