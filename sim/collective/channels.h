// A graph's channels: independent of each other, and often alike.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collective/plan.h"

namespace paceline {

// Where the ports of thread block w end.
inline std::uint32_t in_end(const CollectiveGraph& graph, std::uint32_t w) {
  return w + 1 < graph.thread_blocks.size() ? graph.thread_blocks[w + 1].first_in
                                            : static_cast<std::uint32_t>(graph.in.size());
}
inline std::uint32_t out_end(const CollectiveGraph& graph, std::uint32_t w) {
  return w + 1 < graph.thread_blocks.size() ? graph.thread_blocks[w + 1].first_out
                                            : static_cast<std::uint32_t>(graph.out.size());
}

// The first of its thread blocks, ports and FIFOs, and the ends.
struct Channel {
  std::uint32_t first = 0, last = 0;  // thread blocks
  std::uint32_t in = 0, in_end = 0, out = 0, out_end = 0;
  std::uint32_t fifo = 0, fifos = 0;
};

// Empty where a FIFO joins two channels, or a channel's FIFOs aren't numbered in a row.
std::vector<Channel> channels_of(const CollectiveGraph&);

// Whether two channels are the same thread block by thread block and FIFO by FIFO, with the same ranks or
// whatever they are. Cost: O(FIFOs), less where they differ early.
enum class Ranks : std::uint8_t { same, any };
bool same_channel(const CollectiveGraph&, const Channel&, const Channel&, Ranks);

// Thread blocks that have equal times: one of each class stands for the rest.
struct EqualThreadBlocks {
  CollectiveGraph graph;                // one thread block of each class, with scripts of its own
  std::vector<std::uint32_t> class_of;  // by thread block of the whole graph: the thread block of `graph`
};

// Of channels that are the same, and share the same links, the first stands for the rest; where a FIFO joins channels,
// each thread block for itself. Requires: a priced graph. Cost: O(FIFOs), and O(channels) for each that looks like
// others and shares other links or a socket.
EqualThreadBlocks merge_channels(const CollectiveGraph&, Ranks);

}  // namespace paceline
