#include "sim/collective/communicator.h"

#include <algorithm>
#include <cmath>

#include "sim/collective/collective_times.h"
#include "sim/collective/nccl.h"

namespace paceline {
namespace {

SimTime time_of(const Communicator& communicator, const CollectivePlan& plan) {
  CollectiveTimes times(communicator, std::span(&plan, 1));
  std::vector<SimTime> launch(communicator.ranks), end(communicator.ranks);
  times.end(0, launch, SimTime{}, end);
  return *std::ranges::max_element(end);
}

CollectivePlan fastest(NcclCollectives& nccl, Communicator& communicator, CollectiveKind kind, Bytes bytes) {
  CollectivePlan best;
  SimTime least{std::numeric_limits<std::int64_t>::max()};
  for (const TunerChoice& choice : nccl.possible(kind, bytes)) {
    CollectivePlan plan = nccl.plan(communicator, kind, bytes, choice);
    if (const SimTime time = time_of(communicator, plan); time < least) {
      least = time;
      best = std::move(plan);
    }
  }
  return best;
}

}  // namespace

double correction(std::span<const Correction> all, CollectiveKind kind, Bytes bytes) {
  const Correction* below = nullptr;
  for (const Correction& one : all) {
    if (one.kind != kind) {
      continue;
    }
    if (one.bytes >= bytes) {
      if (below == nullptr || one.bytes == bytes) {
        return one.factor;
      }
      const auto log_size = [](Bytes b) { return std::log2(static_cast<double>(b.value)); };
      const double share =
          (log_size(bytes) - log_size(below->bytes)) / (log_size(one.bytes) - log_size(below->bytes));
      return below->factor * std::pow(one.factor / below->factor, share);
    }
    below = &one;
  }
  return below != nullptr ? below->factor : 1;
}

CollectivePlanner lone_planner() {
  return {Communicator{}, [](Communicator&, CollectiveKind kind, Bytes bytes) {
            CollectivePlan plan;
            plan.kind = kind;
            plan.bytes = bytes;
            return plan;
          }};
}

Communicator for_plans(const Communicator& whole, std::span<CollectivePlan> plans) {
  Communicator made;
  made.ranks = whole.ranks;
  std::map<std::uint32_t, std::uint32_t> number;
  bool shared = false;
  for (CollectivePlan& plan : plans) {
    const auto [at, added] = number.try_emplace(plan.graph, static_cast<std::uint32_t>(made.graphs.size()));
    if (added) {
      made.graphs.share(whole.graphs, plan.graph);
      shared = shared || !whole.graphs[plan.graph].shared.empty();
    }
    plan.graph = at->second;
  }
  if (shared) {
    made.shared_links = whole.shared_links;
    made.shared_capacity = whole.shared_capacity;
    made.background = whole.background;
  }
  return made;
}

CollectivePlanner nccl_planner(const Topology& topology, const CollectiveSpec& spec,
                               std::span<const BackgroundFlow> background) {
  if (topology.ranks() == 1) {
    return lone_planner();
  }
  Communicator start;
  start.ranks = static_cast<std::uint32_t>(topology.ranks());
  return {std::move(start), [nccl = NcclCollectives(topology, spec, background), spec](
                                Communicator& communicator, CollectiveKind kind, Bytes bytes) mutable {
            CollectivePlan plan = spec.choose == AlgorithmChoice::fastest
                                      ? fastest(nccl, communicator, kind, bytes)
                                      : nccl.plan(communicator, kind, bytes, nccl.tuned(kind, bytes));
            if (const double factor = correction(spec.corrections, kind, bytes); factor != 1) {
              scale(plan, factor);
            }
            return plan;
          }};
}

}  // namespace paceline
