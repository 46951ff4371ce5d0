// Collectives as OpenMPI runs them over TCP, with coll_tuned told to use rings
// (ompi/mca/coll/base/coll_base_{allreduce,allgather,reduce_scatter,bcast}.c of OpenMPI 4).
//
// All ranks stand in one ring in their order; the data is cut into one block for each. An all-reduce passes
// n-1 blocks on to be reduced, each on arrival, and n-1 reduced ones to all; with fewer elements than ranks
// it doubles recursively instead. A broadcast passes everything down a chain in one piece. A block is one
// message; a rank sends one at a time and the next as soon as the socket takes it: a reduction delays the
// block that it is about, but not the link. The job's GPUs of a node share its NICs evenly.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>

#include "sim/collective/algorithms.h"
#include "sim/collective/communicator.h"
#include "sim/collective/costs.h"
#include "sim/collective/placed_family.h"
#include "sim/collective/pricing.h"

namespace paceline {

// What arrives on the FIFOs before `reducing` is reduced before it goes on.
struct MpiGraph {
  CollectiveGraph graph;
  std::uint32_t reducing = 0;
};

// kind: all_reduce, all_gather, reduce_scatter or broadcast. nics: of each GPU of a node, where there are several
// nodes. Requires: two ranks or more. Cost: O(ranks).
MpiGraph mpi_ring_graph(CollectiveKind, const RankLayout&, std::span<const int> nics, std::uint32_t root = 0);
// An all-reduce of one block.
MpiGraph recursive_doubling_graph(const RankLayout&, std::span<const int> nics);

// In the groups of one family.
class MpiCollectives {
 public:
  // Throws InputError for a cost that there is not. Requires: the topology outlives this; groups of more than one
  // rank.
  MpiCollectives(const Topology&, const CollectiveSpec&, std::span<const BackgroundFlow>,
                 const GroupShape& = kAllRanks);

  const CollectiveCosts& costs() const { return costs_; }

  // Adds the graph that it needs to the communicator; priced with costs(). Throws InputError for all_to_all,
  // send_recv and reduce.
  CollectivePlan plan(Communicator&, CollectiveKind, Bytes, std::uint32_t root = 0);
  void price(CollectivePlan&, const Communicator&, const CollectiveCosts&) const;

 private:
  std::uint32_t graph(Communicator&, Algorithm, CollectiveKind, std::uint32_t root);

  const Topology& topology_;
  PlacedFamily family_;
  SharedLinks links_;
  CollectiveCosts costs_;
  std::map<std::tuple<Algorithm, CollectiveKind, std::uint32_t>, std::uint32_t> graphs_;  // with the root
};

// With the spec's corrections. Requires: the topology outlives the planner.
CollectivePlanner mpi_planner(const Topology&, const CollectiveSpec&,
                              std::span<const BackgroundFlow> background);

}  // namespace paceline
