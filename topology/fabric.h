// The shape of the network above the NICs, as arithmetic: nothing here is a table.
//
// Nodes sit in groups: those below one leaf, or below one set of rail leaves. Leaves sit in pods; every spine
// of a pod has one cable to every leaf of the pod, and belongs to a plane (its number in the pod) whose cores
// join the pods. leaf_spine and rail_optimized are one pod without cores; one leaf needs no spine. Parallel
// cables between two switches are one link of their summed bandwidth, and no plane is wider than kMostSpines
// spines or cores, which keeps a million GPUs small.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/cluster_spec.h"

namespace paceline {

struct FabricLayout {
  static constexpr std::uint32_t kMostSpines = 64;

  std::uint32_t nodes = 0, nics = 0;  // nics: of the node that has most
  struct Cards {
    std::uint32_t first_node = 0, nics = 0;
  };
  std::vector<Cards> cards;  // of runs of nodes, where these have more or fewer; empty: `nics` each
  std::uint32_t nodes_per_group = 1, groups = 0;
  std::uint32_t rails = 1;  // leaves per group: nics of a node, or 1
  std::uint32_t leaves_per_pod = 1, pods = 0;
  std::uint32_t spines_per_pod = 0, cores_per_plane = 0;
  bool striped = false;
  BytesPerSecond uplink;  // leaf - spine: over all spines of a leaf, ports * nic bandwidth / oversubscription
  BytesPerSecond core_link;  // spine - core: over all cores of a spine, as much as its leaves could send it
  Seconds switch_latency;

  std::uint32_t leaves() const { return groups * rails; }
  std::uint32_t spines() const { return pods * spines_per_pod; }
  std::uint32_t cores() const { return spines_per_pod * cores_per_plane; }
  std::uint32_t devices() const { return leaves() + spines() + cores(); }

  std::uint32_t group_of(std::uint32_t node) const {
    return striped ? node % groups : node / nodes_per_group;
  }
  std::uint32_t place_of(std::uint32_t node) const {
    return striped ? node / groups : node % nodes_per_group;
  }
  std::uint32_t node_at(std::uint32_t group, std::uint32_t place) const;
  // Of the nodes 0 .. below-1, those in the group; they have its first places.
  std::uint32_t nodes_in(std::uint32_t group, std::uint32_t below) const;

  std::uint32_t ports_per_node() const { return nics / rails; }  // on one leaf, of the node that has most
  std::uint32_t leaf_of(std::uint32_t node, std::uint32_t nic) const {
    return group_of(node) * rails + nic % rails;
  }
  std::uint32_t port_of(std::uint32_t node, std::uint32_t nic) const {
    return ports_before(group_of(node), nic % rails, node) + nic / rails;
  }
  std::uint32_t ports_in_use(std::uint32_t leaf) const {
    return ports_before(leaf / rails, leaf % rails, nodes);
  }
  // On a rail's leaf of a group, of the nodes 0 .. below-1.
  std::uint32_t ports_before(std::uint32_t group, std::uint32_t rail, std::uint32_t below) const;
  std::uint32_t leaves_in(std::uint32_t pod) const;

  // NICs are counted leaf by leaf. Static routing by destination, as InfiniBand's subnet manager programs it,
  // reaches NIC i through plane i modulo planes and core i / planes modulo cores of the plane; ECMP has a
  // hash of both NICs in the place of i.
  std::uint64_t nic_index(std::uint32_t leaf, std::uint32_t port) const {
    return std::uint64_t{leaf} * nodes_per_group * ports_per_node() + port;
  }
};

// Requires: a spec that check_cluster accepts.
FabricLayout make_fabric_layout(const ClusterSpec& spec);

}  // namespace paceline
