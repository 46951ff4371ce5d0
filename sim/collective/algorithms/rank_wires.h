// Wires between ranks as their libraries see them: over the NIC that each rank uses.
#pragma once

#include <span>

#include "sim/collective/algorithms/graph_builder.h"

namespace paceline {

// Joins ranks, whose thread blocks have the same numbers, or these and as many more as there are ranks.
class RankWires {
 public:
  RankWires(GraphBuilder& builder, const RankLayout& layout, std::span<const int> nics)
      : builder_(builder), layout_(layout), nics_(nics) {}

  void connect(Port from, Port to) {
    const std::uint32_t sender = from.thread_block % layout_.ranks(),
                        receiver = to.thread_block % layout_.ranks();
    const bool leaves = sender / layout_.gpus_per_node != receiver / layout_.gpus_per_node;
    builder_.connect(from, to, Wire::gpu_to_gpu, leaves ? Nics{nic(sender), nic(receiver)} : Nics{});
  }
  // Out port `port` of each thread block to the in port of the one `step` after it, round.
  void connect_ring(std::uint32_t port, std::uint32_t step) {
    const std::uint32_t ranks = layout_.ranks();
    for (std::uint32_t r = 0; r < ranks; ++r) {
      connect({r, port}, {(r + step) % ranks, port});
    }
  }

 private:
  int nic(std::uint32_t rank) const {
    return nics_[nics_.size() > layout_.gpus_per_node ? rank : rank % layout_.gpus_per_node];
  }

  GraphBuilder& builder_;
  RankLayout layout_;
  std::span<const int> nics_;
};

}  // namespace paceline
