#include "topology/channel_search.h"

#include <algorithm>

#include "topology/channel_paths.h"
#include "topology/graph_search.h"

namespace paceline {
namespace {

ChannelGraph graph_of(const ChannelAttempt& attempt, const CountedNode& node, bool several_nodes) {
  ChannelGraph graph;
  graph.pattern = attempt.pattern;
  graph.cross_nic = attempt.cross_nic;
  graph.bw_intra = static_cast<double>(attempt.bw_intra);
  graph.bw_inter = static_cast<double>(attempt.bw_inter);
  graph.type_intra = attempt.type_intra;
  graph.type_inter = attempt.type_inter;
  graph.same_channels = attempt.same_channels;
  graph.channels = attempt.channels;
  for (NodeChannel& channel : graph.channels) {
    channel.nic_in = several_nodes ? channel.nic_in / node.nets_of_nic : -1;
    channel.nic_out = several_nodes ? channel.nic_out / node.nets_of_nic : -1;
  }
  return graph;
}

// The number of channels that rings and trees run on.
int doubled_channels(const ChannelGraphs& graphs, const CountedNode& node, int nodes,
                     const SearchSpec& search) {
  const int version = search.version();
  const int limit = version >= 225 ? 64 : 32;
  int channels = std::min(limit, 2 * static_cast<int>(graphs.ring.channels.size()));
  if (!graphs.collnet_chain.channels.empty() &&
      graphs.collnet_chain.bw_intra > graphs.collnet_chain.bw_inter && node.gpus > 1) {
    channels = std::min(limit, channels + channels / 2);
  }
  const bool hopper = node.compute_capability == 90 || (node.compute_capability > 90 && version >= 225);
  const bool few = version >= 220 ? channels < 16 : 2 * channels <= limit;
  if (version >= 218 && hopper && nodes > 1 && graphs.ring.bw_intra > 45 && few) {
    channels *= 2;
  }
  channels = std::min({channels, search.max_channels, limit});
  return std::max(channels, std::min(search.min_channels, limit));
}

// On several nodes of SM100: src/transport/nvls.cc.
int nvls_channels(const CountedNode& node, int nodes, const SearchSpec& search) {
  const int version = search.version();
  int channels = 16;
  if (node.compute_capability >= 100) {
    channels = nodes > 1 || version < 227 ? 32 : 24;
  }
  if (node.compute_capability >= 100 && nodes > 1 && version >= 230) {
    const float nic = node.path(node.gpu(0), node.port(node.own_nics[0][0])).rate;
    const bool two_fast = nodes == 2 && nic >= 48;
    const bool many_gpus = nic >= 96 && node.gpus > 8;
    channels = nic >= 48 && !two_fast && !many_gpus ? 24 : 32;
  }
  return std::max(search.min_channels, std::min(search.max_channels, channels));
}

}  // namespace

ChannelGraphs search_channels(const NodeLayout& layout, const NodeSpec& spec, int nodes,
                              const SearchSpec& search) {
  const CountedNode node = count_node(layout, spec, nodes, search);
  const bool several = nodes > 1;
  GraphSearch searcher(node, several, search);
  const bool large = search.version() >= 225;
  const ChannelAttempt ring = searcher.find(GraphPattern::ring, 1, large ? 32 : 16);
  const ChannelAttempt tree = searcher.find(GraphPattern::balanced_tree, ring.found, ring.found);
  ChannelGraphs graphs;
  graphs.ring = graph_of(ring, node, several);
  graphs.tree = graph_of(tree, node, several);
  if (search.sharp && several) {
    graphs.collnet_chain =
        graph_of(searcher.find(GraphPattern::tree, ring.found, ring.found, true), node, several);
    graphs.collnet_direct = graph_of(searcher.find(GraphPattern::collnet_direct, 1, 64, true), node, several);
  }
  if (search.nvls && search.version() >= 217 && node.gpus > 1 && node.has_nvswitch &&
      node.compute_capability >= 90) {
    graphs.nvls = graph_of(searcher.find(GraphPattern::nvls, 1, 64), node, several);
  }
  const auto both = static_cast<std::size_t>(std::min(ring.found, tree.found));
  graphs.ring.channels.resize(both);
  graphs.tree.channels.resize(both);
  graphs.channels = doubled_channels(graphs, node, nodes, search);
  graphs.nvls_channels = graphs.nvls.channels.empty() ? 0 : nvls_channels(node, nodes, search);
  return graphs;
}

ChannelGraphs search_channels(const Topology& topology, const SearchSpec& search) {
  return search_channels(topology.node(), topology.spec().node, topology.job_nodes(), search);
}

}  // namespace paceline
