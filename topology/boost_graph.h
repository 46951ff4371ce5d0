// The cluster's graph as Boost.Graph has it. Apart from topology.h, since Boost's headers take a second to
// compile and few files look inside.
#pragma once

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <cstdint>

#include "topology/topology.h"

namespace paceline {

// Vertex = DeviceId, edge index = LinkId.
struct BoostGraph
    : boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                         boost::no_property, std::uint32_t, std::uint32_t> {
  using compressed_sparse_row_graph::compressed_sparse_row_graph;
};

}  // namespace paceline
