// One collective alone: how long it takes when all ranks enter together, and what makes up the time. A
// broadcast or a reduction: the time from one to the next of many, as nccl-tests measures, where the root (or
// the leaves) go on before the others have ended. With what launches add where nccl-tests times many in a row: never
// less than the plan's launch period, and its exposed launches more.
#pragma once

#include <span>
#include <vector>

#include "sim/collective/collective_times.h"
#include "sim/collective/communicator.h"

namespace paceline {

// time = launch + latency + fill + bandwidth, each by re-simulation:
//   launch     what the startup and exposed launches add
//   latency    what the hops' latencies add then
//   bandwidth  how long the busiest thread block moves data
//   fill       the rest: waiting for the first chunk and behind the last, and for slots
struct CollectiveCost {
  CollectivePlan plan;
  std::uint32_t channels = 0;
  SimTime time;
  SimTime launch, latency, fill, bandwidth;
};

// Cost: that of the graphs, then O(moves of one thread block of each class) for each size, thrice with
// `explain`.
std::vector<CollectiveCost> cost_collectives(CollectivePlanner&, CollectiveKind, std::span<const Bytes>,
                                             bool explain);

// The time of one plan, `number` of these times, alone, as CollectiveCost::time has it, begun at `now`, which
// moves on to its end.
SimTime time_alone(CollectiveTimes&, const Communicator&, const CollectivePlan&, std::uint32_t number,
                   SimTime& now);

}  // namespace paceline
