#include "topology/channel_layer.h"

#include <algorithm>
#include <span>

namespace paceline {
namespace {

// In steps of the search.
constexpr int kOneAttempt = 1 << 14, kSameChannels = 1 << 8, kReferenceOrder = 1 << 10;

bool is_tree(GraphPattern pattern) {
  return pattern == GraphPattern::balanced_tree || pattern == GraphPattern::split_tree ||
         pattern == GraphPattern::tree;
}
bool has_heads(GraphPattern pattern) {
  return pattern == GraphPattern::nvls || pattern == GraphPattern::collnet_direct;
}

}  // namespace

int ChannelLayer::budget(const ChannelAttempt& asked) {
  return asked.same_channels ? kSameChannels : kOneAttempt;
}

int ChannelLayer::lay(ChannelAttempt& asked, ChannelAttempt& best) {
  asked.found = 0;
  asked.channels.resize(static_cast<std::size_t>(asked.max_channels));
  for (NodeChannel& channel : asked.channels) {
    channel.gpus.resize(static_cast<std::size_t>(node_.gpus));
  }
  now_ = &asked;
  best_ = &best;
  if (several_nodes_) {
    nics_.list(asked.type_inter);
  }
  int steps = budget(asked);
  next_channel(steps);
  return steps;
}

// Takes `times` the attempt's speed along the path, or gives it back (times < 0). False: the path is worse
// than the attempt allows, or has not that much left.
bool ChannelLayer::follow(std::uint32_t from, std::uint32_t to, float times) {
  const CountedPath& path = node_.path(from, to);
  const bool inside = !node_.is_port(from) && !node_.is_port(to);
  const PathType allowed = inside ? now_->type_intra : now_->type_inter;
  if (path.type >= PathType::dis) {
    return false;
  }
  const bool both_ways = version_ >= 218 && is_tree(now_->pattern);
  if (times == 1 && (path.type > allowed || (both_ways && node_.path(to, from).type > allowed))) {
    return false;
  }
  const float rate = times * (inside ? now_->bw_intra : now_->bw_inter);
  if (!rates_.take(path, from, rate)) {
    return false;
  }
  now_->hops = static_cast<int>(static_cast<float>(now_->hops) + times * static_cast<float>(path.hops));
  return true;
}

bool ChannelLayer::may_end_at(int nic, int step) {
  const int start = channel().nic_in;
  if (now_->pattern == GraphPattern::tree && nic != start) {
    return false;
  }
  if (now_->pattern == GraphPattern::ring && now_->cross_nic == 2) {
    return !odd_of_pair() || nic == channel_before().nic_in;
  }
  if (now_->cross_nic == 0 && nic != start) {
    return false;
  }
  return now_->pattern != GraphPattern::balanced_tree || step == 0 || nic == channel().nic_out;
}

ChannelLayer::Closing ChannelLayer::closing() const {
  const bool ring = now_->pattern == GraphPattern::ring;
  if (several_nodes_) {
    return {ring ? node_.gpus - 1 : now_->pattern == GraphPattern::split_tree ? 1 : 0, -1, Order::free};
  }
  return {-1, ring ? node_.gpus - 1 : -1, Order::free};
}

void ChannelLayer::next_channel(int& steps) {
  const Closing closing_at = closing();
  if (several_nodes_) {
    start_at_nics(closing_at, steps);
    return;
  }
  if (now_->pattern == GraphPattern::nvls) {
    enter(now_->found, 0, closing_at, std::nullopt, steps);
    return;
  }
  Closing forced = closing_at;
  forced.order = now_->found == 0 ? Order::ascending : Order::as_before;
  enter(now_->found == 0 ? 0 : channel_before().gpus[0], 0, forced, std::nullopt, steps);
  if (!now_->same_channels || now_->found == 0) {
    for (int gpu = 0; gpu < node_.gpus; ++gpu) {
      enter(gpu, 0, closing_at, std::nullopt, steps);
    }
  }
}

void ChannelLayer::start_at_nics(const Closing& closing_at, int& steps) {
  const auto speed = static_cast<float>(whole_gigabytes(now_->bw_inter));
  const std::vector<int>& nics = nics_.to_start();
  const bool first = now_->found == 0;  // it has a reference order at each NIC, in steps of its own
  for (std::size_t i = 0; i < nics.size() && (first || steps > 0); ++i) {
    const int nic = nics[(static_cast<std::size_t>(now_->found) + i) % nics.size()];
    float& left = rates_.port(nic);
    if (left < speed || (odd_of_pair() && nic != channel_before().nic_out)) {
      continue;
    }
    channel().nic_in = nic;
    left -= speed;
    const bool head = start_at(nic, closing_at, nics.size(), steps);
    left += speed;
    if (head) {
      break;
    }
  }
}

// True: the channel had its head tried there (nvls and collnet_direct take the first one that is free).
bool ChannelLayer::start_at(int nic, const Closing& closing_at, std::size_t nics, int& steps) {
  const std::uint32_t port = node_.port(nic);
  const int nearest_gpu = node_.nearest_gpu[static_cast<std::size_t>(nic)];
  Closing forced = closing_at;
  if (has_heads(now_->pattern)) {
    const auto taken = std::span(now_->channels).first(static_cast<std::size_t>(now_->found));
    const bool twice =
        std::ranges::any_of(taken, [&](const NodeChannel& c) { return c.gpus[0] == nearest_gpu; });
    if (static_cast<std::size_t>(now_->found) >= nics || nearest_gpu < 0 || twice) {
      return false;
    }
    enter(nearest_gpu, 0, closing_at, port, steps);
    return true;
  }
  // Until 2.26 the order before is tried first where another is allowed, too.
  if (now_->found > 0 && (now_->same_channels || version_ < 227)) {
    forced.order = Order::as_before;
    enter(channel_before().gpus[0], 0, forced, port, steps);
    if (now_->same_channels) {
      return false;
    }
  }
  if (now_->found == 0 && (!node_.has_nvswitch || version_ < 219)) {
    forced.order = Order::ascending;
    int reference = kReferenceOrder;
    enter(0, 0, forced, port, reference);
    steps = reference == kPerfect ? kPerfect : steps;
  }
  for (const int gpu : gpus_to_start(nic)) {
    enter(gpu, 0, closing_at, port, steps);
  }
  return false;
}

// The nearest; until 2.26 the next ones by number, until 2.18 the first whose PCIe is free.
std::vector<int> ChannelLayer::gpus_to_start(int nic) {
  std::vector<int> gpus = node_.near_gpus[static_cast<std::size_t>(nic)];
  if (version_ >= 227) {
    const int nearest = node_.nearest_gpu[static_cast<std::size_t>(nic)];
    if (nearest >= 0) {
      std::erase(gpus, nearest);
      gpus.insert(gpus.begin(), nearest);
    }
  } else if (version_ >= 219) {
    const int first = now_->found % node_.gpus;
    std::ranges::sort(gpus);
    std::stable_partition(gpus.begin(), gpus.end(), [&](int gpu) { return gpu >= first; });
  } else {
    std::ranges::sort(gpus);
    std::stable_partition(gpus.begin(), gpus.end(), [&](int gpu) { return rates_.pcie_rate(gpu) > 0; });
  }
  return gpus;
}

// From a GPU or a port (absent: the channel begins here) to `gpu`, and on.
void ChannelLayer::enter(int gpu, int step, const Closing& closing_at, std::optional<std::uint32_t> from,
                         int& steps) {
  if (steps <= 0 || (from && !follow(*from, node_.gpu(gpu), 1))) {
    return;
  }
  gpus_.flip(gpu, now_->found);
  visit(gpu, step, closing_at, steps);
  gpus_.flip(gpu, now_->found);
  if (from) {
    follow(*from, node_.gpu(gpu), -1);
  }
}

void ChannelLayer::visit(int gpu, int step, const Closing& closing_at, int& steps) {
  if (steps <= 0) {
    return;
  }
  --steps;
  if (step == node_.gpus) {
    complete(steps);
    return;
  }
  channel().gpus[static_cast<std::size_t>(step)] = gpu;
  if (step == closing_at.nic) {
    close_at_nics(gpu, step, closing_at, steps);
  } else if (now_->pattern == GraphPattern::nvls) {
    spread_nvls(gpu, steps);
  } else if (now_->pattern == GraphPattern::collnet_direct) {
    spread_direct(gpu, steps);
  } else if (step < node_.gpus - 1) {
    go_on(gpu, step, closing_at, steps);
  } else if (step == closing_at.first) {
    close_at_first(gpu, step, closing_at, steps);
  } else {
    visit(gpu, node_.gpus, {}, steps);
  }
}

void ChannelLayer::complete(int& steps) {
  ++now_->found;
  if (improves()) {
    *best_ = *now_;
    steps = now_->found == now_->max_channels ? kPerfect : steps;
  }
  if (now_->found < now_->max_channels) {
    next_channel(steps);
  }
  --now_->found;
}

bool ChannelLayer::improves() const {
  if (now_->found < now_->min_channels) {
    return false;
  }
  if (now_->pattern == GraphPattern::nvls) {
    const auto reach = [](const ChannelAttempt& a) { return static_cast<float>(a.found) * a.bw_inter; };
    return (now_->found > best_->found && now_->found <= node_.gpus) ||
           (version_ >= 219 && reach(*now_) > reach(*best_));
  }
  // Until 2.19 channels that cross no NICs had a bonus.
  const int crosses = version_ < 220 ? now_->cross_nic - best_->cross_nic : 0;
  const float least = best_->total() * (1 + static_cast<float>(crosses) * .15F);
  if (now_->total() != least) {
    return now_->total() > least;
  }
  return now_->pattern == best_->pattern && now_->cross_nic == best_->cross_nic && now_->hops < best_->hops;
}

void ChannelLayer::go_on(int gpu, int step, const Closing& closing_at, int& steps) {
  const std::size_t first = to_try_.size();
  if (closing_at.order == Order::ascending) {
    to_try_.push_back(step + 1);
  } else if (closing_at.order == Order::as_before) {
    to_try_.push_back(channel_before().gpus[static_cast<std::size_t>(step) + 1]);
  } else {
    gpus_.append(*now_, gpu,
                 closing_at.nic == -1         ? NicFirst::no
                 : closing_at.nic == step + 1 ? NicFirst::nearest
                                              : NicFirst::later,
                 to_try_);
  }
  const std::size_t end = to_try_.size();
  for (std::size_t i = first; i < end; ++i) {
    enter(to_try_[i], step + 1, closing_at, node_.gpu(gpu), steps);
  }
  to_try_.resize(first);
}

void ChannelLayer::close_at_first(int gpu, int step, const Closing& closing_at, int& steps) {
  const int first = channel().gpus[0];
  if (follow(node_.gpu(gpu), node_.gpu(first), 1)) {
    visit(first, step + 1, {closing_at.nic, -1, closing_at.order}, steps);
    follow(node_.gpu(gpu), node_.gpu(first), -1);
  }
}

// A balanced tree has half its speed to the NIC from each of its first two GPUs.
void ChannelLayer::close_at_nics(int gpu, int step, const Closing& closing_at, int& steps) {
  const bool halved = now_->pattern == GraphPattern::balanced_tree;
  const float speed = now_->bw_inter;
  Closing then = closing_at;
  then.nic = halved && step == 0 ? 1 : -1;
  for (const int nic : nics_.to_end(gpu)) {
    if (steps <= 0 || !may_end_at(nic, step)) {
      continue;
    }
    now_->bw_inter = halved ? speed / 2 : speed;
    const bool reached = follow(node_.gpu(gpu), node_.port(nic), 1);
    now_->bw_inter = speed;
    if (reached) {
      channel().nic_out = nic;
      visit(gpu, step, then, steps);
      now_->bw_inter = halved ? speed / 2 : speed;
      follow(node_.gpu(gpu), node_.port(nic), -1);
      now_->bw_inter = speed;
    }
  }
}

// All hops or none; then the channel is complete.
void ChannelLayer::spread(const std::vector<Hop>& hops, int head, int& steps) {
  std::size_t taken = 0;
  while (taken < hops.size() && follow(hops[taken].from, hops[taken].to, hops[taken].times)) {
    ++taken;
  }
  if (taken == hops.size()) {
    fill_with_others(head);
    visit(head, node_.gpus, {}, steps);
  }
  while (taken > 0) {
    --taken;
    follow(hops[taken].from, hops[taken].to, -hops[taken].times);
  }
}

void ChannelLayer::fill_with_others(int head) {
  std::size_t step = 1;
  for (int gpu = 0; gpu < node_.gpus; ++gpu) {
    if (gpu != head) {
      channel().gpus[step++] = gpu;
    }
  }
}

// The head pulls from all GPUs through the switch and pushes back.
void ChannelLayer::spread_nvls(int head, int& steps) {
  std::vector<Hop> hops;
  for (int gpu = 0; gpu < node_.gpus; ++gpu) {
    hops.push_back({node_.nvswitch(), node_.gpu(gpu), gpu == head ? 2.0F : 1.0F});
  }
  for (int gpu = 0; gpu < node_.gpus; ++gpu) {
    hops.push_back({node_.gpu(gpu), node_.nvswitch(), gpu == head ? 2.0F : 1.0F});
  }
  spread(hops, head, steps);
}

void ChannelLayer::spread_direct(int head, int& steps) {
  const float share = 1 / static_cast<float>(node_.gpus - 1);
  std::vector<Hop> hops;
  for (int gpu = 0; gpu < node_.gpus; ++gpu) {
    hops.push_back({node_.gpu(head), node_.gpu(gpu), share});
  }
  for (int gpu = 0; gpu < node_.gpus; ++gpu) {
    hops.push_back({node_.gpu(gpu), node_.gpu(head), share});
  }
  spread(hops, head, steps);
}

}  // namespace paceline
