// Hosts with one rank and one NIC each, on one switch.
#pragma once

#include "topology/cluster_spec.h"

namespace paceline {

inline ClusterSpec plain_hosts(int nodes, BytesPerSecond rate, Seconds nic_latency, Seconds pcie_latency) {
  ClusterSpec cluster;
  cluster.node.name = "host";
  cluster.node.gpus = 1;
  cluster.node.wiring = NvlinkWiring::none;
  cluster.node.pcie_bandwidth = BytesPerSecond(16e9);
  cluster.node.pcie_latency = pcie_latency;
  cluster.node.pcie_switches = cluster.node.sockets = 1;
  cluster.node.nics = 1;
  cluster.node.nic_bandwidth = rate;
  cluster.node.nic_latency = nic_latency;
  cluster.nodes = nodes;
  return cluster;
}

}  // namespace paceline
