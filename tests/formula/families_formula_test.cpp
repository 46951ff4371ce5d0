// Do the groups of a family take the closed form of a ring, as if each were alone, or of the part of a link that
// is left to it?
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "sim/collective/collective_times.h"
#include "sim/collective/host_collectives.h"
#include "topology/topology.h"

namespace paceline {
namespace {

using namespace units;

// When each rank leaves where all enter at 0.
std::vector<SimTime> ends_of(CollectivePlanner& planner, const CollectivePlan& plan) {
  CollectiveTimes times(planner.communicator(), std::span(&plan, 1));
  std::vector<SimTime> launch(planner.communicator().ranks), end(planner.communicator().ranks);
  times.end(0, launch, SimTime{}, end);
  return end;
}

// Nodes of GPUs on one PCIe switch.
ClusterSpec pcie_hosts(const RankLayout& job, int nics) {
  ClusterSpec cluster;
  cluster.node.name = "host";
  cluster.node.gpus = static_cast<int>(job.gpus_per_node);
  cluster.node.wiring = NvlinkWiring::none;
  cluster.node.pcie_bandwidth = BytesPerSecond(16e9);
  cluster.node.pcie_latency = 0.25_us;
  cluster.node.pcie_switches = cluster.node.sockets = 1;
  cluster.node.nics = nics;
  cluster.node.nic_bandwidth = BytesPerSecond(12.5e6);
  cluster.node.nic_latency = 2.0_us;
  cluster.nodes = static_cast<int>(job.nodes);
  return cluster;
}

CollectiveSpec mpi_costs() {
  CollectiveSpec spec;
  spec.library = CollectiveLibrary::mpi;
  spec.costs = {{"tcp.acknowledgements", 0},    {"mpi.startup", 3e-6},       {"mpi.pcie.latency", 5e-6},
                {"mpi.network.latency", 40e-6}, {"mpi.rendezvous", 150e-6},  {"mpi.reduce_rate", 2e9},
                {"pcie.efficiency", 0.9},       {"network.efficiency", 0.95}};
  return spec;
}

// tests/formula/mpi_formula_test.cpp derives it: T = startup + 2 (n-1) (a + s / B) + (n-1) s / R, s = ceil(S / n).
// In a node a message goes to its PCIe switch and down again. Between nodes it passes a NIC at both ends; where two
// groups share one, each has half of it.
TEST_CASE(
    "OpenMPI's rings of a family take their closed form, each as if alone but for the NIC that it shares") {
  for (const RankLayout& job : {RankLayout{2, 2}, RankLayout{3, 4}, RankLayout{5, 2}, RankLayout{4, 8}}) {
    for (const int sharers : {1, 2}) {
      const ClusterSpec cluster = pcie_hosts(job, static_cast<int>(job.gpus_per_node) / sharers);
      const Topology topology = build_topology(cluster);
      CollectivePlanner planner = collective_planner(topology, {.collective = mpi_costs()});
      for (const std::int64_t bytes : {4096LL, 100'001LL, 1LL << 20}) {
        const auto check = [&](const GroupShape& groups, double rate, double latency, double rendezvous) {
          CAPTURE(job.nodes, job.gpus_per_node, sharers, bytes, groups.stride);
          const std::int64_t n = groups.ranks;
          const auto block = static_cast<double>((bytes + n - 1) / n);
          const SimTime stay = to_sim_time(Seconds(block / rate + (block > 65536 - 64 ? rendezvous : 0)));
          const SimTime reduced = to_sim_time(Seconds(latency + block / 2e9)),
                        passed = to_sim_time(Seconds(latency));
          const std::int64_t expected =
              to_sim_time(3.0_us).ps + (n - 1) * (stay.ps + reduced.ps) + (n - 1) * (stay.ps + passed.ps);
          const CollectivePlan plan = planner.plan({CollectiveKind::all_reduce, Bytes(bytes), groups});
          const std::vector<SimTime> ends = ends_of(planner, plan);
          for (const SimTime end : ends) {
            CHECK(end == ends.front());
          }
          // each of the roundings may differ by one, where the sums were taken in another order
          CHECK(std::abs(ends.front().ps - expected) <= 4 * n);
        };
        check(gpus_of_each_node(job), 16e9 * 0.9, 5e-6 + 2 * 0.25e-6, 0);
        check(same_gpu_of_every_node(job), 12.5e6 * 0.95 / sharers, 40e-6 + 2 * (2 * 0.25e-6 + 2e-6), 150e-6);
      }
    }
  }
}

// One channel of a ring in LL128, whose chunks move whole, over endless FIFOs: all n ranks move together through
// 2 (n-1) steps, and copy the last chunk: T = startup + launch + 2 (n-1) (t + l) + c / copy rate, with t = c / B, c
// the chunk and B the narrowest link, 15/16 of it. LL128 goes in chunks of 1920 bytes, one loop here.
TEST_CASE("NCCL's rings of a family take their closed form: NVSwitch, a NIC each, and a NIC for two groups") {
  constexpr double kNic = 2e9, kNvlink = 3e9, kCopy = 5e9, kLatency = 4e-6, kLine = 120.0 / 128;
  for (const std::uint32_t nodes : {2U, 3U, 4U, 9U}) {
    const RankLayout job{nodes, 8};
    for (const int sharers : {1, 2, 4}) {
      ClusterSpec cluster;
      cluster.node = node_preset("dgx-h100");
      cluster.node.nics = 8 / sharers;
      cluster.node.pcie_switches = 8 / sharers;
      cluster.node.sockets = 2;
      cluster.node.nic_bandwidth = BytesPerSecond(kNic);
      cluster.node.nvlink_bandwidth = BytesPerSecond(kNvlink);
      cluster.node.nvlink_latency = cluster.node.pcie_latency = cluster.node.nic_latency = {};
      cluster.nodes = static_cast<int>(nodes);
      CollectiveSpec spec;
      spec.algorithm = "ring";
      spec.protocol = "ll128";
      spec.max_channels = 1;
      spec.limited_fifos = false;
      spec.costs = {{"ll128.startup", 7e-6},
                    {"launch.latency", 1e-6},
                    {"ll128.nvlink.latency", kLatency},
                    {"ll128.network.latency", kLatency},
                    {"network.efficiency", 1},
                    {"network.slice_overhead", 0},
                    {"network.fifo_startup", 0},
                    {"block.copy_rate", kCopy}};
      const Topology topology = build_topology(cluster);
      CollectivePlanner planner = nccl_planner(topology, spec, {});
      for (const std::int64_t chunk : {192LL, 1920LL, 9600LL}) {
        const auto check = [&](const GroupShape& groups, double rate) {
          CAPTURE(nodes, sharers, chunk, groups.stride);
          const std::int64_t n = groups.ranks;
          const CollectivePlan plan = planner.plan({CollectiveKind::all_reduce, Bytes(n * chunk), groups});
          REQUIRE(plan.loops.size() == 1);
          REQUIRE(plan.loops.front().count == 1);
          REQUIRE(plan.loops.front().chunk == Bytes(chunk));
          const auto c = static_cast<double>(chunk);
          const SimTime t = to_sim_time(Seconds(c / (rate * kLine))), l = to_sim_time(Seconds(kLatency));
          const SimTime expected =
              to_sim_time(8.0_us) + 2 * (n - 1) * (t + l) + to_sim_time(Seconds(c / kCopy));
          const std::vector<SimTime> ends = ends_of(planner, plan);
          CHECK(std::ranges::all_of(ends, [&](SimTime end) { return end == expected; }));
        };
        check(gpus_of_each_node(job), kNvlink);
        check(same_gpu_of_every_node(job), kNic / sharers);
      }
    }
  }
}

// All ranks between whose groups nothing is shared take what one of the groups takes on a cluster of its own.
TEST_CASE("a family whose groups share no link takes as long as one of them alone") {
  ClusterSpec cluster;
  cluster.node = node_preset("dgx-h100");
  cluster.nodes = 4;
  const RankLayout job{4, 8};
  ClusterSpec node = cluster, rail = cluster;
  node.nodes = 1;
  rail.gpus_per_node = 1;
  const Topology whole = build_topology(cluster), one_node = build_topology(node),
                 one_rail = build_topology(rail);
  CollectivePlanner families = nccl_planner(whole, {}, {}), in_node = nccl_planner(one_node, {}, {}),
                    in_rail = nccl_planner(one_rail, {}, {});
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
        CollectiveKind::broadcast, CollectiveKind::reduce, CollectiveKind::all_to_all,
        CollectiveKind::send_recv}) {
    for (const std::int64_t bytes : {64LL, 100'000LL, 25LL << 20, 1LL << 30}) {
      CAPTURE(static_cast<int>(kind), bytes);
      const auto check = [&](const GroupShape& groups, CollectivePlanner& alone) {
        const std::vector<SimTime> all = ends_of(families, families.plan({kind, Bytes(bytes), groups}));
        const std::vector<SimTime> one = ends_of(alone, alone.plan(kind, Bytes(bytes)));
        const Family family = family_of(groups, job);
        for (const std::vector<std::uint32_t>& ranks : family.groups) {
          for (std::size_t i = 0; i < ranks.size(); ++i) {
            CHECK(all[ranks[i]] == one[i]);
          }
        }
      };
      check(gpus_of_each_node(job), in_node);
      check(same_gpu_of_every_node(job), in_rail);
    }
  }
}

}  // namespace
}  // namespace paceline
