// Finds the channels of a job as NCCL's graph search does (src/graph/search.cc, src/graph/connect.cc).
//
// The search maximises channels * bandwidth per channel: for each candidate speed it lays channels one after
// the other, each taking its speed from every link on its path, and relaxes in NCCL's order (same channels,
// simpler tree, worse path types, crossNic, lower speed). It counts with NCCL's own link rates, which only
// select; what a transfer costs is priced elsewhere from ClusterSpec's bandwidths.
//
// It is the search of NCCL 2.30; an older version changes rates, speeds and limits, and what it tried in which order
// (tests/formula/nccl_search.csv).
#pragma once

#include <span>

#include "topology/channel_graph.h"
#include "topology/topology.h"

namespace paceline {

struct SearchSpec {
  int nccl_major = 2, nccl_minor = 30;      // link rates and speeds by version
  int cross_nic = 2;                        // NCCL_CROSS_NIC: 0, 1, 2 (0, then 2 where it is wider)
  bool pxn = true;                          // NCCL_PXN_DISABLE=0
  bool gdr = true;                          // NICs reach GPU memory (GPUDirect RDMA); false: TCP sockets
  int min_channels = 0, max_channels = 64;  // NCCL_MIN_NCHANNELS / NCCL_MAX_NCHANNELS (CTAs); 0: no minimum
  bool nvls = true;                         // NCCL_NVLS_ENABLE
  bool sharp = false;                       // the fabric reduces (CollNet plugin)
  int version() const { return 100 * nccl_major + nccl_minor; }
};

// What the job's first node runs on. Channels may use any NIC of the node, near a GPU in use or not. GPUDirect where
// the node has it, too. Cost: bounded as NCCL's search is, by a budget of steps; milliseconds for a node of 8 GPUs.
ChannelGraphs search_channels(const Topology&, const SearchSpec&);
// Of `nodes` such nodes. Requires: a NIC where there are several.
ChannelGraphs search_channels(const NodeLayout&, const NodeSpec&, int nodes, const SearchSpec&);

// How many channels graphs that were read from NCCL's file run on, and NVLS's chunks, on `nodes` such nodes; without
// the graphs for which nothing would be searched.
void count_channels(ChannelGraphs&, const NodeLayout&, const NodeSpec&, int nodes, const SearchSpec&);

// One kind of node in a group, and what was found on it.
struct SearchedNode {
  const NodeLayout* layout = nullptr;
  const NodeSpec* spec = nullptr;
  ChannelGraphs graphs;
};
// Where nodes differ each has searched for itself, and all take the least of what was found (src/init.cc, after the
// third all-gather; src/graph/connect.cc): of every graph the first channels, as many as all have, at the least speeds
// and the worst paths. Changes the kinds' graphs to that, but for their orders, NICs and patterns. Requires: kinds
// with equally many GPUs in use, `nodes` together.
void agree(std::span<SearchedNode> kinds, int nodes, const SearchSpec&);

}  // namespace paceline
