// What the FIFOs of a job's collectives carry, and over which links.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "sim/collective/family.h"
#include "sim/collective/placed_family.h"
#include "sim/collective/plan.h"
#include "topology/topology.h"

namespace paceline {

// By FIFO: what it carries of a collective, as a share of that's bytes. With rings exactly what those need. Cost:
// O(thread blocks).
std::vector<double> shares_of_fifos(const CollectiveGraph&);

// The routes of FIFOs, which nobody keeps: found anew. Requires: the plans were made on this topology, and it
// outlives this.
class FifoRoutes {
 public:
  FifoRoutes(const Topology&, std::span<const CollectivePlan>, std::span<const Family>);

  template <class F>  // f(FIFO, route)
  void for_each(std::uint32_t number, const CollectiveGraph& graph, const F& f) const {
    const PlacedFamily& family = placed_.at(family_of_.at(number));
    for (std::uint32_t i = 0; i < graph.fifos.size(); ++i) {
      f(i, family.route(graph, graph.fifos[i]));
    }
  }

 private:
  std::map<std::uint32_t, std::uint32_t> family_of_;  // by graph
  std::map<std::uint32_t, PlacedFamily> placed_;      // by family
};

}  // namespace paceline
