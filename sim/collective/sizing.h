// On how many channels a collective runs, and how it is cut into chunks (NCCL's src/enqueue.cc).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collective/plan.h"
#include "sim/collective/tuner.h"

namespace paceline {

// How many of `channels` a collective of `bytes` runs on, and its chunk. `bytes` of the loops are those of one channel,
// ceil(bytes / channels), to the next 16 bytes of a block. Nothing to move: one loop with a chunk of 0.
struct Sizing {
  int channels = 1;
  std::vector<Loops> loops;
  std::uint32_t slots = 8;
};
Sizing size_collective(const TunerInput&, const TunerChoice&, Bytes);

// all_to_all and send_recv, which NCCL does not tune (tune() answers with time 0): LL where each channel's
// part for a peer is small and no network is crossed.
Protocol point_to_point_protocol(const TunerInput&, Bytes);

}  // namespace paceline
