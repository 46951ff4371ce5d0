// The ways that messages take through the cluster.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/job.h"
#include "topology/topology.h"

namespace paceline {

// From one member to another.
using MessagePair = std::pair<std::uint32_t, std::uint32_t>;

// Who sends to whom, servers' answers included.
std::vector<MessagePair> message_pairs(const TrainingJob&);

// Puts ranks on their GPUs, and a member behind them into the memory of the first node's first CPU; gives the job its
// messages' routes. Nothing for a job without messages, nor one with servers (place_servers). Throws InputError
// for a node without a CPU, where there is such a member.
void place_messages(const Topology&, TrainingJob&);

// Gives the job routes for these pairs: the topology's, with the links that messages compete for. Throws
// InputError where there is no way. Requires: the job has its members, whose devices are GPUs or CPUs; the two of
// a pair have different ones.
void add_message_routes(const Topology&, std::span<const MessagePair>, TrainingJob&);

// Of links that the same messages cross, and the same traffic of others, leaves the narrowest, which alone holds any of
// them back. Requires: a job without collectives.
void drop_links_in_series(TrainingJob&);

}  // namespace paceline
