// The graphs of a job's collectives as the event engine runs them: thread blocks and FIFOs of all graphs in one
// table each, with what changes as they run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/id.h"
#include "core/time.h"
#include "sim/collective/communicator.h"
#include "sim/collective/step_times.h"
#include "sim/network/flow_network.h"

namespace paceline {

using ThreadBlockId = Id<struct ThreadBlockTag>;  // in LaidOutGraphs::thread_blocks
using FifoId = Id<struct FifoTag>;                // in LaidOutGraphs::fifos
using QueueId = Id<struct QueueTag>;              // a communication queue of a thread

// In the sequence of all operations of all iterations.
struct OpPlace {
  std::uint32_t iteration = 0, op = 0;
  friend auto operator<=>(const OpPlace&, const OpPlace&) = default;
};

struct ThreadBlockState {
  Cursor at;
  std::uint32_t rank = ThreadBlock::kSwitch, script = 0;
  std::uint32_t plan = 0, graph = 0;
  std::uint32_t first_in = 0, first_out = 0;  // in LaidOutGraphs::in and out
  std::uint32_t unfinished = 0;               // parts of the move that runs
  QueueId queue{};                            // that runs it; of a switch: none
  bool active = false;
  // Where moves are made ahead of the clock:
  bool ready = false;                // in the list of those that may have a move to make
  FifoId waits{};                    // what it needs a slice or a slot of, if that is why it isn't there
  SimTime free{};                    // when its last move ends, or as much as is known of it
  const StepTimes* times = nullptr;  // of its plan
  const CollectivePlan* planned = nullptr;
  OpPlace use{};  // of a switch: the collective that it is in, by its number in the iteration
};

// Counts over all collectives, but sent_before: sent before the sender's present one.
struct FifoState {
  static constexpr std::uint32_t kNotShared = 0xffffffffU;
  static constexpr FifoId kNone{0xffffffffU};
  ThreadBlockId from{}, to{};
  std::uint32_t hop = 0, shared = kNotShared;
  std::uint32_t socket = SharedFifo::kNoSocket;
  std::optional<FifoId> behind{};  // what waits for the socket next
  std::uint64_t sent = 0, sent_before = 0, arrived = 0, received = 0;
  SimTime last_arrival{};  // chunks arrive in order, also those of a faster collective after a slower one
  SimTime sent_at{};       // of a shared one: when its last transfer began
  FlowId flow{};           // of a shared one: what its last transfer was in the network
};

// The FIFOs whose transfers go over it, the one that is under way first.
struct Socket {
  std::optional<FifoId> first{}, last{};
};

struct LaidOutGraphs {
  ThreadBlockState& operator[](ThreadBlockId id) { return thread_blocks[id.index()]; }
  FifoState& operator[](FifoId id) { return fifos[id.index()]; }
  const FifoState& operator[](FifoId id) const { return fifos[id.index()]; }

  std::vector<ThreadBlockState> thread_blocks;  // and one more, the end of the last one's ports
  std::vector<FifoState> fifos;
  std::vector<FifoId> in, out;  // of each port
  std::vector<Socket> sockets;
  std::vector<ThreadBlockId> switches;
  // Of each graph: thread blocks of rank r are of_rank[first_of_rank[r] .. first_of_rank[r + 1]).
  struct Graph {
    std::vector<std::uint32_t> first_of_rank;
    std::vector<ThreadBlockId> of_rank;
  };
  std::vector<Graph> graphs;
};

LaidOutGraphs lay_out(const GraphList&, std::uint32_t ranks);
// One graph more, behind all others.
void add(LaidOutGraphs&, const CollectiveGraph&, std::uint32_t ranks);

}  // namespace paceline
