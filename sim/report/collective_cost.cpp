#include "sim/report/collective_cost.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "sim/collective/collective_times.h"
#include "sim/engine/run_bounds.h"

namespace paceline {
namespace {

// The time between two of many that follow each other: ranks that have done their part go on.
SimTime period_of(CollectiveTimes& times, const Communicator& communicator, std::uint32_t plan,
                  SimTime& now) {
  constexpr int kWarmUp = 2, kCounted = 4;
  std::vector<SimTime> launch(communicator.ranks, now), end(communicator.ranks);
  SimTime warm;
  for (int i = 0; i < kWarmUp + kCounted; ++i) {
    times.end(plan, launch, *std::ranges::min_element(launch), end);
    launch = end;
    warm = i + 1 == kWarmUp ? *std::ranges::max_element(end) : warm;
  }
  now = *std::ranges::max_element(end);
  return {(now - warm).ps / kCounted};
}

// What one of many takes whose launches and whose work take so long.
SimTime in_a_row(const CollectivePlan& plan, SimTime alone) {
  return std::max(plan.launch_period, alone + plan.launch_exposed);
}

CollectivePlan without_latency(CollectivePlan plan) {
  for (HopCost& hop : plan.hops) {
    hop.latency = hop.hidden = {};
  }
  return plan;
}

// Occupancy of the thread block that moves most.
SimTime busiest(const CollectiveGraph& graph, const CollectivePlan& plan) {
  const StepTimes times(graph, plan);
  SimTime most;
  for (const ThreadBlock& thread_block : graph.thread_blocks) {
    most = std::max(most, times.occupancy(graph, thread_block));
  }
  return most;
}

SimTime measured(const Communicator& communicator, const CollectivePlan& plan) {
  CollectiveTimes times(communicator, std::span(&plan, 1));
  SimTime now;
  return time_alone(times, communicator, plan, 0, now);
}

void explain(const Communicator& communicator, CollectiveCost& cost) {
  CollectivePlan plan = cost.plan;
  plan.startup = plan.launch_period = plan.launch_exposed = {};
  const SimTime launched = measured(communicator, plan);
  plan = without_latency(std::move(plan));
  const SimTime moved = measured(communicator, plan);
  cost.launch = cost.time - launched;
  cost.latency = launched - moved;
  cost.bandwidth = busiest(communicator.graphs[plan.graph], plan);
  cost.fill = moved - cost.bandwidth;
}

}  // namespace

SimTime time_alone(CollectiveTimes& times, const Communicator& communicator, const CollectivePlan& plan,
                   std::uint32_t number, SimTime& now) {
  if (has_root(plan.kind)) {
    return in_a_row(plan, period_of(times, communicator, number, now));
  }
  const std::vector<SimTime> launch(communicator.ranks, now);
  std::vector<SimTime> end(communicator.ranks);
  times.end(number, launch, now, end);
  const SimTime begun = std::exchange(now, *std::ranges::max_element(end));
  return in_a_row(plan, now - begun);
}

std::vector<CollectiveCost> cost_collectives(CollectivePlanner& planner, CollectiveKind kind,
                                             std::span<const Bytes> sizes, bool explained) {
  std::vector<CollectivePlan> plans;
  for (const Bytes bytes : sizes) {
    plans.push_back(planner.plan(kind, bytes));
  }
  const Communicator& communicator = planner.communicator();
  Seconds longest;
  for (std::size_t p = 0; communicator.ranks > 1 && p < plans.size(); ++p) {
    longest = longest + longest_collective(communicator, plans[p]);
    if (!(longest < kLongestIteration)) {
      throw InputError("expected collectives that end within 6 days together, found " +
                       std::to_string(plans[p].bytes.value) + " bytes and those before, which may not");
    }
  }
  CollectiveTimes times(communicator, plans);
  SimTime now;
  std::vector<CollectiveCost> costs;
  for (std::uint32_t p = 0; p < plans.size(); ++p) {
    CollectiveCost& cost = costs.emplace_back();
    cost.plan = plans[p];
    cost.time = time_alone(times, communicator, plans[p], p, now);
    if (communicator.ranks > 1) {
      cost.channels = communicator.graphs[plans[p].graph].channels;
      if (explained) {
        explain(communicator, cost);
      }
    }
  }
  return costs;
}

}  // namespace paceline
