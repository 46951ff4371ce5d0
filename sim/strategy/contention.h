// Which links of a job are competed for.
#pragma once

#include "sim/job.h"
#include "topology/topology.h"

namespace paceline {

// Marks the FIFOs that cross links which collectives of different queues may use at once, or a collective and
// messages: their transfers share those links in the event engine, each up to its plan's rate. Graphs that one
// queue runs take turns. A job of one queue without messages stays as it is, and so do graphs on links of their
// own. Requires: the job was planned on this topology; it has its programs, families and message routes.
// Cost: where there are several queues or messages, O(FIFOs * route length), and a copy of each graph that competes.
void share_links(const Topology&, TrainingJob&);

}  // namespace paceline
