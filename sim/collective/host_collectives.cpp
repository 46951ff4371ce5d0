#include "sim/collective/host_collectives.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace paceline {
namespace {

constexpr std::int64_t kElement = 4;  // bytes of a float
constexpr std::int64_t kLine = 64;    // EIGEN_MAX_ALIGN_BYTES, of which TensorFlow's chunks are multiples
constexpr Bytes kQueued{std::int64_t{64}
                        << 10};  // by a link, of a socket: the largest packet before it is segmented
constexpr Bytes kEager{(std::int64_t{64} << 10) - std::int64_t{64}};  // 64 KiB less what leads a message

// Gives the FIFOs that reduce, the first `reducing` of each group's, hops of their own: the second half of them.
void part_hops(CollectiveGraph& graph, std::size_t fifos_of_group, std::uint32_t reducing) {
  const std::vector<Hop> hops = graph.hops;
  graph.hops.insert(graph.hops.end(), hops.begin(), hops.end());
  for (std::size_t f = 0; f < graph.fifos.size(); ++f) {
    graph.fifos[f].hop += f % fifos_of_group < reducing ? static_cast<std::uint32_t>(hops.size()) : 0;
  }
}

// How much longer the segments of gloo's all-gather take together: by one of them, or what a link queues, where
// one rank comes last, as one does. allgather.cc says that it is ready for a segment when it has sent one of its
// own (allreduce.cc: before). By then the others have said so; so that word waits on the last one's link behind
// its first segment, and with it the rank before. Between two ranks all of the segment is in front of it, in the
// same socket.
double waits_for_word(std::uint32_t ranks, Bytes segment) {
  const double in_front =
      ranks == 2 ? 1
                 : std::min(1.0, static_cast<double>(kQueued.value) /
                                     static_cast<double>(std::max<std::int64_t>(segment.value, 1)));
  return in_front / (2.0 * (ranks - 1));
}

// The first of each kind, and those with links that are slower than their kind's.
std::set<std::uint32_t> nodes_that_differ(const Topology& topology) {
  std::set<std::uint32_t> nodes, kinds;
  const auto job_nodes = static_cast<std::uint32_t>(topology.job_nodes());
  for (std::uint32_t node = 0; node < job_nodes; ++node) {
    if (kinds.insert(topology.kind_of(node)).second) {
      nodes.insert(node);
    }
  }
  for (const DegradedLink& each : topology.spec().degraded) {
    const std::optional<std::uint32_t> node = topology.node_of(topology.device_named(each.from));
    if (node && *node < job_nodes) {
      nodes.insert(*node);
    }
  }
  return nodes;
}

// A buffer of a GPU to the host and back, while all GPUs of the node copy theirs; 0: no node has GPUs of a known
// kind, and what is reduced lies with the hosts.
BytesPerSecond copied_at(const Topology& topology) {
  BytesPerSecond slowest{};
  const auto per_node = static_cast<std::uint32_t>(topology.gpus_per_node());
  for (const std::uint32_t node : nodes_that_differ(topology)) {
    if (topology.spec_of_kind(topology.kind_of(node)).compute_capability == 0) {
      continue;
    }
    std::map<LinkId, int> users;
    for (std::uint32_t g = 0; g < per_node; ++g) {
      const Rank rank(node * per_node + g);
      const std::optional<DeviceId> host = nearest_cpu(topology, rank);
      for (const LinkId link : host ? topology.route_of_message(topology.gpu_of(rank), *host) : Route()) {
        const BytesPerSecond both_ways = topology.link(link).bandwidth / (2.0 * ++users[link]);
        slowest = slowest.value > 0 ? std::min(slowest, both_ways) : both_ways;
      }
    }
  }
  return slowest;
}

}  // namespace

std::optional<DeviceId> nearest_cpu(const Topology& topology, Rank rank) {
  const std::uint32_t number = topology.node_of(rank), cpus = topology.node(number).count(DeviceKind::cpu);
  const DeviceId gpu = topology.gpu_of(rank);
  std::optional<DeviceId> nearest;
  std::size_t least = 0;  // links on the way
  for (std::uint32_t c = 0; c < cpus; ++c) {
    const DeviceId cpu = topology.device_named("node" + std::to_string(number) + "/cpu" + std::to_string(c));
    const std::size_t links = topology.route_of_message(gpu, cpu).size;
    if (links > 0 && (!nearest || links < least)) {
      nearest = cpu;
      least = links;
    }
  }
  return nearest;
}

void require_runs(CollectiveLibrary library, CollectiveKind kind) {
  if (kind == CollectiveKind::reduce || between_peers(kind)) {
    throw InputError("expected all_reduce, all_gather, reduce_scatter or broadcast with the library " +
                     std::string(name_of(library)) + ", found " + std::string(name_of(kind)) +
                     ", which is simulated only as NCCL runs it");
  }
}

HostCollectives::HostCollectives(const Topology& topology, const CollectiveSpec& spec,
                                 std::span<const BackgroundFlow> background, const GroupShape& groups)
    : topology_(topology),
      library_(spec.library),
      family_(topology, groups),
      links_(topology, background),
      costs_(default_host_costs()) {
  costs_.gloo.copy_rate = copied_at(topology);
  set_costs(spec.costs, costs_);
}

CollectivePlan HostCollectives::plan(Communicator& communicator, CollectiveKind kind, Bytes bytes,
                                     std::uint32_t root) {
  require_runs(library_, kind);
  CollectivePlan plan;
  plan.kind = kind;
  plan.bytes = bytes;
  plan.root = root;
  const Way way = library_ == CollectiveLibrary::gloo         ? gloo_way(kind, bytes, root)
                  : library_ == CollectiveLibrary::tensorflow ? tensorflow_way(kind)
                                                              : mpi_way(kind, bytes, root);
  plan.algorithm = way.algorithm;
  const std::int64_t block = (bytes.value + way.blocks - 1) / way.blocks;
  const std::int64_t line = library_ == CollectiveLibrary::tensorflow ? kLine : 1;
  plan.loops = {{1, Bytes((block + line - 1) / line * line)}};
  plan.graph = graph(communicator, way);
  price(plan, communicator, costs_);
  if (!communicator.graphs[plan.graph].shared.empty()) {
    communicator.shared_links = links_.links;
    communicator.shared_capacity = links_.capacity;
    communicator.background = links_.flows;
  }
  return plan;
}

HostCollectives::Way HostCollectives::mpi_way(CollectiveKind kind, Bytes bytes, std::uint32_t root) const {
  const RankLayout& layout = family_.layout();
  const bool small =
      kind == CollectiveKind::all_reduce && bytes.value < kElement * std::int64_t{layout.ranks()};
  const Algorithm algorithm = small ? Algorithm::recursive_doubling : Algorithm::mpi_ring;
  return {algorithm, kind, root, blocks_per_loop(algorithm, kind, layout)};
}

HostCollectives::Way HostCollectives::tensorflow_way(CollectiveKind kind) const {
  if (kind != CollectiveKind::all_reduce) {
    throw InputError(
        "expected all_reduce with TensorFlow's ring, found a collective that isn't simulated of it");
  }
  return {Algorithm::tensorflow_ring, kind, 0, family_.layout().ranks()};
}

HostCollectives::Way HostCollectives::gloo_way(CollectiveKind kind, Bytes bytes, std::uint32_t root) const {
  const std::uint32_t n = family_.layout().ranks();
  switch (kind) {
    case CollectiveKind::broadcast:
      return {Algorithm::binomial_tree, kind, root, 1};
    case CollectiveKind::all_gather:
      return {Algorithm::gloo_ring, kind, 0, 2 * n};
    default:
      return {Algorithm::gloo_ring, CollectiveKind::all_reduce, 0, n * gloo_segments_per_rank(n, bytes)};
  }
}

void HostCollectives::price(CollectivePlan& plan, const Communicator& communicator,
                            const CollectiveCosts& costs) const {
  const std::vector<Hop>& hops = communicator.graphs[plan.graph].hops;
  const Bytes block = plan.loops.front().chunk;
  const bool gloo = library_ == CollectiveLibrary::gloo;
  const bool tensorflow = library_ == CollectiveLibrary::tensorflow;
  const CollectiveCosts::OfHosts& of = gloo ? costs.gloo : tensorflow ? costs.tensorflow : costs.mpi;
  const auto copied = [&](Bytes bytes) { return of.copy_rate.value > 0 ? bytes / of.copy_rate : Seconds{}; };
  plan.startup = to_sim_time(of.startup + (tensorflow ? Seconds{} : copied(plan.bytes)));
  const bool ring =
      plan.algorithm == Algorithm::mpi_ring || plan.algorithm == Algorithm::gloo_ring || tensorflow;
  const bool acknowledges = ring && plan.kind != CollectiveKind::broadcast && family_.layout().ranks() > 2;
  plan.copy_rate = BytesPerSecond(std::numeric_limits<double>::infinity());
  plan.hops.clear();
  for (std::size_t h = 0; h < hops.size(); ++h) {
    const Hop& hop = hops[h];
    const auto kind = static_cast<std::size_t>(hop.kind);
    const double beside = acknowledges && hop.kind == HopKind::network ? costs.acknowledgements : 0;
    const bool late = gloo && plan.kind == CollectiveKind::all_gather && hop.kind == HopKind::network;
    const double word = late ? waits_for_word(family_.layout().ranks(), block) : 0;
    if (hop.kind == HopKind::inside) {
      plan.hops.push_back({hop.rate, {}, {}});
      continue;
    }
    const BytesPerSecond of_link =
        gloo && hop.kind != HopKind::network ? std::min(hop.rate, of.local_rate) : hop.rate;
    const BytesPerSecond rate = of_link * (costs.efficiency[kind] / ((1 + beside) * (1 + word)));
    const Seconds reduction = h < hops.size() / 2 ? Seconds{} : block / of.reduce_rate;
    const Seconds copies = tensorflow && hop.kind == HopKind::network ? 2 * copied(block) : Seconds{};
    HopCost cost{rate, to_sim_time(of.latency[kind] + hop.latency + copies + reduction), {}};
    if (hop.kind == HopKind::network && gloo) {
      cost.overhead = to_sim_time(of.agreement);
    } else if (hop.kind == HopKind::network && !tensorflow && block > kEager) {
      cost.least = to_sim_time(block / rate + of.agreement);
    }
    plan.hops.push_back(cost);
  }
}

HostGraph HostCollectives::made(const Way& way, std::span<const int> nics) const {
  const RankLayout& layout = family_.layout();
  switch (way.algorithm) {
    case Algorithm::gloo_ring:
      return gloo_ring_graph(way.kind, layout, nics, way.blocks / layout.ranks());
    case Algorithm::binomial_tree:
      return binomial_tree_graph(layout, nics, way.root);
    case Algorithm::recursive_doubling:
      return recursive_doubling_graph(layout, nics);
    default:
      return mpi_ring_graph(way.kind, layout, nics, way.root);
  }
}

std::uint32_t HostCollectives::graph(Communicator& communicator, const Way& way) {
  const auto [at, added] = graphs_.try_emplace(way, static_cast<std::uint32_t>(communicator.graphs.size()));
  if (added) {
    const std::uint32_t all_gpus = layout_of(topology_).gpus_per_node;
    std::vector<CollectiveGraph> of_kind;
    std::uint32_t reducing = 0;
    for (const PlacedFamily::Kind& group : family_.kinds()) {
      std::vector<int> nics;  // by rank
      for (const std::uint32_t kind : group.of_node) {
        for (const std::uint32_t gpu : group.nodes[kind].gpus_in_use) {
          nics.push_back(static_cast<int>(gpu * topology_.kinds()[kind].nics_in_use / all_gpus));
        }
      }
      HostGraph one = made(way, nics);
      reducing = one.reducing;  // of every kind alike
      of_kind.push_back(std::move(one.graph));
    }
    const std::size_t fifos = of_kind.front().fifos.size();
    CollectiveGraph whole = family_.join(std::move(of_kind), links_);
    part_hops(whole, fifos, reducing);
    communicator.graphs.push_back(std::move(whole));
  }
  return at->second;
}

CollectivePlanner host_planner(const Topology& topology, const CollectiveSpec& spec,
                               std::span<const BackgroundFlow> background) {
  const std::vector<BackgroundFlow> flows(background.begin(), background.end());
  return planner_of_families(topology, spec, [=, &topology](const GroupShape& groups) {
    return [hosts = HostCollectives(topology, spec, flows, groups)](
               Communicator& communicator, const CollectiveRequest& request) mutable {
      return hosts.plan(communicator, request.kind, request.bytes, request.root);
    };
  });
}

}  // namespace paceline
