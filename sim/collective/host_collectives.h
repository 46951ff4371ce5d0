// Collectives of libraries that run on hosts, over TCP.
//
// OpenMPI with coll_tuned told to use rings (ompi/mca/coll/base/coll_base_{allreduce,allgather,reduce_scatter,
// bcast}.c of OpenMPI 4): all ranks stand in one ring in their order; the data is cut into one block for each. An
// all-reduce passes n-1 blocks on to be reduced, each on arrival, and n-1 reduced ones to all; with fewer elements
// than ranks it doubles recursively instead. A broadcast passes everything down a chain in one piece. A block is
// one message; a rank sends one at a time and the next as soon as the socket takes it: a reduction delays the
// block that it is about, but not the link.
//
// gloo, as PyTorch's ProcessGroupGloo uses it (gloo/{allreduce,allgather,broadcast}.cc): the same ring the other
// way round, of segments of at most 1 MiB, at least two for each rank, so that one moves while another is reduced;
// a reduce-scatter is an all-reduce of which each rank keeps its part (ProcessGroupGloo.cpp); a broadcast goes
// down a binomial tree. An all-gather waits for who comes last (docs/model.md). Two threads of a
// group take one operation each (TrainingJob::workers).
//
// TensorFlow's RingReducer (tensorflow/core/common_runtime/ring_{alg,reducer}.cc; collective_rma_distributed.cc), with
// the one subdivision that tf.distribute asks for: OpenMPI's ring, each chunk, of whole lines of 64 B, going on
// as soon as it is reduced, by a kernel. Within a node from GPU to GPU; between nodes by way of both hosts: a
// copy to the host, a call of gRPC, a copy to the GPU, one after the other for a chunk, beside each other for
// several.
//
// The job's GPUs of a node share its NICs evenly.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "sim/collective/algorithms.h"
#include "sim/collective/communicator.h"
#include "sim/collective/costs.h"
#include "sim/collective/placed_family.h"
#include "sim/collective/shared_links.h"

namespace paceline {

// What arrives on the FIFOs before `reducing` is reduced before it goes on.
struct HostGraph {
  CollectiveGraph graph;
  std::uint32_t reducing = 0;
};

// kind: all_reduce, all_gather, reduce_scatter or broadcast. nics: of each rank, or of each GPU of a node where
// nodes are alike; where there are several nodes. Requires: two ranks or more. Cost: O(ranks).
HostGraph mpi_ring_graph(CollectiveKind, const RankLayout&, std::span<const int> nics,
                         std::uint32_t root = 0);
// An all-reduce of one block.
HostGraph recursive_doubling_graph(const RankLayout&, std::span<const int> nics);

// Segments of each rank's part of an all-reduce.
std::uint32_t gloo_segments_per_rank(std::uint32_t ranks, Bytes);
// kind: all_reduce or all_gather, whose parts are of two segments.
HostGraph gloo_ring_graph(CollectiveKind, const RankLayout&, std::span<const int> nics,
                          std::uint32_t segments);
// A broadcast.
HostGraph binomial_tree_graph(const RankLayout&, std::span<const int> nics, std::uint32_t root);

// Of a rank's node, by the links between, the first of several; nothing where it has none.
std::optional<DeviceId> nearest_cpu(const Topology&, Rank);

// Throws InputError for all_to_all, send_recv and reduce.
void require_runs(CollectiveLibrary, CollectiveKind);

// In the groups of one family.
class HostCollectives {
 public:
  // Throws InputError for a cost that there is not. Requires: the topology outlives this; groups of more than one
  // rank.
  HostCollectives(const Topology&, const CollectiveSpec&, std::span<const BackgroundFlow>,
                  const GroupShape& = kAllRanks);

  const CollectiveCosts& costs() const { return costs_; }

  // Adds the graph that it needs to the communicator; priced with costs(). Throws as require_runs.
  CollectivePlan plan(Communicator&, CollectiveKind, Bytes, std::uint32_t root = 0);
  void price(CollectivePlan&, const Communicator&, const CollectiveCosts&) const;

 private:
  struct Way {
    Algorithm algorithm = Algorithm::mpi_ring;
    CollectiveKind kind = CollectiveKind::all_reduce;  // that the library runs
    std::uint32_t root = 0;
    std::uint32_t blocks = 1;  // that the data is cut into
    friend auto operator<=>(const Way&, const Way&) = default;
  };
  Way mpi_way(CollectiveKind, Bytes, std::uint32_t root) const;
  Way gloo_way(CollectiveKind, Bytes, std::uint32_t root) const;
  Way tensorflow_way(CollectiveKind) const;
  HostGraph made(const Way&, std::span<const int> nics) const;
  std::uint32_t graph(Communicator&, const Way&);

  const Topology& topology_;
  CollectiveLibrary library_;
  PlacedFamily family_;
  SharedLinks links_;
  CollectiveCosts costs_;
  std::map<Way, std::uint32_t> graphs_;
};

// With the spec's corrections. Requires: the topology outlives the planner.
CollectivePlanner host_planner(const Topology&, const CollectiveSpec&,
                               std::span<const BackgroundFlow> background);

}  // namespace paceline
