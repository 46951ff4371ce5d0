#include "sim/engine/simulate.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "sim/collective/collective_times.h"
#include "sim/engine/program_layout.h"
#include "sim/engine/require_runnable.h"
#include "sim/engine/variability.h"

namespace paceline {
namespace {

double seconds(SimTime t) { return to_seconds(t).value; }

// The chunks that a thread block moves in a loop, of the script with most, and its widest step.
struct LoopBound {
  double chunks = 0, width = 1;
};
LoopBound bound_of_loop(const CollectiveGraph& graph) {
  LoopBound bound;
  for (const Script& script : graph.scripts) {
    double chunks = 0;
    for (const Step& step : script.steps) {
      chunks += static_cast<double>(step.times);
      bound.width = std::max<double>(bound.width, step.width);
    }
    bound.chunks = std::max(bound.chunks, chunks);
  }
  return bound;
}

// A message to each of the members, all at once over the slowest way.
double longest_messages(const TrainingJob& job, Bytes bytes) {
  double latency = 0, rate = std::numeric_limits<double>::infinity();
  for (const MessageRoute& route : job.routes) {
    latency = std::max(latency, seconds(route.latency));
    rate = std::min(rate, route.rate.value);
  }
  return latency + static_cast<double>(bytes.value) / rate * static_cast<double>(job.member_count());
}

double longest_program(const TrainingJob& job, const Program& program) {
  const double slow = largest_factor(job.variability) * static_cast<double>(job.slowdown.numerator) /
                      static_cast<double>(job.slowdown.denominator);
  double total = 0;
  for (const Op& op : program.ops) {
    total += seconds(op.duration) * slow + seconds(op.prepare + op.conclude) + seconds(op.host_cost);
    if (op.kind == OpKind::collective && job.ranks() > 1) {
      total += longest_collective(job.communicator, job.plans[program.collectives[op.index]]);
    } else if (op.kind == OpKind::take_batch) {
      total += seconds(job.input->batch_time) * Sampler(job.input->jitter).largest();
    } else if (op.kind == OpKind::send) {
      total += longest_messages(job, op.bytes);
    }
  }
  return total;
}

// No iteration takes longer, but for one draw in 10^20: everything one after the other, at its slowest.
double longest_iteration(const TrainingJob& job) {
  double total = 0;
  for (const Role& role : job.roles) {
    for (const Thread& thread : role.threads) {
      total += std::max(longest_program(job, thread.warm_up), longest_program(job, thread.steady));
    }
  }
  for (const Shard& shard : job.serving.shards) {
    total += seconds(shard.take) * job.serving.workers + seconds(shard.update) +
             longest_messages(job, shard.answer);
  }
  return total;
}

void require_clock_range(const TrainingJob& job, const RunSpec& run) {
  constexpr double kSecondsPerDay = 86400;
  const double iteration = longest_iteration(job);
  if (!(iteration < kLongestIteration)) {
    throw InputError("expected iterations shorter than 6 days, found one that could take " +
                         std::to_string(iteration / kSecondsPerDay) +
                         " days; check the slowest link and kernel",
                     "/training");
  }
  if (!(iteration * (run.iterations + 1.0) < seconds(kLongestRun))) {
    throw InputError("expected a run within " + std::to_string(kLongestRunDays) +
                         " days, half of the clock's range, found one that could take " +
                         std::to_string(iteration * (run.iterations + 1.0) / kSecondsPerDay) +
                         " days at its slowest draws; run fewer iterations or narrow /variability",
                     "/run/iterations");
  }
}

// Two events per move; everything else is little beside them.
double events_of(const TrainingJob& job, const RunSpec& run, bool vector) {
  double moves = 0;
  for (const Op& op : job.main().steady.ops) {
    if (op.kind != OpKind::collective) {
      continue;
    }
    const CollectivePlan& plan = job.plans[job.main().steady.collectives[op.index]];
    if (vector && is_free_ring(plan)) {
      continue;
    }
    const CollectiveGraph& graph = job.communicator.graphs[plan.graph];
    std::vector<double> of_script(graph.scripts.size());
    for (std::size_t s = 0; s < of_script.size(); ++s) {
      for (const Step& step : graph.scripts[s].steps) {
        of_script[s] += static_cast<double>(step.times);
      }
    }
    double of_loop = 0;
    for (const ThreadBlock& thread_block : graph.thread_blocks) {
      of_loop += of_script[thread_block.script];
    }
    for (const Loops& loops : plan.loops) {
      moves += of_loop * static_cast<double>(loops.count) * slices_of(loops) / op.every;
    }
  }
  return 2 * moves * (run.iterations + 1.0);
}

void require_patience(const TrainingJob& job, const RunSpec& run, bool vector) {
  constexpr double kMostEvents = 1e11;  // an hour or more
  if (const double events = events_of(job, run, vector); events > kMostEvents) {
    throw InputError(
        "expected at most 1e11 events, found a job of " + std::to_string(events / 1e9) +
            "e9, which would take hours or days; use fewer GPUs, channels or iterations, another "
            "algorithm, or rings with limited_fifos false",
        "/run/iterations");
  }
}

// The most flows that one shared link may have at once: no flow's rate is a smaller part of its cap.
double most_on_a_link(const Communicator& communicator) {
  std::vector<std::uint32_t> flows(communicator.shared_capacity.size());
  const auto count = [&](const std::vector<LinkId>& links) {
    for (const LinkId link : links) {
      ++flows[link.index()];
    }
  };
  for (std::size_t g = 0; g < communicator.graphs.size(); ++g) {
    for (const SharedFifo& fifo : communicator.graphs[g].shared) {
      count(fifo.links);
    }
  }
  for (const SharedFlow& flow : communicator.background) {
    count(flow.links);
  }
  return flows.empty() ? 1 : std::max(1.0, static_cast<double>(*std::ranges::max_element(flows)));
}

}  // namespace

// A path through the moves stays at a thread block or goes on to the next: no longer than one thread block's
// moves and all ranks together.
double longest_collective(const Communicator& communicator, const CollectivePlan& plan) {
  const CollectiveGraph& graph = communicator.graphs[plan.graph];
  const double sharing = most_on_a_link(communicator);
  double slowest = plan.copy_rate.value, least = 0, latency = 0;
  for (const HopCost& hop : plan.hops) {
    slowest =
        std::min({slowest, hop.rate.value, hop.channel_rate.value > 0 ? hop.channel_rate.value : slowest});
    least = std::max(least, seconds(hop.least + hop.channel + hop.overhead));
    latency = std::max(latency, seconds(hop.latency));
  }
  const LoopBound bound = bound_of_loop(graph);
  double total = seconds(plan.startup), longest_move = 0;
  for (const Loops& loops : plan.loops) {
    const std::uint32_t slices = slices_of(loops);
    const Bytes largest = slices == 1 ? loops.chunk : loops.slice;
    const double slice = static_cast<double>(largest.value) * bound.width + 1;
    const double move = slice / slowest * sharing + least + latency;
    total += static_cast<double>(loops.count) * bound.chunks * slices * move;
    longest_move = std::max(longest_move, move);
  }
  return total + static_cast<double>(communicator.ranks) * longest_move;
}

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
  const bool slowed = job.slowdown.numerator != job.slowdown.denominator;
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

Result simulate(const TrainingJob& job, const RunSpec& run, const TraceRequest& trace,
                const StepProgress& progress) {
  require_runnable(job);
  require_clock_range(job, run);
  const std::optional<std::string> obstacle = why_not_vector(job);
  if (run.engine == EngineChoice::vector && obstacle) {
    throw InputError(
        "the vector engine can't run this job exactly: " + *obstacle + "; use \"auto\" or \"event\"",
        "/run/engine");
  }
  const bool vector =
      run.engine == EngineChoice::vector || (run.engine == EngineChoice::automatic && !obstacle);
  if (job.ranks() > 1 && (!vector || job.roles.size() > 1 || ranks_differ(job.variability))) {
    require_patience(job, run, vector);
  }
  Result result =
      vector ? run_vector_engine(job, run, trace, progress) : run_event_engine(job, run, trace, progress);
  result.engine_reason = run.engine != EngineChoice::automatic ? "as asked"
                         : obstacle ? *obstacle
                                    : "no link is shared by competing flows, so it is exact";
  return result;
}

}  // namespace paceline
