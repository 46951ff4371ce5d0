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

  LinkId number(LinkId);                                           // of a link that is or becomes one of them
  std::vector<LinkId> among(std::span<const LinkId> route) const;  // those of a route, numbered

  std::vector<LinkId> links;
  std::vector<BytesPerSecond> capacity;
  std::vector<SharedFlow> flows;

 private:
  const Topology& topology_;
  std::map<LinkId, LinkId> number_;
};

// The links that a FIFO crosses, none inside a device. `inside`: as in Topology::route_over_nics.
Route route_of(const CollectiveGraph&, const Fifo&, const Topology&, NodeLayouts inside);

// Of the loop at hand: FIFOs that move its chunk `first` to `last` loops later (earlier, where negative) move one of
// theirs meanwhile.
struct LiveLoops {
  std::int64_t first = 0, last = 0;
};
// At the beginning of each of these, which follow each other.
std::vector<LiveLoops> live_loops(const std::vector<Loops>&);
// What a FIFO gets of its links while no others than these are live, if all thread blocks keep step.
struct HopRates {
  BytesPerSecond narrowest, from_host;  // from_host: as Hop's
};
HopRates rates_in(const Hop&, const LiveLoops&);
// The same loops, in pieces within which no FIFO's rates change: a pipeline that fills, is full, and drains.
// `fills`: nor whether it is full (CollectiveGraph::turn).
std::vector<Loops> cut_where_rates_change(const std::vector<Loops>&, const CollectiveGraph&, bool fills);

// Fills hops, Fifo::hop and shared; routes: by FIFO. A link that several thread blocks' FIFOs cross in one direction is shared
// in proportion to what each thread block sends over it; what a thread block sends in turns counts together,
// as only one is live. Cost: O(FIFOs * route length); of channels alike in ranks and routes one is priced.
void price_graph(CollectiveGraph&, const RouteList& routes, const Topology&, const SharedLinks&);

}  // namespace paceline
