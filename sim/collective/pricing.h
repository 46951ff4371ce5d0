// The links under a collective graph's FIFOs.
#pragma once

#include "sim/collective/plan.h"
#include "sim/collective/shared_links.h"
#include "topology/topology.h"

namespace paceline {

// The links that a FIFO crosses, none inside a device. `inside`: as in Topology::route_over_nics.
Route route_of(const CollectiveGraph&, const Fifo&, const Topology&, NodeLayouts inside);

// Fills hops, Fifo::hop and shared; routes: by FIFO. A link that several thread blocks' FIFOs cross in one
// direction is shared in proportion to what each thread block sends over it; what a thread block sends in turns
// counts together, as only one is live. Cost: O(FIFOs * route length); of channels alike in ranks and routes one
// is priced.
void price_graph(CollectiveGraph&, const RouteList& routes, const Topology&, const SharedLinks&);

}  // namespace paceline
