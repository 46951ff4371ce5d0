// Who shares a link with a FIFO while a pipeline fills and drains: not all that cross it are live in every loop.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collective/plan.h"

namespace paceline {

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

}  // namespace paceline
