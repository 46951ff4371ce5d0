// Lays the channels of one attempt, depth first: one GPU after the other, one channel after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "topology/channel_attempt.h"
#include "topology/channel_candidates.h"
#include "topology/channel_paths.h"
#include "topology/channel_rates.h"

namespace paceline {

inline constexpr int kPerfect = -1;  // of the steps left: the most channels were found, stop

class ChannelLayer {
 public:
  ChannelLayer(const CountedNode& node, bool several_nodes, int version)
      : node_(node),
        several_nodes_(several_nodes),
        version_(version),
        rates_(node),
        gpus_(node, rates_, version),
        nics_(node) {}
  ChannelLayer(const ChannelLayer&) = delete;
  ChannelLayer& operator=(const ChannelLayer&) = delete;

  // Improves `best` by channels as `asked`. What comes back are the steps left, or kPerfect.
  int lay(ChannelAttempt& asked, ChannelAttempt& best);
  static int budget(const ChannelAttempt& asked);

 private:
  enum class Order : std::uint8_t { free, ascending, as_before };
  // Where a channel closes: after that many GPUs it goes to its NIC, or to its first GPU. -1: it doesn't.
  struct Closing {
    int nic = -1, first = -1;
    Order order = Order::free;
  };
  struct Hop {
    std::uint32_t from, to;
    float times;
  };

  NodeChannel& channel() { return now_->channels[static_cast<std::size_t>(now_->found)]; }
  const NodeChannel& channel_before() const {
    return now_->channels[static_cast<std::size_t>(now_->found - 1)];
  }
  bool odd_of_pair() const {
    return now_->pattern == GraphPattern::ring && now_->cross_nic == 2 && now_->found % 2 == 1;
  }
  Closing closing() const;
  bool may_end_at(int nic, int step);
  bool follow(std::uint32_t from, std::uint32_t to, float times);

  // From channel to channel.
  void next_channel(int& steps);
  void start_at_nics(const Closing& closing_at, int& steps);
  bool start_at(int nic, const Closing& closing_at, std::size_t nics, int& steps);
  std::vector<int> gpus_to_start(int nic);
  void complete(int& steps);
  bool improves() const;

  // From GPU to GPU.
  void enter(int gpu, int step, const Closing& closing_at, std::optional<std::uint32_t> from, int& steps);
  void visit(int gpu, int step, const Closing& closing_at, int& steps);
  void go_on(int gpu, int step, const Closing& closing_at, int& steps);
  void close_at_first(int gpu, int step, const Closing& closing_at, int& steps);
  void close_at_nics(int gpu, int step, const Closing& closing_at, int& steps);

  // From a head to all others.
  void spread(const std::vector<Hop>& hops, int head, int& steps);
  void fill_with_others(int head);
  void spread_nvls(int head, int& steps);
  void spread_direct(int head, int& steps);

  const CountedNode& node_;
  bool several_nodes_;
  int version_;
  ChannelAttempt* now_ = nullptr;
  ChannelAttempt* best_ = nullptr;
  LinkRates rates_;
  NextGpus gpus_;
  NicLists nics_;
  std::vector<int> to_try_;  // GPUs, of all steps on the way here
};

}  // namespace paceline
