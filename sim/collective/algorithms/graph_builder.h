// What the algorithms share: building a graph port by port, and who is whose head.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collective/algorithms.h"

namespace paceline {

// What make_graph was asked for.
struct GraphRequest {
  CollectiveKind kind = CollectiveKind::all_reduce;
  RankLayout layout;
  const GraphsOfNodes& found;
  std::uint32_t channels = 0, root = 0;
};

CollectiveGraph ring_graph(const GraphRequest&);
CollectiveGraph tree_graph(const GraphRequest&);
CollectiveGraph nvls_graph(const GraphRequest&, bool tree_between_nodes);
CollectiveGraph collnet_chain_graph(const GraphRequest&);
CollectiveGraph collnet_direct_graph(const GraphRequest&);
CollectiveGraph pat_graph(const GraphRequest&);
CollectiveGraph hierarchical_graph(const GraphRequest&);
CollectiveGraph point_to_point_graph(const GraphRequest&);

struct Port {
  std::uint32_t thread_block = 0, number = 0;
};
struct Nics {
  int out = -1, in = -1;
};

// Requires: thread blocks in the order of their channels; every port is connected once.
class GraphBuilder {
 public:
  GraphBuilder(std::uint32_t channels, std::uint32_t ranks);

  void reserve(std::size_t thread_blocks, std::size_t ports);
  std::uint32_t add_script(std::int64_t modulus, std::vector<Step> steps);  // an equal one is shared
  std::uint32_t add_thread_block(std::uint32_t rank, std::uint32_t channel, std::uint32_t script,
                                 std::size_t in_ports, std::size_t out_ports, std::int64_t shift = 0);
  std::uint32_t add_detached(std::uint32_t rank, std::uint32_t channel, std::uint32_t script,
                             std::size_t in_ports, std::size_t out_ports, std::int64_t shift = 0);
  void connect(Port from, Port to, Wire = Wire::gpu_to_gpu, Nics = {});
  CollectiveGraph finish();

 private:
  CollectiveGraph graph_;
};

// `count` ports from `first` on.
Ports ports(std::size_t first, std::size_t count);
inline constexpr Ports kFirst{0, 1};

const NodeChannel& node_channel(const ChannelGraph&, std::uint32_t channel);
// The NIC of a channel that a GPU of the node uses (src/graph/search.cc, ncclTopoGetNetDev): the first GPU
// the one beside it, any other the other one.
int nic_of(const NodeChannel&, int gpu);
// The NIC that a GPU's own messages cross: NCCL's choice. Where that isn't known, the one where a channel begins
// or ends at the GPU; else the NICs in turn.
int own_nic(const ChannelGraphs&, int gpu, std::uint32_t channel);

// The GPUs that exchange with other nodes, or with the switch, for all of their node: the distinct first GPUs
// of the channels, and with `all` then the rest. Block b of a loop is head b % count's.
class Heads {
 public:
  Heads(const ChannelGraph&, std::uint32_t gpus_per_node, bool all);
  // The first ones alone. Requires: count <= count().
  void keep(std::uint32_t count);

  std::uint32_t count() const { return static_cast<std::uint32_t>(gpus_.size()); }
  std::uint32_t gpu(std::uint32_t head) const { return gpus_[head]; }
  std::uint32_t of_gpu(std::uint32_t gpu) const { return of_gpu_[gpu]; }  // count(): not a head
  // Where a GPU heads several channels, its NICs in turn.
  int nic(std::uint32_t head, std::uint32_t channel) const;
  // How many of `blocks` are a head's.
  std::uint32_t blocks_of(std::uint32_t head, std::uint32_t blocks) const;

 private:
  std::vector<std::uint32_t> gpus_, of_gpu_;
  std::vector<std::vector<int>> nics_;  // by head
};

// The heads of every node of a group, equally many.
class HeadsOfNodes {
 public:
  HeadsOfNodes(const GraphsOfNodes&, ChannelGraph ChannelGraphs::*, const RankLayout&, bool all);

  std::uint32_t count() const { return heads_.front().count(); }
  const Heads& on(std::uint32_t node) const { return heads_[which_.empty() ? 0 : which_[node]]; }

 private:
  std::vector<Heads> heads_;
  std::vector<std::uint32_t> which_;  // by node, where they differ
};

// The network's reducing switch, for one head of every node: in and out port k are node k's. all_reduce: each
// block to all; all_gather: node k's block to all; reduce_scatter: the sum of block k to node k.
std::vector<Step> fabric_steps(CollectiveKind, std::uint32_t nodes, std::uint32_t times, std::int64_t stride);

}  // namespace paceline
