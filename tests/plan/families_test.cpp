// Does every family of groups, for 2 to 33 ranks in all, leave every rank with exactly what its own group should
// have, within the bandwidth of every link, and is a family of one group the whole job?
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "right_data.h"
#include "sim/collective/algorithms.h"
#include "sim/collective/collective_times.h"
#include "sim/collective/family.h"
#include "sim/collective/host_collectives.h"
#include "sim/collective/nccl.h"
#include "sim/collective/placed_family.h"
#include "sim/collective/pricing.h"
#include "symbolic.h"
#include "tests/dice.h"
#include "tests/error_of.h"
#include "tests/random_graphs.h"
#include "topology/channel_search.h"
#include "ways.h"

namespace paceline {
namespace {

ClusterSpec cluster_of(const RankLayout& job) {
  ClusterSpec cluster;
  cluster.node = node_preset("dgx-h100");
  cluster.node.gpus = cluster.node.nics = static_cast<int>(job.gpus_per_node);
  cluster.node.pcie_switches = cluster.node.sockets = 1;
  cluster.nodes = static_cast<int>(job.nodes);
  return cluster;
}

// Every shape that divides the job, the whole of it included.
std::vector<GroupShape> shapes_of(const RankLayout& job) {
  std::vector<GroupShape> shapes;
  for (std::uint32_t ranks = 1; ranks <= job.ranks(); ++ranks) {
    for (std::uint32_t stride = 1; stride <= job.ranks(); ++stride) {
      if (error_of([&] { family_of({ranks, stride}, job); }).empty()) {
        shapes.push_back({ranks, stride});
      }
    }
  }
  return shapes;
}

std::string text_of(const GroupShape& shape, const RankLayout& job) {
  return "groups of " + std::to_string(shape.ranks) + " ranks, " + std::to_string(shape.stride) +
         " apart, on " + std::to_string(job.nodes) + " x " + std::to_string(job.gpus_per_node);
}

// What a group's ranks have kept, as if they were numbered from 0. Empty: something came from another group.
Outputs of_group(const Symbolic& run, const std::vector<std::uint32_t>& ranks, std::size_t channel,
                 std::size_t loop) {
  Outputs outputs;
  for (const std::uint32_t rank : ranks) {
    Symbolic::Output& kept = outputs.emplace_back();
    for (const auto& [block, value] : run.output(rank, channel, loop, 0)) {
      Value& own = kept[block];
      std::size_t parts = 0, own_parts = 0;
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        own[i] = value[ranks[i]];
        own_parts += own[i];
      }
      for (const std::uint8_t part : value) {
        parts += part;
      }
      if (parts != own_parts) {
        return {};
      }
    }
  }
  return outputs;
}

std::string group_outcome(const CollectiveGraph& graph, const Family& family, CollectiveKind kind,
                          std::uint32_t blocks, std::uint32_t root) {
  constexpr std::uint32_t kLoops = 2;
  const Symbolic run(graph, {kLoops});
  if (!run.error().empty()) {
    return run.error();
  }
  for (const std::vector<std::uint32_t>& ranks : family.groups) {
    for (std::size_t part = 0; part < std::size_t{kLoops} * graph.channels; ++part) {
      const Outputs outputs = of_group(run, ranks, part / kLoops, part % kLoops);
      if (outputs.empty() || !is_right(kind, outputs, blocks, root)) {
        return "wrong data in the group of rank " + std::to_string(ranks.front());
      }
    }
  }
  return {};
}

std::vector<ChannelGraphs> random_channels(Dice& dice, const PlacedFamily& family) {
  std::vector<ChannelGraphs> found;
  for (std::size_t kind = 0; kind < family.kinds().size(); ++kind) {
    found.push_back(random_graphs(dice, family.layout().gpus_per_node));
    found.back().nvls = random_heads(dice, family.layout().gpus_per_node, false);  // as NCCL finds them
  }
  return found;
}

CollectiveGraph joined(const PlacedFamily& family, const std::vector<ChannelGraphs>& found,
                       Algorithm algorithm, CollectiveKind kind, std::uint32_t channels, std::uint32_t root,
                       const Topology& topology) {
  std::vector<CollectiveGraph> of_kind;
  for (const ChannelGraphs& graphs : found) {
    of_kind.push_back(make_graph(algorithm, kind, family.layout(), graphs, channels, root));
  }
  return family.join(std::move(of_kind), SharedLinks(topology, {}));
}

// Of the fullest link: what all thread blocks send over it, each as long in its steps as they take, over its
// bandwidth.
double fullest_link(const CollectiveGraph& graph, const PlacedFamily& family, const Family& groups,
                    const Topology& topology) {
  const auto gpus = static_cast<std::uint32_t>(topology.gpus_per_node());
  std::map<std::uint32_t, double> sent;  // by link
  for (const ThreadBlock& block : graph.thread_blocks) {
    std::map<std::uint32_t, double> blocks;
    double time = 0;
    for (const Step& step : graph.scripts[block.script].steps) {
      double longest = 0;
      const double moved = static_cast<double>(step.times) * step.width;
      for (std::uint32_t p = 0; p < step.send.count; ++p) {
        const Fifo& fifo = graph.fifos[graph.out[block.first_out + step.send.first + p]];
        if (fifo.wire == Wire::inside) {
          continue;
        }
        const std::uint32_t to = graph.thread_blocks[fifo.to].rank;
        const std::uint32_t first =
            groups.groups[groups.group_of[block.rank == ThreadBlock::kSwitch ? to : block.rank]].front();
        const auto node = std::ranges::find_if(family.kinds(), [&](const PlacedFamily::Kind& one) {
          return one.nodes.front().gpus_in_use.front() == first % gpus;
        });
        for (const LinkId link : route_of(graph, fifo, topology, node->nodes)) {
          blocks[link.value] += moved;
        }
        longest = std::max(longest, moved / graph.hops[fifo.hop].rate.value);
      }
      time += longest;
    }
    for (const auto& [link, moved] : blocks) {
      sent[link] += moved / time;
    }
  }
  double fullest = 0;
  for (const auto& [link, rate] : sent) {
    fullest = std::max(fullest, rate / topology.link(LinkId(link)).bandwidth.value);
  }
  return fullest;
}

// Whether a thread block sends to one peer after the other, perhaps over links of different widths: then what it may
// send over each is known only roughly.
bool by_turns(Algorithm algorithm, CollectiveKind kind) {
  return kind == CollectiveKind::all_to_all || algorithm == Algorithm::collnet_direct ||
         algorithm == Algorithm::hierarchical;
}

TEST_CASE("every group of every family ends with what it should and nothing of another, within all links") {
  Dice dice(31);
  int families = 0, shared = 0;
  for (std::uint32_t n = 2; n <= most_tested(); ++n) {
    for (const RankLayout& job : layouts(n)) {
      const Topology topology = build_topology(cluster_of(job));
      for (const GroupShape& shape : shapes_of(job)) {
        if (shape.ranks == 1) {
          continue;
        }
        const PlacedFamily family(topology, shape);
        const Family groups = family_of(shape, job);
        const std::vector<ChannelGraphs> found = random_channels(dice, family);
        ++families;
        for_each_way(family.layout(), [&](Algorithm algorithm, CollectiveKind kind) {
          const auto root = static_cast<std::uint32_t>(dice.below(shape.ranks));
          const auto channels = static_cast<std::uint32_t>(dice.between(1, 3));
          const CollectiveGraph graph = joined(family, found, algorithm, kind, channels, root, topology);
          INFO(name(algorithm, kind, family.layout()) << ", " << text_of(shape, job) << ", root " << root);
          REQUIRE(graph.ranks == n);
          REQUIRE(group_outcome(graph, groups, kind, blocks_per_loop(algorithm, kind, family.layout()), root)
                      .empty());
          const double fullest = fullest_link(graph, family, groups, topology);
          REQUIRE((fullest < 1 + 1e-9 || by_turns(algorithm, kind)));
          shared += fullest > 0.9 ? 1 : 0;
        });
      }
    }
  }
  CHECK(families > (thorough() ? 500 : 50));
  CHECK(shared > families);
}

TEST_CASE("a broadcast and a reduction may have any root, of every group") {
  Dice dice(32);
  for (std::uint32_t n = 2; n <= (kSanitized ? 6 : 12); ++n) {
    for (const RankLayout& job : layouts(n)) {
      const Topology topology = build_topology(cluster_of(job));
      for (const GroupShape& shape : shapes_of(job)) {
        if (shape.ranks == 1) {
          continue;
        }
        const PlacedFamily family(topology, shape);
        const Family groups = family_of(shape, job);
        const std::vector<ChannelGraphs> found = random_channels(dice, family);
        CollectiveSpec spec;
        NcclCollectives nccl(topology, spec, {}, shape);
        HostCollectives mpi(topology, spec, {}, shape);
        Communicator communicator;
        communicator.ranks = n;
        const Bytes bytes(100'000);
        for (std::uint32_t root = 0; root < shape.ranks; ++root) {
          INFO(text_of(shape, job) << ", root " << root);
          for (const CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce}) {
            const CollectiveGraph graph = joined(family, found, Algorithm::ring, kind, 2, root, topology);
            REQUIRE(group_outcome(graph, groups, kind, 1, root).empty());
            const CollectivePlan plan = nccl.plan(communicator, kind, bytes, nccl.tuned(kind, bytes), root);
            REQUIRE(plan.root == root);
            REQUIRE(group_outcome(communicator.graphs[plan.graph], groups, kind, 1, root).empty());
          }
          const CollectivePlan plan = mpi.plan(communicator, CollectiveKind::broadcast, bytes, root);
          REQUIRE(group_outcome(communicator.graphs[plan.graph], groups, CollectiveKind::broadcast, 1, root)
                      .empty());
        }
      }
    }
  }
}

const std::vector<std::int64_t> kAllBytes{8, 100'000, 1 << 30}, kSomeBytes{100'000};

// What NCCL and MPI take themselves, whatever the size.
TEST_CASE("planned by NCCL and by MPI, every group ends with what it should") {
  int algorithms = 0;
  std::set<std::pair<Algorithm, CollectiveKind>> seen;
  for (const RankLayout& job : {RankLayout{1, 8}, RankLayout{2, 8}, RankLayout{4, 8}, RankLayout{3, 4},
                                RankLayout{8, 1}, RankLayout{2, 2}}) {
    ClusterSpec cluster = cluster_of({job.nodes, 8});
    cluster.gpus_per_node = static_cast<int>(job.gpus_per_node);
    cluster.fabric.sharp = job.nodes == 4;
    const Topology topology = build_topology(cluster);
    for (const CollectiveLibrary library : {CollectiveLibrary::nccl, CollectiveLibrary::mpi}) {
      CollectivePlanner planner = collective_planner(topology, {.collective = {.library = library}});
      CHECK(planner.layout() == job);
      for (const GroupShape& shape : shapes_of(job)) {
        const Family groups = family_of(shape, job);
        for (const CollectiveKind kind : kKinds) {
          if (shape.ranks == 1 || (library == CollectiveLibrary::mpi &&
                                   (kind == CollectiveKind::reduce || kind == CollectiveKind::all_to_all ||
                                    kind == CollectiveKind::send_recv))) {
            continue;
          }
          for (const std::int64_t bytes : kSanitized ? kSomeBytes : kAllBytes) {
            const CollectivePlan plan = planner.plan({kind, Bytes(bytes), shape});
            const CollectiveGraph& graph = planner.communicator().graphs[plan.graph];
            const RankLayout layout = PlacedFamily(topology, shape).layout();
            INFO(name(plan.algorithm, kind, layout)
                 << ", " << text_of(shape, job) << ", " << bytes << " bytes");
            seen.insert({plan.algorithm, kind});
            ++algorithms;
            if (plan.algorithm == Algorithm::mpi_ring || plan.algorithm == Algorithm::recursive_doubling) {
              const bool whole =
                  kind == CollectiveKind::broadcast || plan.algorithm == Algorithm::recursive_doubling;
              REQUIRE(group_outcome(graph, groups, kind, whole ? 1 : shape.ranks, 0).empty());
            } else {
              REQUIRE(group_outcome(graph, groups, kind, blocks_per_loop(plan.algorithm, kind, layout), 0)
                          .empty());
            }
            REQUIRE(plan.hops.size() == graph.hops.size());
          }
        }
      }
    }
  }
  CHECK(algorithms > (kSanitized ? 300 : 1000));
  CHECK(seen.size() >= 12);
}

void check_same(const CollectiveGraph& a, const CollectiveGraph& b) {
  CHECK(a.channels == b.channels);
  CHECK(a.ranks == b.ranks);
  CHECK((a.scripts == b.scripts));
  CHECK(a.in == b.in);
  CHECK(a.out == b.out);
  CHECK((a.hops == b.hops));
  CHECK(std::ranges::equal(a.thread_blocks, b.thread_blocks, [](const ThreadBlock& x, const ThreadBlock& y) {
    return x.rank == y.rank && x.channel == y.channel && x.script == y.script && x.first_in == y.first_in &&
           x.first_out == y.first_out && x.base == y.base && x.shift == y.shift;
  }));
  CHECK(std::ranges::equal(a.fifos, b.fifos, [](const Fifo& x, const Fifo& y) {
    return x.from == y.from && x.to == y.to && x.hop == y.hop && x.wire == y.wire && x.nic_out == y.nic_out &&
           x.nic_in == y.nic_in;
  }));
}

TEST_CASE("a family of one group is planned as all ranks are") {
  struct Case {
    int nodes, gpus;
    GroupShape shape;
  };
  const RankLayout one_node{1, 8}, single_gpus{4, 1};
  for (const Case& c : {Case{1, 8, gpus_of_each_node(one_node)},
                        Case{4, 1, same_gpu_of_every_node(single_gpus)}, Case{3, 8, consecutive_ranks(24)}}) {
    ClusterSpec cluster;
    cluster.node = node_preset("dgx-h100");
    cluster.nodes = c.nodes;
    cluster.gpus_per_node = c.gpus;
    const Topology topology = build_topology(cluster);
    CollectivePlanner all = nccl_planner(topology, {}, {}), family = nccl_planner(topology, {}, {});
    for (const CollectiveKind kind : kKinds) {
      for (const std::int64_t bytes : {8LL, 1LL << 20, 1LL << 28}) {
        const CollectivePlan a = all.plan(kind, Bytes(bytes)), b = family.plan({kind, Bytes(bytes), c.shape});
        CHECK(a.algorithm == b.algorithm);
        CHECK(a.protocol == b.protocol);
        CHECK(a.graph == b.graph);
        CHECK((a.loops == b.loops));
        CHECK((a.hops == b.hops));
        CHECK(a.startup == b.startup);
        CHECK(a.slots == b.slots);
        CHECK(a.copy_shown == b.copy_shown);
        check_same(all.communicator().graphs[a.graph], family.communicator().graphs[b.graph]);
      }
    }
  }
}

// A node with one NIC: NCCL reaches it from any GPU over NVLink and the GPU beside it, if that is of the group.
TEST_CASE("the GPUs of a group forward for nobody else") {
  const auto kinds_of_hops = [](int gpus, const GroupShape& shape) {
    ClusterSpec cluster;
    cluster.node = node_preset("dgx-h100");
    cluster.node.nics = 1;
    cluster.nodes = 2;
    cluster.gpus_per_node = gpus;
    const Topology topology = build_topology(cluster);
    const PlacedFamily family(topology, shape);
    std::vector<bool> over_nvlink;
    for (const PlacedFamily::Kind& kind : family.kinds()) {
      const NodeLayout& node = kind.nodes.front();
      const Rank from(node.gpus_in_use.back()),
          to(node.gpus_in_use.back() + static_cast<std::uint32_t>(gpus));
      const Route route = topology.route_over_nics(from, to, 0, 0, kind.nodes);
      over_nvlink.push_back(std::ranges::any_of(
          route, [&](LinkId link) { return topology.link(link).kind == LinkKind::nvlink; }));
    }
    return over_nvlink;
  };
  CHECK(kinds_of_hops(8, kAllRanks) == std::vector<bool>{true});
  CHECK(kinds_of_hops(8, {2, 8}) == std::vector<bool>(8, false));
  CHECK(kinds_of_hops(8, {4, 4}) == std::vector<bool>{true, false, false, false});  // GPU 4 by way of GPU 0
}

TEST_CASE("where groups differ, the kind with the narrowest rings decides for all") {
  ClusterSpec cluster;
  cluster.node = node_preset("pcie-a100");
  cluster.nodes = 4;
  const Topology topology = build_topology(cluster);
  const RankLayout job = layout_of(topology);
  ClusterSpec first = cluster;  // GPU 0 of every node alone
  first.gpus_per_node = 1;
  const Topology wide = build_topology(first);
  CollectivePlanner planner = nccl_planner(topology, {}, {}), of_wide = nccl_planner(wide, {}, {});
  bool decided_otherwise = false;
  for (std::int64_t bytes = 1 << 10; bytes <= 1 << 28; bytes *= 4) {
    const CollectivePlan plan =
        planner.plan({CollectiveKind::all_reduce, Bytes(bytes), same_gpu_of_every_node(job)});
    const CollectiveGraph& graph = planner.communicator().graphs[plan.graph];
    std::map<std::uint32_t, std::set<std::uint32_t>> channels;  // by GPU
    for (const ThreadBlock& block : graph.thread_blocks) {
      channels[block.rank % job.gpus_per_node].insert(block.channel);
    }
    REQUIRE(channels.size() == job.gpus_per_node);
    for (const auto& [gpu, of_gpu] : channels) {
      CHECK(of_gpu.size() == graph.channels);
    }
    const CollectivePlan alone = of_wide.plan(CollectiveKind::all_reduce, Bytes(bytes));
    decided_otherwise |= alone.protocol != plan.protocol || alone.algorithm != plan.algorithm;
  }
  CHECK(decided_otherwise);
}

TEST_CASE(
    "on all presets with several NICs the groups of a family are alike to NCCL's search but for their GPUs "
    "and NICs") {
  for (const std::string& name : node_preset_names()) {
    ClusterSpec cluster;
    cluster.node = node_preset(name);
    cluster.nodes = cluster.node.nics > 0 ? 4 : 1;
    const Topology topology = build_topology(cluster);
    const RankLayout job = layout_of(topology);
    for (const GroupShape& shape : {same_gpu_of_every_node(job), consecutive_ranks(job.gpus_per_node / 2)}) {
      const PlacedFamily family(topology, shape);
      CAPTURE(name, shape.ranks, shape.stride);
      std::vector<ChannelGraphs> found;
      for (const PlacedFamily::Kind& kind : family.kinds()) {
        const NodeLayout& node = kind.nodes.front();
        found.push_back(search_channels(node, cluster.node, static_cast<int>(family.layout().nodes), {}));
        CHECK(found.back().ring.channels.size() == found.front().ring.channels.size());
        CHECK(found.back().channels == found.front().channels);
      }
      // With one NIC, GPUs that are not beside it reach it only through a CPU, which holds fast ones back.
      const bool alike = std::ranges::all_of(found, [&](const ChannelGraphs& graphs) {
        return graphs.ring.bw_inter == found.front().ring.bw_inter &&
               graphs.ring.bw_intra == found.front().ring.bw_intra;
      });
      const bool slow = cluster.node.nic_bandwidth <= cluster.node.socket_bandwidth;
      CHECK(alike == (cluster.node.nics > 1 || slow || shape.stride == 1));
    }
  }
}

TEST_CASE("families of a job") {
  const RankLayout job{4, 8};
  const Family nodes = family_of(gpus_of_each_node(job), job);
  CHECK(nodes.groups.size() == 4);
  CHECK(nodes.groups[2] == std::vector<std::uint32_t>{16, 17, 18, 19, 20, 21, 22, 23});
  const Family across = family_of(same_gpu_of_every_node(job), job);
  CHECK(across.groups.size() == 8);
  CHECK(across.groups[5] == std::vector<std::uint32_t>{5, 13, 21, 29});
  CHECK(family_of(kAllRanks, job).groups.size() == 1);
  CHECK(family_of(consecutive_ranks(16), job).groups[1].front() == 16);
  CHECK(family_of({2, 4}, job).groups[5] == std::vector<std::uint32_t>{9, 13});
  for (const GroupShape& shape : shapes_of(job)) {
    const Family family = family_of(shape, job);
    std::vector<bool> seen(32);
    for (std::uint32_t g = 0; g < family.groups.size(); ++g) {
      CHECK(family.groups[g].size() == shape.ranks);
      CHECK(std::ranges::is_sorted(family.groups[g]));
      for (const std::uint32_t rank : family.groups[g]) {
        CHECK_FALSE(seen[rank]);
        seen[rank] = true;
        CHECK(family.group_of[rank] == g);
      }
    }
  }
}

TEST_CASE("groups that cut a node unevenly are refused, and roots that are not there") {
  const RankLayout job{4, 8};
  const auto error = [&](const GroupShape& shape) { return error_of([&] { family_of(shape, job); }); };
  CHECK(error(consecutive_ranks(3)) ==
        "expected groups of k consecutive ranks where k divides the GPUs of a node, or is a multiple of them "
        "and "
        "divides the ranks (4 nodes of 8 GPUs), found k = 3");
  CHECK_FALSE(error(consecutive_ranks(0)).empty());
  CHECK_FALSE(error(consecutive_ranks(12)).empty());
  CHECK_FALSE(error(consecutive_ranks(24)).empty());  // a multiple of 8, but 32 is none of 24
  CHECK_FALSE(error(consecutive_ranks(64)).empty());
  CHECK(error(consecutive_ranks(16)).empty());
  CHECK(error({4, 3}) ==
        "expected groups with the same GPUs on each of their nodes (4 nodes of 8 GPUs), found groups of 4 "
        "ranks, 3 "
        "apart");
  const Topology topology = build_topology(cluster_of(job));
  CollectivePlanner planner = nccl_planner(topology, {}, {});
  CHECK(error_of([&] { planner.plan({CollectiveKind::broadcast, Bytes(8), gpus_of_each_node(job), 8}); }) ==
        "expected a root from 0 to 7, found 8");
  CHECK(error_of([&] { planner.plan({CollectiveKind::all_reduce, Bytes(8), {3, 1}}); }) == error({3, 1}));
}

TEST_CASE("in groups of one rank a collective ends when it begins") {
  const RankLayout job{4, 1};
  const Topology topology = build_topology(cluster_of(job));
  CollectivePlanner planner = nccl_planner(topology, {}, {});
  const std::vector<CollectivePlan> plans{
      planner.plan({CollectiveKind::all_reduce, Bytes(1 << 20), gpus_of_each_node(job)}),
      planner.plan({CollectiveKind::all_gather, Bytes(1 << 20), consecutive_ranks(1)})};
  CHECK(plans[0].graph == plans[1].graph);
  CollectiveTimes times(planner.communicator(), plans);
  const std::vector<SimTime> together(4, SimTime{5}), apart{SimTime{5}, SimTime{7}, SimTime{1}, SimTime{9}};
  std::vector<SimTime> end(4);
  times.end(0, together, SimTime{}, end);
  CHECK(end == together);
  times.end(1, apart, SimTime{}, end);
  CHECK(end == apart);
}

}  // namespace
}  // namespace paceline
