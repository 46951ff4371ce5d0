#include "topology/channel_candidates.h"

#include <algorithm>
#include <tuple>

namespace paceline {
namespace {

constexpr int kSearchedNics = 64;

void append_new(std::vector<int>& list, int value) {
  if (std::ranges::find(list, value) == list.end()) {
    list.push_back(value);
  }
}

}  // namespace

NextGpus::Candidate NextGpus::candidate(const ChannelAttempt& now, int from, int gpu, int distance,
                                        bool near_nic) const {
  const CountedPath& path = node_.path(node_.gpu(from), node_.gpu(gpu));
  Candidate c{gpu, distance, {0, 0, 0, -whole_gigabytes(path.rate), path.hops}};
  if (near_nic) {
    const int nic = now.channels[static_cast<std::size_t>(now.found)].nic_in;
    const CountedPath& out = node_.path(node_.port(nic), node_.gpu(gpu));
    c.score[0] = -whole_gigabytes(out.rate);
    c.score[1] = -rates_.pcie_rate(gpu);
    c.score[2] = out.hops;
  }
  return c;
}

// Beside an NVSwitch the neighbours by number are tried first, and since 2.21 alone: few peers per GPU.
void NextGpus::append_neighbours(const ChannelAttempt& now, int from, std::vector<int>& list) const {
  const int down = (from + node_.gpus - 1) % node_.gpus, up = (from + 1) % node_.gpus;
  const bool ring = now.pattern == GraphPattern::ring;
  const auto append = [&](int gpu) {
    if (gpu != from && is_free(gpu, now.found)) {
      list.push_back(gpu);
    }
  };
  append(ring ? down : up);
  if (up != down && now.pattern != GraphPattern::tree) {
    append(ring ? up : down);
  }
}

void NextGpus::append(const ChannelAttempt& now, int from, NicFirst nic, std::vector<int>& list) {
  const auto first = static_cast<std::ptrdiff_t>(list.size());
  if (node_.has_nvswitch && version_ >= 219) {
    append_neighbours(now, from, list);
    if (version_ >= 221) {
      return;
    }
  }
  candidates_.clear();
  for (int i = 1; i < node_.gpus; ++i) {
    const int gpu = (from + i) % node_.gpus;
    if (is_free(gpu, now.found) && node_.path(node_.gpu(from), node_.gpu(gpu)).type < PathType::dis) {
      candidates_.push_back(candidate(now, from, gpu, i, nic != NicFirst::no));
    }
  }
  std::ranges::sort(candidates_, {}, [](const Candidate& c) { return std::tuple(c.score, c.distance); });
  const bool alike = std::ranges::all_of(candidates_, [&](const Candidate& c) {
    return c.score[3] == candidates_[0].score[3] && c.score[4] == candidates_[0].score[4];
  });
  if (nic == NicFirst::later && alike) {
    std::ranges::reverse(candidates_);
  }
  const std::vector<int> before(list.begin() + first, list.end());
  for (const Candidate& c : candidates_) {
    if (std::ranges::find(before, c.gpu) == before.end()) {
      list.push_back(c.gpu);
    }
  }
}

void NicLists::list(PathType worst) {
  if (listed_ == worst) {
    return;
  }
  listed_ = worst;
  const auto append_by_type = [&](std::vector<int>& list, int gpu, int type) {
    for (int n = 0; n < std::min(node_.nics, kSearchedNics); ++n) {
      if (static_cast<int>(node_.path(node_.gpu(gpu), node_.port(n)).type) == type) {
        append_new(list, n);
      }
    }
  };
  to_start_.clear();
  of_gpu_ = node_.own_nics;
  for (const std::vector<int>& own : node_.own_nics) {
    std::ranges::for_each(own, [&](int n) { append_new(to_start_, n); });
  }
  for (int type = 0; type <= static_cast<int>(worst); ++type) {
    for (int g = 0; g < node_.gpus; ++g) {
      append_by_type(to_start_, g, type);
      append_by_type(of_gpu_[static_cast<std::size_t>(g)], g, type);
    }
  }
}

}  // namespace paceline
