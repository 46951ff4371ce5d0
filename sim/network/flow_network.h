// Max-min fair sharing of links among live flows, each capped at its own rate.
//
// Vocabulary: a *link* has a capacity (B/s); a *flow* crosses a fixed set of links and has a cap (B/s) and remaining
// bytes. Rates are max-min fair: no flow's rate can grow without shrinking that of a flow that has no more.
// (Bertsekas and Gallager, Data Networks, 6.5.2; water-filling.)
//
// The network has no clock: it is told `now`. Starts and ends collect until share(now), once per instant; only flows that
// are connected (through shared links) to a change are visited, and a flow's end is recomputed only when its rate changed:
// a flow that runs at one rate from start to end takes exactly round(bytes / rate).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/id.h"
#include "core/time.h"
#include "core/units.h"

namespace paceline {

class FlowNetwork {
 public:
  FlowNetwork(std::vector<BytesPerSecond> link_capacity, std::size_t expected_flows);

  // A flow over `links` (ids below the number of capacities; repeated ids count once) that lives from the coming share(now).
  // bytes = nullopt: it never ends (background traffic). `tag` comes back from take_ended.
  FlowId start(std::span<const LinkId> links, BytesPerSecond cap, std::optional<Bytes> bytes, std::uint64_t tag, SimTime now);
  void stop(FlowId, SimTime now);

  // The earliest end of a flow, or nullopt when none ends.
  std::optional<SimTime> next() const;
  // Removes the flows that end at `now`, in order of start, and appends their tags. Requires: now <= next().
  void take_ended(SimTime now, std::vector<std::uint64_t>& tags);
  // Recomputes rates where something changed.
  void share(SimTime now);

  BytesPerSecond rate(FlowId) const;  // as of the last share
};

// The slow, obvious form: rates of all flows from scratch. The oracle of FlowNetwork in the tests.
struct FlowDemand {
  std::vector<LinkId> links;
  BytesPerSecond cap;
};
std::vector<BytesPerSecond> water_fill(std::span<const BytesPerSecond> link_capacity, std::span<const FlowDemand> flows);

}  // namespace paceline
