// No all-to-all ends before its busiest link has carried what all ranks send over it, wherever that link is: a NIC of
// a node, the sockets' link, the way out of an oversubscribed leaf.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
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

}  // namespace
}  // namespace paceline
