#include "sim/engine/simulate.h"

#include <algorithm>

#include "core/error.h"
#include "sim/engine/variability.h"

namespace paceline {
namespace {

double seconds(SimTime t) { return to_seconds(t).value; }

// No iteration takes longer, but for one draw in 10^20: everything one after the other, at its slowest.
double longest_iteration(const TrainingJob& job, const Program& program) {
  const Communicator& wires = job.communicator;
  SimTime slowest_latency;
  BytesPerSecond slowest = wires.classes.front().rate;
  for (const HopClass& hop : wires.classes) {
    slowest_latency = std::max(slowest_latency, hop.latency);
    slowest = std::min(slowest, hop.rate);
  }
  const double sharing = 1.0 + static_cast<double>(wires.shared_hops.size() + wires.background.size());
  const double slow = largest_factor(job.variability) * static_cast<double>(job.slowdown.numerator) /
                      static_cast<double>(job.slowdown.denominator);
  double total = 0;
  for (const Op& op : program.ops) {
    total += seconds(op.duration) * slow + seconds(op.host_cost);
    if (op.kind == OpKind::collective && job.ranks() > 1) {
      const CollectivePlan& plan = job.plans[program.collectives[op.index]];
      const double steps = static_cast<double>(plan.chunks) + static_cast<double>(job.ranks());
      total += steps * ((plan.chunk / slowest).value * sharing + seconds(slowest_latency));
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

// Two events per transfer; everything else is little beside them.
double events_of(const TrainingJob& job, const RunSpec& run) {
  double transfers = 0;
  for (const std::uint32_t plan : job.steady.collectives) {
    transfers += static_cast<double>(job.plans[plan].chunks) * static_cast<double>(job.ranks()) *
                 static_cast<double>(job.communicator.channels.size());
  }
  return 2 * transfers * (run.iterations + 1.0);
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
  if (!job.communicator.shared_hops.empty()) {
    return "background traffic crosses " + std::to_string(job.communicator.shared_hops.size()) +
           " hops of the collectives' rings, so their rates change as the run goes";
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
  if (!vector) {
    require_patience(job, run);
  }
  Result result = vector ? run_vector_engine(job, run, trace) : run_event_engine(job, run, trace);
  result.engine_reason = run.engine != EngineChoice::automatic ? "as asked"
                         : obstacle                            ? *obstacle
                                    : "no link is shared by competing flows, so it is exact";
  return result;
}

}  // namespace paceline
