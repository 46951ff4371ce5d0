// What the channels that are laid so far leave of each link's rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "topology/channel_paths.h"

namespace paceline {

// NCCL compares some rates in whole GB/s.
inline int whole_gigabytes(float rate) { return static_cast<int>(rate); }

class LinkRates {
 public:
  explicit LinkRates(const CountedNode& node);

  // Takes `rate` along the path that starts at `from`, or gives it back (rate < 0). False: a link has not
  // that much left, and nothing was taken.
  bool take(const CountedPath& path, std::uint32_t from, float rate);
  // Left of the cable from a GPU to the host; -1: it has none.
  int pcie_rate(int gpu) const;
  // Left on a NIC's port for channels that start there.
  float& port(int nic) { return port_rates_[static_cast<std::size_t>(nic)]; }

 private:
  std::size_t take_first(const CountedPath& path, std::uint32_t from, float rate, std::size_t count);

  const CountedNode& node_;
  std::vector<float> rates_;  // of each link
  std::vector<float> port_rates_;
};

}  // namespace paceline
