// Finds one graph of a node: attempt after attempt, each a relaxation of the one before, until one is good
// enough; then, from the best one, faster again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "topology/channel_attempt.h"
#include "topology/channel_layer.h"
#include "topology/channel_paths.h"
#include "topology/channel_search.h"

namespace paceline {

class GraphSearch {
 public:
  GraphSearch(const CountedNode& node, bool several_nodes, const SearchSpec& search);

  ChannelAttempt find(GraphPattern pattern, int min_channels, int max_channels, bool collnet = false);

 private:
  // All that an attempt depends on; path types as the number of types in use that it allows.
  using Key = std::tuple<GraphPattern, int, float, float, int, int, bool, int, int, int>;
  using Types = std::array<bool, 12>;
  struct TypeRange {
    PathType best = PathType::sys, worst = PathType::loc;
  };

  void note_types_in_use();
  TypeRange types_of_paths(bool to_nics) const;
  static int allowed_types(PathType worst, const Types& in_use);
  void attempt();

  void begin(GraphPattern pattern, int min_channels, int max_channels, bool collnet);
  void begin_types();
  void begin_channels(GraphPattern pattern, int min_channels, int max_channels);
  // The last speed if all are too fast.
  template <class TooFast>
  std::size_t first_speed(const TooFast& too_fast) const {
    std::size_t i = 0;
    while (i + 1 < speeds_.size() && too_fast(speeds_[i])) {
      ++i;
    }
    return i;
  }
  void set_speed(std::size_t i) {
    speed_ = i;
    next_.bw_intra = next_.bw_inter = speeds_[i];
  }

  bool good_enough() const;
  bool relax();
  bool relax_types();
  bool relax_cross_nic();
  bool relax_speed();
  void duplicate_channels();
  void begin_raising();
  bool raise();
  void fall_back();

  const CountedNode& node_;
  bool several_nodes_;
  int cross_nic_option_, version_;
  std::vector<float> speeds_;
  ChannelLayer layer_;
  Types types_inside_{}, types_outside_{};
  std::vector<std::pair<Key, int>> tried_;  // and the steps left then

  ChannelAttempt next_, best_;
  TypeRange intra_, inter_;
  int cross_nic_ = 0;  // the option, where the pattern can cross
  bool same_first_ = true;
  float total_ = 0;
  std::size_t speed_ = 0;
  int steps_ = 0;            // left of the last attempt
  std::int64_t budget_ = 0;  // steps left for all attempts
};

}  // namespace paceline
