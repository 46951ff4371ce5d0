// Channels that go the same ways through the same GPUs, as most do: one stands for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/collective/channels.h"
#include "topology/topology.h"

namespace paceline {

class AlikeChannels {
 public:
  // routes: by FIFO. Cost: O(FIFOs * route length).
  AlikeChannels(const CollectiveGraph&, const RouteList& routes);

  // f(channel, how many it stands for)
  template <class F>
  void for_each(const F& f) const {
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      if (times_[c] > 0) {
        f(channels_[c], times_[c]);
      }
    }
  }
  template <class F>  // f(fifo, how many)
  void for_each_fifo(const F& f) const {
    for_each([&](const Channel& channel, int times) {
      for (std::uint32_t fifo = channel.fifo; fifo < channel.fifo + channel.fifos; ++fifo) {
        f(fifo, times);
      }
    });
  }
  // Gives the FIFOs of all others the hops of those that stand for them.
  void set_hops_of_others(CollectiveGraph&) const;

 private:
  std::vector<Channel> channels_;    // all
  std::vector<std::size_t> stands_;  // by channel: the one that stands for it
  std::vector<int> times_;           // by channel: how many it stands for
};

}  // namespace paceline
