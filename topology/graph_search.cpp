#include "topology/graph_search.h"

#include <algorithm>
#include <numeric>

#include "topology/channel_speeds.h"

namespace paceline {
namespace {

// Steps of the search.
constexpr std::int64_t kAllAttempts = 1 << 19, kAllUntil218 = 5 << 16;
constexpr int kNvlsHeads = 32, kDirectHeads = 8;

// Two groups of GPUs with NVLinks inside and none between.
bool has_split_nvlinks(const CountedNode& node) {
  const auto gpus = static_cast<std::size_t>(node.gpus);
  std::vector<std::size_t> group(gpus), size(gpus, 0);
  std::iota(group.begin(), group.end(), std::size_t{0});
  for (std::size_t a = 0; a < gpus; ++a) {
    for (std::size_t b = a + 1; b < gpus; ++b) {
      if (node.path(static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b)).type == PathType::nvl) {
        group[b] = group[a];
      }
    }
  }
  std::ranges::for_each(group, [&](std::size_t g) { ++size[g]; });
  return std::ranges::count_if(size, [](std::size_t n) { return n > 1; }) == 2;
}

// Of those that the version knows.
PathType worse_than(PathType type, int version) {
  const auto worse = static_cast<PathType>(static_cast<int>(type) + 1);
  const bool known = (worse != PathType::c2c || version >= 226) && (worse != PathType::p2c || version >= 227);
  return known ? worse : worse_than(worse, version);
}

}  // namespace

GraphSearch::GraphSearch(const CountedNode& node, bool several_nodes, const SearchSpec& search)
    : node_(node),
      several_nodes_(several_nodes),
      cross_nic_option_(search.cross_nic),
      version_(search.version()),
      speeds_(candidate_speeds(node.compute_capability, version_, several_nodes)),
      layer_(node, several_nodes, version_) {
  note_types_in_use();
}

ChannelAttempt GraphSearch::find(GraphPattern pattern, int min_channels, int max_channels, bool collnet) {
  begin(pattern, min_channels, max_channels, collnet);
  do {
    budget_ -= ChannelLayer::budget(next_);
    attempt();
  } while (!good_enough() && relax());
  begin_raising();
  while (raise()) {
    attempt();
  }
  if (version_ < 219) {
    duplicate_channels();
  }
  if (best_.found == 0 && !best_.collnet && best_.pattern != GraphPattern::nvls) {
    fall_back();
  }
  best_.channels.resize(static_cast<std::size_t>(best_.found));
  return best_;
}

// An attempt that was made before would find what it found then, which is no better than the best.
void GraphSearch::attempt() {
  const Key key{next_.pattern,
                next_.cross_nic,
                next_.bw_intra,
                next_.bw_inter,
                allowed_types(next_.type_intra, types_inside_),
                allowed_types(next_.type_inter, types_outside_),
                next_.same_channels,
                next_.min_channels,
                next_.max_channels,
                next_.hops};
  const auto before = std::ranges::find(tried_, key, &std::pair<Key, int>::first);
  if (before != tried_.end()) {
    steps_ = before->second;
    return;
  }
  steps_ = layer_.lay(next_, best_);
  tried_.emplace_back(key, steps_);
}

int GraphSearch::allowed_types(PathType worst, const Types& in_use) {
  return static_cast<int>(std::count(in_use.begin(), in_use.begin() + static_cast<int>(worst) + 1, true));
}

// Of the paths that channels take: between GPUs and the NVSwitch, and from and to NICs.
void GraphSearch::note_types_in_use() {
  const std::uint32_t inside = node_.nvswitch() + 1, all = node_.port(node_.nics);
  for (std::uint32_t from = 0; from < all; ++from) {
    for (std::uint32_t to = 0; to < all; ++to) {
      Types& types = from < inside && to < inside ? types_inside_ : types_outside_;
      types[static_cast<std::size_t>(node_.path(from, to).type)] = true;
    }
  }
}

GraphSearch::TypeRange GraphSearch::types_of_paths(bool to_nics) const {
  TypeRange range;
  for (int g = 0; g < node_.gpus; ++g) {
    for (int i = 0; i < (to_nics ? node_.nics : node_.gpus); ++i) {
      if (to_nics || i != g) {
        const PathType type = node_.path(node_.gpu(g), to_nics ? node_.port(i) : node_.gpu(i)).type;
        range.best = std::min(range.best, type);
        range.worst = std::max(range.worst, type);
      }
    }
  }
  return range;
}

void GraphSearch::begin(GraphPattern pattern, int min_channels, int max_channels, bool collnet) {
  best_ = {};
  tried_.clear();
  best_.pattern = node_.gpus == 1 && pattern != GraphPattern::ring ? GraphPattern::tree : pattern;
  best_.collnet = collnet;
  const bool crosses =
      node_.nics > 1 && (pattern == GraphPattern::ring || pattern == GraphPattern::balanced_tree ||
                         pattern == GraphPattern::split_tree);
  cross_nic_ = crosses ? cross_nic_option_ : 0;
  best_.cross_nic = cross_nic_ == 1 ? 1 : 0;
  begin_types();
  best_.same_channels = pattern != GraphPattern::nvls;
  same_first_ = best_.same_channels;
  begin_channels(pattern, min_channels, max_channels);
  next_ = best_;

  total_ = node_.total_rate;
  if (node_.gpus > 1 &&
      best_.pattern != GraphPattern::ring) {  // these need not come back to where they began
    total_ *= static_cast<float>(node_.gpus * 1.0 / (node_.gpus - 1));
  }
  const auto too_fast = [&](float speed) {
    return speed > node_.max_rate || speed * static_cast<float>(best_.min_channels) > total_;
  };
  set_speed(first_speed(too_fast));
  budget_ = version_ >= 219 ? kAllAttempts : kAllUntil218;
}

void GraphSearch::begin_types() {
  intra_ = {node_.gpus > 1 ? PathType::nvl : PathType::loc, PathType::sys};
  inter_ = {PathType::pix, PathType::sys};
  const bool looks = version_ >= 225;  // for the best and the worst that there are
  if (looks && node_.gpus > 1) {
    intra_ = types_of_paths(false);
  }
  if (looks && several_nodes_) {
    inter_ = types_of_paths(true);
    intra_.worst = inter_.worst;
  }
  // Balanced trees may have to come back through the host; from 2.25 to 2.28 they were not found then.
  if (version_ >= 229 && node_.compute_capability < 90) {
    inter_.worst = PathType::sys;
  }
  best_.type_intra = intra_.best;
  best_.type_inter = inter_.best;
}

void GraphSearch::begin_channels(GraphPattern pattern, int min_channels, int max_channels) {
  best_.min_channels = min_channels;
  best_.max_channels = max_channels;
  if (pattern == GraphPattern::nvls) {
    best_.max_channels = std::min(kNvlsHeads, node_.gpus);
    best_.min_channels = several_nodes_ ? min_channels : best_.max_channels;  // on one node all pull evenly
  } else if (pattern == GraphPattern::collnet_direct) {
    best_.max_channels = std::min(kDirectHeads, node_.gpus);
  } else if (version_ >= 226 && pattern == GraphPattern::ring && has_split_nvlinks(node_) &&
             max_channels >= 2) {
    best_.min_channels = std::max(min_channels, 2);  // trees, likely better here, need two
  }
}

bool GraphSearch::good_enough() const {
  return steps_ == kPerfect || static_cast<float>(best_.found) * best_.bw_inter >= node_.total_rate;
}

// The next thing to give up; false: there is none, or it is not worth it.
bool GraphSearch::relax() {
  const bool keeps_same = version_ >= 219 && node_.cpu == CpuVendor::amd && next_.type_intra == PathType::sys;
  if (next_.same_channels && !keeps_same) {
    next_.same_channels = false;
    return true;
  }
  next_.same_channels = same_first_;
  budget_ += steps_;
  if (budget_ < 0 && best_.found > 0) {
    return false;
  }
  if (version_ >= 218 && node_.compute_capability >= 90 && next_.pattern == GraphPattern::balanced_tree) {
    next_.pattern = GraphPattern::tree;
    return true;
  }
  next_.pattern = best_.pattern;
  return relax_types() || relax_cross_nic() || relax_speed();
}

bool GraphSearch::relax_types() {
  const bool none = best_.found == 0;
  if (next_.type_intra < (several_nodes_ ? next_.type_inter : intra_.worst) &&
      (none || next_.type_intra < best_.type_intra)) {
    next_.type_intra = worse_than(next_.type_intra, version_);
    return true;
  }
  next_.type_intra = intra_.best;
  if (several_nodes_ && next_.type_inter < inter_.worst &&
      (none || next_.type_inter < best_.type_inter || next_.type_inter < PathType::pxn)) {
    next_.type_inter = worse_than(next_.type_inter, version_);
    return true;
  }
  next_.type_inter = inter_.best;
  return false;
}

bool GraphSearch::relax_cross_nic() {
  if (cross_nic_ == 2 && next_.cross_nic == 0 &&
      (best_.pattern == GraphPattern::ring || best_.pattern == GraphPattern::balanced_tree)) {
    next_.cross_nic = version_ < 220 ? 1 : 2;
    return true;
  }
  next_.cross_nic = cross_nic_ == 1 ? 1 : 0;
  return false;
}

bool GraphSearch::relax_speed() {
  if (speed_ + 1 < speeds_.size() && (best_.found == 0 || speeds_[speed_ + 1] / best_.bw_inter > .49F)) {
    set_speed(speed_ + 1);
    return true;
  }
  return false;
}

// Wide channels are better cut in two.
void GraphSearch::duplicate_channels() {
  const bool enough = version_ >= 216 && node_.compute_capability > 80 && best_.bw_intra < 50 &&
                      (best_.found > 4 || version_ < 218);
  if (best_.found == 0 || best_.pattern == GraphPattern::nvls || best_.bw_intra < 25 || enough) {
    return;
  }
  const int twice = std::min(best_.found * 2, best_.max_channels);
  for (int c = best_.found; c < twice; ++c) {
    best_.channels[static_cast<std::size_t>(c)] = best_.channels[static_cast<std::size_t>(c - best_.found)];
  }
  const int parts = (twice + best_.found - 1) / best_.found;
  best_.bw_intra /= static_cast<float>(parts);
  best_.bw_inter /= static_cast<float>(parts);
  best_.found = twice;
}

void GraphSearch::begin_raising() {
  if (version_ >= 219) {
    duplicate_channels();
  }
  tried_.clear();
  next_ = best_;
  set_speed(first_speed([&](float speed) { return speed > best_.bw_inter; }));
  next_.min_channels = best_.found;
  steps_ = kPerfect;
}

// Asks for more speed: for rings both, for NVLS at the NICs, for trees between the GPUs. Until 2.18 rings are as
// fast as they are, and NVLS is a tree. False: no more.
bool GraphSearch::raise() {
  const bool ring = best_.pattern == GraphPattern::ring;
  if (steps_ == 0 || speed_ == 0 || (ring && version_ < 219)) {
    return false;
  }
  if (ring) {
    set_speed(speed_ - 1);
    return true;
  }
  if (best_.pattern == GraphPattern::nvls && version_ >= 219 && next_.bw_inter == best_.bw_inter &&
      next_.bw_inter < next_.bw_intra * 2) {
    next_.min_channels = next_.max_channels = best_.found;
    next_.bw_inter = speeds_[--speed_];
    return true;
  }
  if (next_.bw_intra == best_.bw_intra && next_.bw_intra < next_.bw_inter * 2) {
    next_.bw_intra = speeds_[--speed_];
    return true;
  }
  return false;
}

// The simple order: better than nothing.
void GraphSearch::fall_back() {
  NodeChannel channel;
  channel.gpus.resize(static_cast<std::size_t>(node_.gpus));
  std::iota(channel.gpus.begin(), channel.gpus.end(), 0);
  best_.bw_intra = 0.1F;
  best_.type_intra = PathType::sys;
  best_.bw_inter = 0;
  best_.type_inter = PathType::dis;
  if (node_.nics > 0) {
    channel.nic_in = node_.own_nics.front()[0];
    channel.nic_out = node_.own_nics.back()[0];
    best_.bw_inter = 0.1F;
    best_.type_inter = PathType::sys;
  }
  best_.channels.assign(1, channel);
  best_.found = 1;
}

}  // namespace paceline
