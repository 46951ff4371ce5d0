// The algorithms: pure functions from who is where to the graph of thread blocks that runs a collective.
//
// Ranks stand as RankLayout says. Channel c < channels runs in the order of
// channel c % size of the ChannelGraph that its algorithm uses. Sources: NCCL src/device/{all_reduce,
// all_gather, reduce_scatter, broadcast, reduce}.h and src/include/collectives.h (what each rank does),
// src/graph/connect.cc and trees.cc (who is whose neighbour), src/init.cc (the order of peers).
//
// FIFOs must hold at least: one slice more than a step has (ring, but for broadcast and reduce;
// hierarchical), a step's slices (pat, collnet_direct, point_to_point), one slice (the others); else the
// thread blocks deadlock.
#pragma once

#include <cstdint>

#include "sim/collective/family.h"
#include "sim/collective/plan.h"
#include "topology/channel_graph.h"

namespace paceline {

// Whether the algorithm exists for this collective at all (NCCL's rules of src/graph/tuning.cc; hierarchical
// for all_reduce on several nodes of equal size; point_to_point for all_to_all and send_recv alone).
bool runs(Algorithm, CollectiveKind, const RankLayout&);

// Requires: runs(algorithm, kind, layout), channels >= 1, layout.ranks() >= 2, root < ranks (broadcast and
// reduce), and the graph that the algorithm uses has channels: ring (ring, pat, hierarchical,
// point_to_point), tree (tree), nvls (nvls, nvls_tree), collnet_chain, collnet_direct.
// The first GPUs of an nvls or collnet_direct graph's channels are the heads, in that order, as many as in the node
// that has fewest. all_gather and
// reduce_scatter make heads of the rest too (NCCL does not run them there).
// `root`: of broadcast and reduce. Cost: O(thread blocks + FIFOs).
CollectiveGraph make_graph(Algorithm, CollectiveKind, const RankLayout&, const GraphsOfNodes&,
                           std::uint32_t channels, std::uint32_t root = 0);

// Data blocks of one loop of one channel: the chunk is ceil(bytes of the channel / (loops * blocks)).
// tree, collnet_chain, broadcast, reduce, send_recv: 1; all_reduce of nvls, nvls_tree and collnet_direct: the
// GPUs of a node; all else: ranks.
std::uint32_t blocks_per_loop(Algorithm, CollectiveKind, const RankLayout&);

// Parent and children of a node in NCCL's double binary tree over nodes 0 .. nodes-1 (src/graph/trees.cc,
// ncclGetDtree): tree 0, and tree 1, its mirror (even number of nodes) or shift by one (odd). -1: none.
struct TreePlace {
  int up = -1;
  int down[2] = {-1, -1};
};
TreePlace double_binary_tree(int nodes, int node, int tree);

}  // namespace paceline
