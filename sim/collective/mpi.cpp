#include "sim/collective/mpi.h"

#include <limits>
#include <utility>

#include "core/error.h"
#include "sim/collective/nccl.h"

namespace paceline {
namespace {

constexpr std::int64_t kElement = 4;                                  // bytes of a float
constexpr Bytes kEager{(std::int64_t{64} << 10) - std::int64_t{64}};  // 64 KiB less what leads a message

// Gives the FIFOs that reduce, the first `reducing` of each group's, hops of their own: the second half of them.
void part_hops(CollectiveGraph& graph, std::size_t fifos_of_group, std::uint32_t reducing) {
  const std::vector<Hop> hops = graph.hops;
  graph.hops.insert(graph.hops.end(), hops.begin(), hops.end());
  for (std::size_t f = 0; f < graph.fifos.size(); ++f) {
    graph.fifos[f].hop += f % fifos_of_group < reducing ? static_cast<std::uint32_t>(hops.size()) : 0;
  }
}

void require_known(CollectiveKind kind) {
  if (kind == CollectiveKind::reduce || kind == CollectiveKind::all_to_all ||
      kind == CollectiveKind::send_recv) {
    throw InputError(
        "expected all_reduce, all_gather, reduce_scatter or broadcast with MPI, found a collective that is "
        "simulated only as NCCL runs it");
  }
}

}  // namespace

MpiCollectives::MpiCollectives(const Topology& topology, const CollectiveSpec& spec,
                               std::span<const BackgroundFlow> background, const GroupShape& groups)
    : topology_(topology),
      family_(topology, groups),
      links_(topology, background),
      costs_(default_mpi_costs()) {
  set_costs(spec.costs, costs_);
}

CollectivePlan MpiCollectives::plan(Communicator& communicator, CollectiveKind kind, Bytes bytes,
                                    std::uint32_t root) {
  require_known(kind);
  CollectivePlan plan;
  plan.kind = kind;
  plan.bytes = bytes;
  plan.root = root;
  const RankLayout& layout = family_.layout();
  const bool small =
      kind == CollectiveKind::all_reduce && bytes.value < kElement * std::int64_t{layout.ranks()};
  plan.algorithm = small ? Algorithm::recursive_doubling : Algorithm::mpi_ring;
  const std::int64_t blocks = blocks_per_loop(plan.algorithm, kind, layout);
  plan.loops = {{1, Bytes((bytes.value + blocks - 1) / blocks)}};
  plan.graph = graph(communicator, plan.algorithm, kind, root);
  price(plan, communicator, costs_);
  if (!communicator.graphs[plan.graph].shared.empty()) {
    communicator.shared_links = links_.links;
    communicator.shared_capacity = links_.capacity;
    communicator.background = links_.flows;
  }
  return plan;
}

void MpiCollectives::price(CollectivePlan& plan, const Communicator& communicator,
                           const CollectiveCosts& costs) const {
  const std::vector<Hop>& hops = communicator.graphs[plan.graph].hops;
  const Bytes block = plan.loops.front().chunk;
  plan.startup = to_sim_time(costs.mpi.startup);
  plan.copy_rate = BytesPerSecond(std::numeric_limits<double>::infinity());
  plan.hops.clear();
  for (std::size_t h = 0; h < hops.size(); ++h) {
    const Hop& hop = hops[h];
    const auto kind = static_cast<std::size_t>(hop.kind);
    const BytesPerSecond rate = hop.rate * costs.efficiency[kind];
    const bool agrees = hop.kind == HopKind::network && block > kEager;
    const Seconds reduction = h < hops.size() / 2 ? Seconds{} : block / costs.mpi.reduce_rate;
    plan.hops.push_back({rate, to_sim_time(costs.mpi.latency[kind] + hop.latency + reduction),
                         agrees ? to_sim_time(block / rate + costs.mpi.rendezvous) : SimTime{}});
  }
}

std::uint32_t MpiCollectives::graph(Communicator& communicator, Algorithm algorithm, CollectiveKind kind,
                                    std::uint32_t root) {
  const auto [at, added] =
      graphs_.try_emplace({algorithm, kind, root}, static_cast<std::uint32_t>(communicator.graphs.size()));
  if (added) {
    const std::uint32_t all_nics = topology_.node().nics_in_use,
                        all_gpus = layout_of(topology_).gpus_per_node;
    std::vector<CollectiveGraph> of_kind;
    std::uint32_t reducing = 0;
    for (const NodeLayout& node : family_.nodes()) {
      std::vector<int> nics;
      for (const std::uint32_t gpu : node.gpus_in_use) {
        nics.push_back(static_cast<int>(gpu * all_nics / all_gpus));
      }
      MpiGraph made = algorithm == Algorithm::mpi_ring ? mpi_ring_graph(kind, family_.layout(), nics, root)
                                                       : recursive_doubling_graph(family_.layout(), nics);
      reducing = made.reducing;  // of every kind alike
      of_kind.push_back(std::move(made.graph));
    }
    const std::size_t fifos = of_kind.front().fifos.size();
    CollectiveGraph whole = family_.join(std::move(of_kind), links_);
    part_hops(whole, fifos, reducing);
    communicator.graphs.push_back(std::move(whole));
  }
  return at->second;
}

CollectivePlanner mpi_planner(const Topology& topology, const CollectiveSpec& spec,
                              std::span<const BackgroundFlow> background) {
  const std::vector<BackgroundFlow> flows(background.begin(), background.end());
  return planner_of_families(topology, spec, [=, &topology](const GroupShape& groups) {
    return [mpi = MpiCollectives(topology, spec, flows, groups)](Communicator& communicator,
                                                                 const CollectiveRequest& request) mutable {
      return mpi.plan(communicator, request.kind, request.bytes, request.root);
    };
  });
}

// Background flows, those of other jobs among them.
std::vector<BackgroundFlow> traffic(const Topology& topology, const ClusterUse& use) {
  std::vector<BackgroundFlow> flows = use.background;
  const int gpus = topology.gpus_per_node();
  for (const OtherJob& job : use.other_jobs) {
    for (int n = 0; n < job.nodes; ++n) {
      const std::int64_t from = job.first_node + n, to = job.first_node + (n + 1) % job.nodes;
      for (int nic = 0; nic < static_cast<int>(topology.node().nics_in_use); ++nic) {
        flows.push_back({from * gpus + nic % gpus, to * gpus + nic % gpus, job.rate, nic});
      }
    }
  }
  return flows;
}

CollectivePlanner collective_planner(const Topology& topology, const ClusterUse& use) {
  const auto planner = use.collective.library == CollectiveLibrary::mpi ? mpi_planner : nccl_planner;
  return planner(topology, use.collective, traffic(topology, use));
}

}  // namespace paceline
