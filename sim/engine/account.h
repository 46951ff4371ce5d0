// Where a rank's step goes, from the record of what it did: the rules of docs/model.md, one instant after the
// other.
#pragma once

#include <cstdint>
#include <span>

#include "sim/engine/simulate.h"
#include "sim/job.h"

namespace paceline {

// A collective of the iteration, as one rank met it.
struct SeenCollective {
  SimTime last_launch;               // when the last rank of its group launched it
  SimTime own, own_of_last;          // own time when they came to it: of this rank, of the last to launch it
  CollectiveWaits* waits = nullptr;  // those of its group
};

struct IterationRecord {
  const Program& program;
  std::uint32_t iteration = 0;
  std::span<const OpSpan> ops;                  // of one rank, by index in the program
  std::span<const SeenCollective> collectives;  // by number in the program
  SimTime own_before,
      own_of_last_before;  // at the end of the previous iteration: this rank's, the last one's
  SimTime rank_began;      // end of this rank's previous iteration
  SimTime all_began;       // latest rank's end of the previous iteration
  SimTime counted_from;    // start of the steady iterations: nothing before it counts
};

// Adds one iteration of one rank; `other` is left alone. Returns how long the rank was done with the previous
// iteration, for what the last one did later.
SimTime account(const IterationRecord&, Breakdown& total);

}  // namespace paceline
