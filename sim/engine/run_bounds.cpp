#include "sim/engine/run_bounds.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "sim/collective/collective_times.h"
#include "sim/engine/simulate.h"
#include "sim/engine/variability.h"

namespace paceline {
namespace {

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

// A message to each of the members, all at once over the slowest way.
Seconds longest_messages(const TrainingJob& job, Bytes bytes) {
  Seconds latency;
  BytesPerSecond rate(std::numeric_limits<double>::infinity());
  for (const MessageRoute& route : job.routes) {
    latency = std::max(latency, to_seconds(route.latency));
    rate = std::min(rate, route.rate);
  }
  return latency + bytes / rate * static_cast<double>(job.member_count());
}

Seconds longest_program(const TrainingJob& job, const Program& program) {
  const double slow = largest_factor(job.variability) * static_cast<double>(job.slowdown.numerator) /
                      static_cast<double>(job.slowdown.denominator);
  Seconds total;
  for (const Op& op : program.ops) {
    total = total + (to_seconds(op.duration) * slow + to_seconds(op.prepare + op.conclude) +
                     to_seconds(op.host_cost));
    if (op.kind == OpKind::collective && job.ranks() > 1) {
      total = total + longest_collective(job.communicator, job.plans[program.collectives[op.index]]);
    } else if (op.kind == OpKind::take_batch) {
      total = total + to_seconds(job.input->batch_time) * Sampler(job.input->jitter).largest();
    } else if (op.kind == OpKind::send) {
      total = total + longest_messages(job, op.bytes);
    }
  }
  return total;
}

// No iteration takes longer, but for one draw in 10^20: everything one after the other, at its slowest.
Seconds longest_iteration(const TrainingJob& job) {
  Seconds total;
  for (const Role& role : job.roles) {
    for (const Thread& thread : role.threads) {
      total = total + std::max(longest_program(job, thread.warm_up), longest_program(job, thread.steady));
    }
  }
  for (const Shard& shard : job.serving.shards) {
    total = total + (to_seconds(shard.take) * job.serving.workers + to_seconds(shard.update) +
                     longest_messages(job, shard.answer));
  }
  return total;
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

}  // namespace

// A path through the moves stays at a thread block or goes on to the next: no longer than one thread block's
// moves and all ranks together.
Seconds longest_collective(const Communicator& communicator, const CollectivePlan& plan) {
  const CollectiveGraph& graph = communicator.graphs[plan.graph];
  const double sharing = most_on_a_link(communicator);
  double slowest = plan.copy_rate.value;
  Seconds least, latency;
  for (const HopCost& hop : plan.hops) {
    slowest =
        std::min({slowest, hop.rate.value, hop.channel_rate.value > 0 ? hop.channel_rate.value : slowest});
    least = std::max(least, to_seconds(hop.least + hop.channel + hop.overhead));
    latency = std::max(latency, to_seconds(hop.latency));
  }
  const LoopBound bound = bound_of_loop(graph);
  Seconds total = to_seconds(plan.startup), longest_move;
  for (const Loops& loops : plan.loops) {
    const std::uint32_t slices = slices_of(loops);
    const Bytes largest = slices == 1 ? loops.chunk : loops.slice;
    const double slice = static_cast<double>(largest.value) * bound.width + 1;
    const Seconds move = Seconds(slice / slowest) * sharing + least + latency;
    total = total + static_cast<double>(loops.count) * bound.chunks * slices * move;
    longest_move = std::max(longest_move, move);
  }
  return total + static_cast<double>(communicator.ranks) * longest_move;
}

void require_clock_range(const TrainingJob& job, const RunSpec& run) {
  constexpr double kSecondsPerDay = 86400;
  const Seconds iteration = longest_iteration(job);
  if (!(iteration < kLongestIteration)) {
    throw InputError("expected iterations shorter than 6 days, found one that could take " +
                         std::to_string(iteration.value / kSecondsPerDay) +
                         " days; check the slowest link and kernel",
                     "/training");
  }
  const Seconds all = iteration * (run.iterations + 1.0);
  if (!(all < to_seconds(kLongestRun))) {
    throw InputError("expected a run within " + std::to_string(kLongestRunDays) +
                         " days, half of the clock's range, found one that could take " +
                         std::to_string(all.value / kSecondsPerDay) +
                         " days at its slowest draws; run fewer iterations or narrow /variability",
                     "/run/iterations");
  }
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

}  // namespace paceline
