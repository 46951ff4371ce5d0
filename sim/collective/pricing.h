// The links under a collective graph's FIFOs.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "sim/collective/communicator.h"

namespace paceline {

// The links whose flows compete in the event engine; a link's number is its place in Communicator::shared_capacity.
// Requires: the topology outlives it.
class SharedLinks {
 public:
  SharedLinks(const Topology&, std::span<const BackgroundFlow>);
  SharedLinks(const Communicator&, const Topology&);

  LinkId number(LinkId);                          // of a link that is or becomes one of them
  std::vector<LinkId> among(const Route&) const;  // those of a route, numbered

  std::vector<LinkId> links;
  std::vector<BytesPerSecond> capacity;
  std::vector<SharedFlow> flows;

 private:
  const Topology& topology_;
  std::map<LinkId, LinkId> number_;
};

// The links that a FIFO crosses, none inside a device. `inside`: as in Topology::route_over_nics.
Route route_of(const CollectiveGraph&, const Fifo&, const Topology&, const NodeLayout& inside);

// Fills hops, Fifo::hop and shared; routes: by FIFO. A link that several thread blocks' FIFOs cross in one direction is shared
// in proportion to what each thread block sends over it; what a thread block sends in turns counts together,
// as only one is live. Cost: O(FIFOs * route length).
void price_graph(CollectiveGraph&, std::vector<Route> routes, const Topology&, const SharedLinks&);

}  // namespace paceline
