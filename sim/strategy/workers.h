// Collectives of one group that run beside each other.
#pragma once

#include <cstdint>

#include "sim/job.h"

namespace paceline {

// Lets so many collectives of a rank run at once, as a process group with so many threads does: gives each one of
// an iteration a queue, a plan and a graph of its own. Requires: a job of one role and queue, with its plans and
// communicator.
void run_side_by_side(TrainingJob&, std::uint32_t workers);

}  // namespace paceline
