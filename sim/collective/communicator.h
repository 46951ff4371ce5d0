// The ranks that run collectives together, and the wires they do it on; and what one collective puts on them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/id.h"
#include "core/time.h"
#include "core/units.h"
#include "sim/training.h"
#include "topology/topology.h"

namespace paceline {

// A hop of a ring: the link from one position to the next.
struct HopClass {
  BytesPerSecond rate;
  SimTime latency;
  friend bool operator==(const HopClass&, const HopClass&) = default;
};

// One ring. pattern: index into Communicator::patterns.
struct Channel {
  std::vector<Rank> order;
  std::uint32_t pattern = 0;
};

// A hop whose links others use too; its flows share bandwidth in the event engine.
struct SharedHop {
  std::uint32_t channel = 0, position = 0;
  std::vector<LinkId> links;  // those that are shared, numbered in Communicator::shared_capacity
};

struct SharedFlow {
  std::vector<LinkId> links;
  BytesPerSecond rate;
};

struct Communicator {
  std::vector<HopClass> classes;  // the different hops
  std::vector<std::vector<std::uint32_t>>
      patterns;  // class of each position; channels with equal hops share one
  std::vector<Channel> channels;
  // Empty unless background traffic crosses the rings:
  std::vector<BytesPerSecond> shared_capacity;
  std::vector<SharedHop> shared_hops;
  std::vector<SharedFlow> background;

  std::size_t ranks() const { return channels.front().order.size(); }
};

// Rate of a hop: the minimum over the links of its route of bandwidth / number of hops of all channels that
// cross the link in that direction. Latency: the links' and the protocol's cost per hop. Cost: O(ranks *
// channels * route length).
Communicator make_communicator(const Topology&, const CollectiveSpec&,
                               std::span<const BackgroundFlow> background);

// One rank alone: every collective ends when it begins.
Communicator lone_communicator();

enum class CollectiveKind : std::uint8_t { all_reduce, broadcast };

// What one collective puts on the wire: every channel carries bytes / channels in chunks of `chunk` bytes.
// all_reduce: each rank sends 2 (N-1) chunks around its ring. broadcast: a pipelined chain of `chunks` chunks
// from rank 0, which doesn't wait for the others; the last rank of the chain sends nothing.
struct CollectivePlan {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes bytes;
  Bytes chunk;
  std::int64_t chunks = 0;  // sent by each rank that sends, per channel
};

// chunk = ceil(bytes / (channels * ranks)), rounded up to 16 bytes.
CollectivePlan plan_all_reduce(Bytes bytes, std::size_t ranks, std::size_t channels);
CollectivePlan plan_broadcast(Bytes bytes, std::size_t ranks, std::size_t channels);

// How long a chunk occupies a hop, alone on it.
SimTime occupancy(Bytes chunk, const HopClass&);

// Position of rank 0 in a channel's order: where its broadcasts begin.
std::size_t root_position(const Channel&);

}  // namespace paceline
