// No all-to-all ends before its busiest link has carried what all ranks send over it, wherever that link is: a NIC of
// a node, the sockets' link, the way out of an oversubscribed leaf.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/collective/fifo_traffic.h"
#include "sim/collective/nccl.h"
#include "sim/report/collective_cost.h"
#include "tests/dice.h"

namespace paceline {
namespace {

struct AllToAll {
  double seconds = 0, busiest = 0;  // busiest: what its link needs at its bandwidth
  std::string link;
};

AllToAll all_to_all(const ClusterSpec& cluster, Bytes bytes) {
  const Topology topology = build_topology(cluster);
  const CollectiveSpec spec{.protocol = "simple"};
  CollectivePlanner planner = nccl_planner(topology, spec, {});
  const std::array sizes{bytes};
  const CollectiveCost cost = cost_collectives(planner, CollectiveKind::all_to_all, sizes, false).front();
  const CollectiveGraph& graph = planner.communicator().graphs[cost.plan.graph];
  std::vector<double> carried(topology.links());
  const double of_fifo = static_cast<double>(bytes.value) / graph.ranks / graph.channels;
  FifoRoutes(topology, std::array{cost.plan}, {})
      .for_each(cost.plan.graph, graph, [&](std::uint32_t, const Route& route) {
        for (const LinkId link : route) {
          carried[link.index()] += of_fifo;
        }
      });
  AllToAll is{to_seconds(cost.time).value, 0, ""};
  for (std::size_t l = 0; l < carried.size(); ++l) {
    const Link& link = topology.link(LinkId(l));
    if (const double takes = carried[l] / link.bandwidth.value; takes > is.busiest) {
      is = {is.seconds, takes, topology.device_name(link.from) + " to " + topology.device_name(link.to)};
    }
  }
  return is;
}

TEST_CASE("no all-to-all ends before its busiest link has carried it") {
  Dice dice(19);
  for (const char* node : {"aws-p2.8xlarge", "gcp-n1-standard-32-k80x8", "pcie-a100", "aws-p3dn", "dgx1-v100",
                           "aws-p4d", "dgx2-v100", "dgx-h100", "dgx-b200"}) {
    for (const int nodes : {1, 2, 4}) {
      ClusterSpec cluster;
      cluster.node = node_preset(node);
      cluster.nodes = nodes;
      cluster.gpus_per_node = static_cast<int>(dice.between(2, cluster.node.gpus));
      if (nodes == 4) {
        cluster.fabric = {.kind = FabricKind::leaf_spine, .nodes_per_leaf = 2, .oversubscription = 8};
      }
      const AllToAll is = all_to_all(cluster, Bytes(1 << 30));
      CAPTURE(node, nodes, cluster.gpus_per_node, is.link);
      CHECK(is.seconds > 0.999 * is.busiest);
    }
  }
}

TEST_CASE("where nodes have a NIC of 10 Gb/s, an all-to-all takes what that NIC needs") {
  ClusterSpec cluster;
  cluster.node = node_preset("aws-p2.8xlarge");
  cluster.nodes = 2;
  cluster.gpus_per_node = 8;
  const AllToAll is = all_to_all(cluster, Bytes(1 << 30));
  CHECK(is.busiest == Approx(8.0 * 8 * (1 << 30) / 16 / 1.25e9));
  CHECK(is.seconds / is.busiest > 1);
  CHECK(is.seconds / is.busiest < 1.1);  // TCP's part of the rate
}

// The NICs that a job's FIFOs leave a GPU of a node by, and those that they reach one by.
struct NicsOfGpus {
  std::map<int, std::set<int>> out, in;
};

NicsOfGpus nics_of(const ClusterSpec& cluster, CollectiveKind kind, const CollectiveSpec& spec) {
  const Topology topology = build_topology(cluster);
  CollectivePlanner planner = nccl_planner(topology, spec, {});
  const CollectiveCost cost = cost_collectives(planner, kind, std::array{Bytes(1 << 24)}, false).front();
  const CollectiveGraph& graph = planner.communicator().graphs[cost.plan.graph];
  const auto gpu = [&](std::uint32_t thread_block) {
    return static_cast<int>(graph.thread_blocks[thread_block].rank) % cluster.gpus_per_node;
  };
  NicsOfGpus nics;
  for (const Fifo& fifo : graph.fifos) {
    if (fifo.nic_out >= 0) {
      nics.out[gpu(fifo.from)].insert(fifo.nic_out);
      nics.in[gpu(fifo.to)].insert(fifo.nic_in);
    }
  }
  return nics;
}

TEST_CASE("a GPU's own messages cross the cards beside it, channel after channel") {
  struct Case {
    const char* preset;
    int cards, of_gpu;  // of a node, of a GPU
    const char* nccl;
  };
  // The cards of oci-bm.gpu.h100.8 have two ports, which NCCL takes for NICs of their own before 2.20.
  for (const auto& [preset, cards, of_gpu, nccl] :
       {Case{"gb200-nvl72", 72, 1, "2.30"}, Case{"dgx-h100", 8, 1, "2.30"}, Case{"dgx-h100", 16, 2, "2.30"},
        Case{"oci-bm.gpu.h100.8", 8, 1, "2.18"}, Case{"oci-bm.gpu.h100.8", 8, 1, "2.30"}}) {
    ClusterSpec cluster;
    cluster.node = node_preset(preset);
    cluster.node.nics = cards;
    cluster.nodes = 2;
    cluster.gpus_per_node = cluster.node.gpus;
    CollectiveSpec spec{.nccl = nccl, .min_channels = 4, .max_channels = 4};
    for (const CollectiveKind kind : {CollectiveKind::all_to_all, CollectiveKind::send_recv}) {
      const NicsOfGpus used = nics_of(cluster, kind, spec);
      const bool all = kind == CollectiveKind::all_to_all;
      CAPTURE(preset, cards, nccl, all);
      CHECK(std::ssize(used.out) == (all ? cluster.gpus_per_node : 1));
      CHECK(std::ssize(used.in) == (all ? cluster.gpus_per_node : 1));
      for (const auto& gpus : {used.out, used.in}) {
        for (const auto& [gpu, nics] : gpus) {
          CHECK(std::ssize(nics) == of_gpu);
          CHECK(*nics.begin() / of_gpu == gpu);
          CHECK(*nics.rbegin() / of_gpu == gpu);
        }
      }
    }
    if (cards == 8) {
      spec.algorithm = "hierarchical";
      for (const auto& [gpu, nics] : nics_of(cluster, CollectiveKind::all_reduce, spec).out) {
        CHECK(nics == std::set{gpu});
      }
    }
  }
}

TEST_CASE("GPUs that share cards have each its own of them, and ports of TCP are their cards") {
  ClusterSpec cluster;
  cluster.node = node_preset("gcp-a3-highgpu-8g");
  cluster.nodes = 2;
  cluster.gpus_per_node = 8;
  const NicsOfGpus shared = nics_of(cluster, CollectiveKind::all_to_all, {});
  for (int gpu = 0; gpu < 8; ++gpu) {
    CHECK(shared.out.at(gpu) == std::set{gpu / 2});
  }
  cluster.node = node_preset("dgx-h100");
  cluster.node.network = NetworkKind::tcp;
  cluster.node.nic_ports = 2;
  for (const auto& [gpu, nics] : nics_of(cluster, CollectiveKind::all_to_all, {}).out) {
    CHECK(*nics.rbegin() < cluster.node.nics);
  }
}

}  // namespace
}  // namespace paceline
