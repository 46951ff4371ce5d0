#include "topology/channel_search.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "topology/channel_paths.h"
#include "topology/graph_search.h"

namespace paceline {
namespace {

using namespace units;

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

// What the numbers of channels follow from besides the graphs; of unlike nodes the least.
struct Least {
  int compute_capability = 0, gpus = 1;
  float nic = 0;  // GB/s, of the first GPU's path to its own
};

Least least_of(const CountedNode& node, int nodes) {
  Least least{node.compute_capability, node.gpus, 0};
  if (nodes > 1 && !node.own_nics[0].empty()) {
    least.nic = node.path(node.gpu(0), node.port(node.own_nics[0][0])).rate;
  }
  return least;
}

// The number of channels that rings and trees run on.
int doubled_channels(const ChannelGraphs& graphs, const Least& node, int nodes, const SearchSpec& search) {
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

// src/transport/nvls.cc; on several nodes of SM100 since 2.30: ncclNvlsTreeSm100Tuning.
void set_nvls(ChannelGraphs& graphs, const Least& node, int nodes, const SearchSpec& search) {
  graphs.nvls_channels = 0;
  graphs.nvls_chunk = graphs.nvls_tree_chunk = Bytes(0);
  if (graphs.nvls.channels.empty()) {
    return;
  }
  const int version = search.version();
  int channels = 16;
  if (node.compute_capability >= 100) {
    channels = nodes > 1 || version < 227 ? 32 : 24;
  }
  if (node.compute_capability >= 100 && nodes > 1 && version >= 230) {
    const bool near = graphs.nvls.type_inter <= PathType::pxb;
    const bool fast = node.nic >= 48, twice = node.nic >= 96;
    graphs.nvls_chunk = 128_KiB;
    if (nodes == 2 && fast) {
      const bool small = node.gpus >= 16 || (node.gpus <= 8 && near && !twice);
      graphs.nvls_chunk = node.gpus <= 4 ? 256_KiB : 128_KiB;
      graphs.nvls_tree_chunk = node.gpus <= 4 ? 256_KiB : small ? 64_KiB : 128_KiB;
    } else if (twice && node.gpus <= 8) {
      channels = 24;
      graphs.nvls_chunk = graphs.nvls_tree_chunk = 256_KiB;
    } else if (twice) {
      graphs.nvls_tree_chunk = node.gpus < 32 ? 128_KiB : 64_KiB;
    } else if (fast) {
      channels = 24;
      graphs.nvls_tree_chunk = near ? 64_KiB : 128_KiB;
    }
  }
  graphs.nvls_channels = std::min(search.max_channels, channels);  // NCCL_MIN_NCHANNELS is of rings and trees
}

void set_channels(ChannelGraphs& graphs, const Least& node, int nodes, const SearchSpec& search) {
  graphs.channels = doubled_channels(graphs, node, nodes, search);
  set_nvls(graphs, node, nodes, search);
  // What was copied for NVLS (src/graph/connect.cc) rings and trees took, too.
  if (search.version() >= 222 && search.version() < 228) {
    graphs.channels = std::max(graphs.channels, graphs.nvls_channels);
  }
}

// A GPU's own NICs: cards, where the search counts their ports.
std::vector<std::vector<int>> own_cards(const CountedNode& node) {
  std::vector<std::vector<int>> own = node.own_nics;
  for (std::vector<int>& of_gpu : own) {
    for (int& nic : of_gpu) {
      nic /= node.nets_of_nic;
    }
  }
  return own;
}

bool runs_nvls(const CountedNode& node, const SearchSpec& search) {
  const int fewest = search.version() >= 228 ? 2 : 3;
  return search.nvls && search.version() >= 217 && node.gpus >= fewest && node.has_nvswitch &&
         node.compute_capability >= 90;
}

bool runs_collnet(int nodes, const SearchSpec& search) { return search.sharp && nodes > 1; }

}  // namespace

ChannelGraphs search_channels(const NodeLayout& layout, const NodeSpec& spec, int nodes,
                              const SearchSpec& search) {
  const CountedNode node = count_node(layout, spec, nodes, search);
  const bool several = nodes > 1;
  GraphSearch searcher(node, several, search);
  const bool large = search.version() >= 225;
  const ChannelAttempt ring = searcher.find(GraphPattern::ring, 1, large ? 32 : 16);
  const ChannelAttempt tree =
      searcher.find(GraphPattern::balanced_tree, search.version() >= 218 ? ring.found : 1, ring.found);
  ChannelGraphs graphs;
  graphs.ring = graph_of(ring, node, several);
  graphs.tree = graph_of(tree, node, several);
  if (runs_collnet(nodes, search)) {
    graphs.collnet_chain =
        graph_of(searcher.find(GraphPattern::tree, ring.found, ring.found, true), node, several);
    graphs.collnet_direct = graph_of(searcher.find(GraphPattern::collnet_direct, 1, 64, true), node, several);
  }
  if (runs_nvls(node, search)) {
    graphs.nvls = graph_of(searcher.find(GraphPattern::nvls, 1, 64), node, several);
  }
  const auto both = static_cast<std::size_t>(std::min(ring.found, tree.found));
  graphs.ring.channels.resize(both);
  graphs.tree.channels.resize(both);
  graphs.own_nics = own_cards(node);
  set_channels(graphs, least_of(node, nodes), nodes, search);
  return graphs;
}

void count_channels(ChannelGraphs& graphs, const NodeLayout& layout, const NodeSpec& spec, int nodes,
                    const SearchSpec& search) {
  const CountedNode node = count_node(layout, spec, nodes, search);
  if (!runs_nvls(node, search)) {
    graphs.nvls = {};
  }
  if (!runs_collnet(nodes, search)) {
    graphs.collnet_chain = graphs.collnet_direct = {};
  }
  graphs.own_nics = own_cards(node);
  set_channels(graphs, least_of(node, nodes), nodes, search);
}

void agree(std::span<SearchedNode> kinds, int nodes, const SearchSpec& search) {
  constexpr ChannelGraph ChannelGraphs::* kGraphs[] = {&ChannelGraphs::ring, &ChannelGraphs::tree,
                                                       &ChannelGraphs::collnet_chain,
                                                       &ChannelGraphs::collnet_direct, &ChannelGraphs::nvls};
  constexpr int kOwnSwap = 228;  // before this version all swap where one does
  for (const auto graph : kGraphs) {
    ChannelGraph least = kinds.front().graphs.*graph;
    std::size_t channels = least.channels.size();
    for (const SearchedNode& kind : kinds) {
      const ChannelGraph& one = kind.graphs.*graph;
      channels = std::min(channels, one.channels.size());
      least.same_channels = least.same_channels && one.same_channels;
      least.bw_intra = std::min(least.bw_intra, one.bw_intra);
      least.bw_inter = std::min(least.bw_inter, one.bw_inter);
      least.type_intra = std::max(least.type_intra, one.type_intra);
      least.type_inter = std::max(least.type_inter, one.type_inter);
      least.cross_nic = std::max(least.cross_nic, one.cross_nic);
    }
    for (SearchedNode& kind : kinds) {
      ChannelGraph& one = kind.graphs.*graph;
      one.channels.resize(channels);
      one.same_channels = least.same_channels;
      one.bw_intra = least.bw_intra;
      one.bw_inter = least.bw_inter;
      one.type_intra = least.type_intra;
      one.type_inter = least.type_inter;
      one.cross_nic = search.version() < kOwnSwap ? least.cross_nic : one.cross_nic;
    }
  }
  std::optional<Least> least;
  for (const SearchedNode& kind : kinds) {
    const Least one = least_of(count_node(*kind.layout, *kind.spec, nodes, search), nodes);
    least = least ? Least{std::min(least->compute_capability, one.compute_capability), one.gpus,
                          std::min(least->nic, one.nic)}
                  : one;
  }
  const std::size_t both =
      std::min(kinds.front().graphs.ring.channels.size(), kinds.front().graphs.tree.channels.size());
  for (SearchedNode& kind : kinds) {
    ChannelGraphs& graphs = kind.graphs;
    graphs.ring.channels.resize(both);
    graphs.tree.channels.resize(both);
    set_channels(graphs, *least, nodes, search);
  }
}

ChannelGraphs search_channels(const Topology& topology, const SearchSpec& search) {
  const int nodes = topology.job_nodes();
  std::vector<SearchedNode> kinds;
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t n = 0; n < static_cast<std::uint32_t>(topology.spec().runs.empty() ? 1 : nodes); ++n) {
    const std::uint32_t kind = topology.kind_of(n);
    if (std::ranges::find(numbers, kind) == numbers.end()) {
      const NodeSpec& spec = topology.spec_of_kind(kind);
      SearchSpec of_kind = search;
      of_kind.gdr = search.gdr && spec.gpu_direct;
      numbers.push_back(kind);
      kinds.push_back({&topology.node(n), &spec, search_channels(topology.node(n), spec, nodes, of_kind)});
    }
  }
  if (kinds.size() > 1) {
    agree(kinds, nodes, search);
  }
  return kinds.front().graphs;
}

}  // namespace paceline
