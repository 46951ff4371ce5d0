// One attempt of the channel search: what it asks for, and the channels that it found.
#pragma once

#include <vector>

#include "topology/channel_graph.h"

namespace paceline {

// The first `found` of `channels` are laid.
struct ChannelAttempt {
  GraphPattern pattern = GraphPattern::ring;
  int cross_nic = 0;
  float bw_intra = 0, bw_inter = 0;
  PathType type_intra = PathType::loc, type_inter = PathType::pix;
  bool same_channels = true;
  int min_channels = 1, max_channels = 1;
  bool collnet = false;
  int hops = 0;
  int found = 0;
  std::vector<NodeChannel> channels;

  float total() const { return static_cast<float>(found) * bw_intra; }
};

}  // namespace paceline
