#include "sim/collective/communicator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "sim/collective/collective_times.h"
#include "sim/collective/host_collectives.h"
#include "sim/collective/nccl.h"
#include "sim/collective/placed_family.h"

namespace paceline {
namespace {

SimTime time_of(const Communicator& communicator, const CollectivePlan& plan) {
  CollectiveTimes times(communicator, std::span(&plan, 1));
  std::vector<SimTime> launch(communicator.ranks), end(communicator.ranks);
  times.end(0, launch, SimTime{}, end);
  return *std::ranges::max_element(end);
}

CollectivePlan fastest(NcclCollectives& nccl, Communicator& communicator, const CollectiveRequest& request) {
  CollectivePlan best;
  SimTime least{std::numeric_limits<std::int64_t>::max()};
  for (const TunerChoice& choice : nccl.possible(request.kind, request.bytes, kHopeless)) {
    CollectivePlan plan = nccl.plan(communicator, request.kind, request.bytes, choice, request.root);
    if (const SimTime time = time_of(communicator, plan); time < least) {
      least = time;
      best = std::move(plan);
    }
  }
  return best;
}

// Of groups of one rank: nobody has anything to move.
CollectivePlan plan_of_nothing(const CollectiveRequest& request, std::uint32_t graph) {
  CollectivePlan plan;
  plan.kind = request.kind;
  plan.bytes = request.bytes;
  plan.graph = graph;
  return plan;
}

// In numbers, and with a root only where it counts.
CollectiveRequest checked(CollectiveRequest request, const RankLayout& layout) {
  request.groups = in_numbers(request.groups, layout);
  if (!has_root(request.kind)) {
    request.root = 0;
  } else if (request.root >= request.groups.ranks) {
    throw InputError("expected a root from 0 to " + std::to_string(request.groups.ranks - 1) + ", found " +
                     std::to_string(request.root));
  }
  return request;
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
  return {Communicator{}, RankLayout{},
          [](Communicator&, const CollectiveRequest& request) { return plan_of_nothing(request, 0); }};
}

CollectivePlanner planner_of_families(const Topology& topology, const CollectiveSpec& spec,
                                      const std::function<CollectivePlanner::Plan(const GroupShape&)>& make) {
  const RankLayout layout = layout_of(topology);
  if (layout.ranks() == 1) {
    return lone_planner();
  }
  Communicator start;
  start.ranks = layout.ranks();
  const GroupShape all = in_numbers(kAllRanks, layout);
  std::map<GroupShape, CollectivePlanner::Plan> made;
  made.emplace(all, make(all));
  return {std::move(start), layout,
          [=, corrections = spec.corrections, empty = std::optional<std::uint32_t>()](
              Communicator& communicator, const CollectiveRequest& asked) mutable {
            const CollectiveRequest request = checked(asked, layout);
            if (request.groups.ranks == 1) {
              if (!empty) {
                empty = static_cast<std::uint32_t>(communicator.graphs.size());
                CollectiveGraph nothing;
                nothing.ranks = layout.ranks();
                communicator.graphs.push_back(std::move(nothing));
              }
              return plan_of_nothing(request, *empty);
            }
            auto plan_of = made.find(request.groups);
            if (plan_of == made.end()) {
              plan_of = made.emplace(request.groups, make(request.groups)).first;
            }
            CollectivePlan plan = plan_of->second(communicator, request);
            const double factor =
                request.groups == all ? correction(corrections, request.kind, request.bytes) : 1;
            if (factor != 1) {
              scale(plan, factor);
            }
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
  const std::vector<BackgroundFlow> flows(background.begin(), background.end());
  return planner_of_families(topology, spec, [=, &topology](const GroupShape& groups) {
    return [nccl = NcclCollectives(topology, spec, flows, groups), spec](
               Communicator& communicator, const CollectiveRequest& request) mutable {
      const auto& [kind, bytes, of, root] = request;
      return who_chooses(spec, bytes) == AlgorithmChoice::fastest
                 ? fastest(nccl, communicator, request)
                 : nccl.plan(communicator, kind, bytes, nccl.tuned(kind, bytes), root);
    };
  });
}

std::vector<BackgroundFlow> traffic_of_others(const Topology& topology,
                                              std::vector<BackgroundFlow> background,
                                              std::span<const OtherJob> jobs) {
  std::vector<BackgroundFlow> flows = std::move(background);
  const int gpus = topology.gpus_per_node();
  const auto nics = [&](std::int64_t node) {
    return static_cast<int>(topology.node(static_cast<std::uint32_t>(node)).nics_in_use);
  };
  for (const OtherJob& job : jobs) {
    for (int n = 0; n < job.nodes; ++n) {
      const std::int64_t from = job.first_node + n, to = job.first_node + (n + 1) % job.nodes;
      for (int nic = 0; nic < std::min(nics(from), nics(to)); ++nic) {
        flows.push_back({from * gpus + nic % gpus, to * gpus + nic % gpus, job.rate, nic});
      }
    }
  }
  return flows;
}

CollectivePlanner collective_planner(const Topology& topology, const ClusterUse& use) {
  const auto planner = use.collective.library == CollectiveLibrary::nccl ? nccl_planner : host_planner;
  return planner(topology, use.collective, traffic_of_others(topology, use.background, use.other_jobs));
}

}  // namespace paceline
