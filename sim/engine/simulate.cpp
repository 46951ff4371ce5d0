#include "sim/engine/simulate.h"

#include <algorithm>

#include "core/error.h"
#include "sim/engine/variability.h"

namespace paceline {
namespace {

double seconds(SimTime t) { return to_seconds(t).value; }

// No collective takes longer on a healthy or a shared network: every slice alone, one after the other.
double longest_collective(const Communicator& communicator, const CollectivePlan& plan) {
  const CollectiveGraph& graph = communicator.graphs[plan.graph];
  double slowest = plan.copy_rate.value, latency = 0;
  for (const HopCost& hop : plan.hops) {
    slowest = std::min(slowest, hop.rate.value);
    latency = std::max(latency, seconds(hop.latency));
  }
  double moves = 0, blocks = 0;  // of the script with most
  for (const Script& script : graph.scripts) {
    double steps = 0, moved = 0;
    for (const Step& step : script.steps) {
      steps += static_cast<double>(step.times) * plan.slices;
      moved += static_cast<double>(step.times) * step.width;
    }
    moves = std::max(moves, steps);
    blocks = std::max(blocks, moved);
  }
  const double sharing = 1.0 + static_cast<double>(graph.shared.size() + communicator.background.size());
  double total = seconds(plan.startup);
  for (const Loops& loops : plan.loops) {
    const double work = static_cast<double>(loops.chunk.value) * blocks / slowest * sharing + moves * latency;
    total += static_cast<double>(loops.count) * work;
  }
  return total + static_cast<double>(communicator.ranks) * latency;
}

// No iteration takes longer, but for one draw in 10^20: everything one after the other, at its slowest.
double longest_iteration(const TrainingJob& job, const Program& program) {
  const double slow = largest_factor(job.variability) * static_cast<double>(job.slowdown.numerator) /
                      static_cast<double>(job.slowdown.denominator);
  double total = 0;
  for (const Op& op : program.ops) {
    total += seconds(op.duration) * slow + seconds(op.host_cost);
    if (op.kind == OpKind::collective && job.ranks() > 1) {
      total += longest_collective(job.communicator, job.plans[program.collectives[op.index]]);
    } else if (op.kind == OpKind::take_batch) {
      total += seconds(job.input->batch_time) * Sampler(job.input->jitter).largest();
    }
  }
  return total;
}

void require_clock_range(const TrainingJob& job, const RunSpec& run) {
  constexpr double kSecondsPerDay = 86400,
                   kLongestIteration = 576460;  // 2^59 ps, what RingSchedule can add up
  const double iteration = std::max(longest_iteration(job, job.warm_up), longest_iteration(job, job.steady));
  if (!(iteration < kLongestIteration)) {
    throw InputError("expected iterations shorter than 6 days, found one that could take " +
                         std::to_string(iteration / kSecondsPerDay) +
                         " days; check the slowest link and kernel",
                     "/training");
  }
  const double range = static_cast<double>(kNever.ps) / kPicosecondsPerSecond;
  if (!(iteration * (run.iterations + 1.0) < range)) {
    throw InputError("expected a run within the clock's range of 106 days, found one that could take " +
                         std::to_string(iteration * (run.iterations + 1.0) / kSecondsPerDay) +
                         " days at its slowest draws; run fewer iterations or narrow /variability",
                     "/run/iterations");
  }
}

// Two events per move; everything else is little beside them.
double events_of(const TrainingJob& job, const RunSpec& run) {
  double moves = 0;
  for (const std::uint32_t number : job.steady.collectives) {
    const CollectivePlan& plan = job.plans[number];
    const CollectiveGraph& graph = job.communicator.graphs[plan.graph];
    std::vector<double> of_script(graph.scripts.size());
    for (std::size_t s = 0; s < of_script.size(); ++s) {
      for (const Step& step : graph.scripts[s].steps) {
        of_script[s] += static_cast<double>(step.times) * plan.slices;
      }
    }
    double of_loop = 0;
    for (const Worker& worker : graph.workers) {
      of_loop += of_script[worker.script];
    }
    for (const Loops& loops : plan.loops) {
      moves += of_loop * static_cast<double>(loops.count);
    }
  }
  return 2 * moves * (run.iterations + 1.0);
}

void require_patience(const TrainingJob& job, const RunSpec& run) {
  constexpr double kMostEvents = 1e11;  // two or three hours
  if (const double events = events_of(job, run); events > kMostEvents) {
    throw InputError(
        "expected at most 1e11 events, found a job of " + std::to_string(events / 1e9) +
            "e9: the event engine would take days; use fewer GPUs, channels or iterations, or leave "
            "out what keeps the vector engine from being exact",
        "/run/engine");
  }
}

}  // namespace

std::optional<std::string> why_not_vector(const TrainingJob& job) {
  std::size_t shared = 0;
  for (const CollectiveGraph& graph : job.communicator.graphs) {
    shared += graph.shared.size();
  }
  if (shared > 0) {
    return "other traffic crosses " + std::to_string(shared) +
           " hops of the collectives, so their rates change as the run goes";
  }
  return std::nullopt;
}

Result simulate(const TrainingJob& job, const RunSpec& run, const TraceRequest& trace) {
  require_clock_range(job, run);
  const std::optional<std::string> obstacle = why_not_vector(job);
  if (run.engine == EngineChoice::vector && obstacle) {
    throw InputError(
        "the vector engine can't run this job exactly: " + *obstacle + "; use \"auto\" or \"event\"",
        "/run/engine");
  }
  const bool vector =
      run.engine == EngineChoice::vector || (run.engine == EngineChoice::automatic && !obstacle);
  if (!vector && job.ranks() > 1) {
    require_patience(job, run);
  }
  Result result = vector ? run_vector_engine(job, run, trace) : run_event_engine(job, run, trace);
  result.engine_reason = run.engine != EngineChoice::automatic ? "as asked"
                         : obstacle                            ? *obstacle
                                    : "no link is shared by competing flows, so it is exact";
  return result;
}

}  // namespace paceline
