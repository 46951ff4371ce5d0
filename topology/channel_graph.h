// What NCCL's graph search finds on a node (src/graph/topo.h, ncclTopoGraph): the orders of GPUs in which
// channels run, and how wide they are. Nodes that are alike have the same orders.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/names.h"
#include "core/units.h"

namespace paceline {

// Paths between two devices, best first (src/graph/topo.h, PATH_*).
enum class PathType : std::uint8_t { loc, nvl, nvb, c2c, pix, pxb, p2c, pxn, phb, sys, net, dis };
template <>
inline constexpr auto kNames<PathType> = names<PathType>({{"LOC", PathType::loc},
                                                          {"NVL", PathType::nvl},
                                                          {"NVB", PathType::nvb},
                                                          {"C2C", PathType::c2c},
                                                          {"PIX", PathType::pix},
                                                          {"PXB", PathType::pxb},
                                                          {"P2C", PathType::p2c},
                                                          {"PXN", PathType::pxn},
                                                          {"PHB", PathType::phb},
                                                          {"SYS", PathType::sys},
                                                          {"NET", PathType::net},
                                                          {"DIS", PathType::dis}});

enum class GraphPattern : std::uint8_t { balanced_tree = 1, split_tree, tree, ring, nvls, collnet_direct };
template <>
inline constexpr auto kNames<GraphPattern> =
    names<GraphPattern>({{"balanced_tree", GraphPattern::balanced_tree},
                         {"split_tree", GraphPattern::split_tree},
                         {"tree", GraphPattern::tree},
                         {"ring", GraphPattern::ring},
                         {"nvls", GraphPattern::nvls},
                         {"collnet_direct", GraphPattern::collnet_direct}});

// One channel on a node. ring: NIC -> gpus in order -> NIC, or a cycle on one node. Trees and chains: a chain
// of gpus whose first is beside the NIC (split_tree: the second sends up to the NIC too). nvls and
// collnet_direct: the channel's head first.
struct NodeChannel {
  std::vector<int> gpus;          // places among the GPUs in use
  int nic_in = -1, nic_out = -1;  // of the node; -1 on one node
  friend bool operator==(const NodeChannel&, const NodeChannel&) = default;
};

struct ChannelGraph {
  GraphPattern pattern = GraphPattern::ring;
  int cross_nic = 0;                  // 2: channels come in pairs, and odd nodes swap the two of a pair
  double bw_intra = 0, bw_inter = 0;  // GB/s of one channel, as the search counts
  PathType type_intra = PathType::loc, type_inter = PathType::pix;
  double latency_inter = 0;  // us, of the network device; 0 where it states none
  bool same_channels = true;
  std::vector<NodeChannel> channels;  // empty: none found
  friend bool operator==(const ChannelGraph&, const ChannelGraph&) = default;
};

inline constexpr int kMostChannels = 64;

// The graphs of one job. `channels` is the number that rings and trees run on after doubling
// (src/graph/connect.cc), 0 where they are not counted yet (count_channels); channel c takes the order of
// c % ring.channels.size().
struct ChannelGraphs {
  ChannelGraph ring, tree, collnet_chain, collnet_direct, nvls;
  int channels = 0, nvls_channels = 0;
  Bytes nvls_chunk{0}, nvls_tree_chunk{0};  // at most; 0: as on other machines (sim/collective/sizing.cpp)
  // Of a GPU, in turn channel by channel: those that its own messages cross (src/graph/topo.cc, ncclTopoGetLocalNet).
  // Empty: unknown.
  std::vector<std::vector<int>> own_nics{};
  friend bool operator==(const ChannelGraphs&, const ChannelGraphs&) = default;
};

// What each node of a group runs on: as many channels of every graph as any other.
class GraphsOfNodes {
 public:
  GraphsOfNodes(const ChannelGraphs& all)
      : all_(&all) {}  // of nodes that are alike; not explicit: the usual case
  // Requires: the graphs outlive it.
  explicit GraphsOfNodes(std::vector<const ChannelGraphs*> by_node)
      : all_(by_node.front()), by_node_(std::move(by_node)) {}

  const ChannelGraphs& on(std::uint32_t node) const { return by_node_.empty() ? *all_ : *by_node_[node]; }
  const ChannelGraphs& first() const { return *all_; }
  bool alike() const { return by_node_.empty(); }

 private:
  const ChannelGraphs* all_;
  std::vector<const ChannelGraphs*> by_node_;
};

}  // namespace paceline
