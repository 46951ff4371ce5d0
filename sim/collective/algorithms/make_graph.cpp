// Which algorithm runs what, and where to find it.
#include <cassert>
#include <stdexcept>

#include "sim/collective/algorithms.h"
#include "sim/collective/algorithms/graph_builder.h"

namespace paceline {

bool runs(Algorithm algorithm, CollectiveKind kind, const RankLayout& layout) {
  const bool all_reduce = kind == CollectiveKind::all_reduce;
  const bool several_nodes = layout.nodes > 1, several_gpus = layout.gpus_per_node > 1;
  switch (algorithm) {
    case Algorithm::tree:
      return all_reduce;
    case Algorithm::ring:
      return !between_peers(kind);
    case Algorithm::collnet_direct:
      return (all_reduce || gathers_or_scatters(kind)) && several_nodes;
    case Algorithm::collnet_chain:
      return all_reduce && several_nodes;
    case Algorithm::nvls:
      return (all_reduce || gathers_or_scatters(kind)) && several_gpus;
    case Algorithm::nvls_tree:
      return all_reduce && several_nodes && several_gpus;
    case Algorithm::pat:
      return gathers_or_scatters(kind) && !several_gpus;
    case Algorithm::hierarchical:
      return all_reduce && several_nodes;
    case Algorithm::point_to_point:
      return between_peers(kind);
    case Algorithm::mpi_ring:
    case Algorithm::recursive_doubling:
    case Algorithm::gloo_ring:
    case Algorithm::binomial_tree:
    case Algorithm::tensorflow_ring:
      return false;  // NCCL has none of them: sim/collective/host_collectives.h
  }
  throw std::logic_error("no such algorithm");
}

CollectiveGraph make_graph(Algorithm algorithm, CollectiveKind kind, const RankLayout& layout,
                           const GraphsOfNodes& found, std::uint32_t channels, std::uint32_t root) {
  assert(runs(algorithm, kind, layout) && channels >= 1 && layout.ranks() >= 2 && root < layout.ranks());
  const GraphRequest request{kind, layout, found, channels, root};
  switch (algorithm) {
    case Algorithm::tree:
      return tree_graph(request);
    case Algorithm::ring:
      return ring_graph(request);
    case Algorithm::collnet_direct:
      return collnet_direct_graph(request);
    case Algorithm::collnet_chain:
      return collnet_chain_graph(request);
    case Algorithm::nvls:
      return nvls_graph(request, false);
    case Algorithm::nvls_tree:
      return nvls_graph(request, true);
    case Algorithm::pat:
      return pat_graph(request);
    case Algorithm::hierarchical:
      return hierarchical_graph(request);
    case Algorithm::point_to_point:
      return point_to_point_graph(request);
    case Algorithm::mpi_ring:
    case Algorithm::recursive_doubling:
    case Algorithm::gloo_ring:
    case Algorithm::binomial_tree:
    case Algorithm::tensorflow_ring:
      break;
  }
  throw std::logic_error("no such algorithm");
}

std::uint32_t blocks_per_loop(Algorithm algorithm, CollectiveKind kind, const RankLayout& layout) {
  const bool all_reduce = kind == CollectiveKind::all_reduce;
  const bool one = has_root(kind) || kind == CollectiveKind::send_recv;
  switch (algorithm) {
    case Algorithm::tree:
    case Algorithm::collnet_chain:
      return 1;
    case Algorithm::collnet_direct:
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      return all_reduce ? layout.gpus_per_node : layout.ranks();
    case Algorithm::ring:
    case Algorithm::pat:
    case Algorithm::hierarchical:
    case Algorithm::point_to_point:
    case Algorithm::mpi_ring:
    case Algorithm::tensorflow_ring:
      return one ? 1 : layout.ranks();
    case Algorithm::gloo_ring:
      return 2 * layout.ranks();  // at least: gloo_segments
    case Algorithm::recursive_doubling:
    case Algorithm::binomial_tree:
      return 1;
  }
  throw std::logic_error("no such algorithm");
}

}  // namespace paceline
