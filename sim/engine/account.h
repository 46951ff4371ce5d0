// Where a rank's step goes, from the record of what it did: the rules of docs/model.md, one instant after the
// other.
#pragma once

#include <span>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/job.h"

namespace paceline {

struct IterationRecord {
  const Program& program;
  std::span<const OpSpan> ops;           // of one rank, by index in the program
  std::span<const SimTime> last_launch;  // by collective: when the last rank launched it
  std::span<const SimTime> own;          // by collective: this rank's own time when it came to it
  std::span<const SimTime> own_of_last;  // by collective: that of the last rank to launch it
  SimTime own_before,
      own_of_last_before;  // at the end of the previous iteration: this rank's, the last one's
  SimTime rank_began;      // end of this rank's previous iteration
  SimTime rank_ended;
  SimTime all_began;     // latest rank's end of the previous iteration
  SimTime counted_from;  // start of the steady iterations: nothing before it counts
};

// Of one iteration, summed over ranks.
struct IterationWaits {
  std::vector<CollectiveWaits> collectives;  // by collective
  PicosecondSum finished = 0;  // done with the previous iteration, for what its last rank did later
};

// Adds one iteration of one rank; `other` is left alone.
void account(const IterationRecord&, Breakdown& total, IterationWaits&);

}  // namespace paceline
