// What every job must be for the engines to run it.
#pragma once

#include "sim/job.h"

namespace paceline {

// Throws InputError (place /training) that says what is wrong: a program without an operation of the compute
// stream, a collective that is not its family's or whose graph another queue runs on, a wait or a follower that is
// in iterations in which its collective or operation is not, a message to a server that has no shard of its
// channel, ... Cost: O(operations + members + routes).
void require_runnable(const TrainingJob&);

}  // namespace paceline
