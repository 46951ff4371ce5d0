// Which GPUs and NICs a channel may take next, in the order to try.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "topology/channel_attempt.h"
#include "topology/channel_paths.h"
#include "topology/channel_rates.h"

namespace paceline {

// How the channel's NIC counts for the next GPU: not, nearest to it first, or (the channel ends at a NIC, but
// later) nearest first, reversed where all GPUs are alike for the one before.
enum class NicFirst : std::uint8_t { no, nearest, later };

class NextGpus {
 public:
  NextGpus(const CountedNode& node, const LinkRates& rates, int version)
      : node_(node), rates_(rates), version_(version), used_(static_cast<std::size_t>(node.gpus), 0) {}

  // A channel takes a GPU, or gives it back.
  void flip(int gpu, int channel) { used_[static_cast<std::size_t>(gpu)] ^= std::uint64_t{1} << channel; }
  // Appends the free GPUs that may follow `from` in the channel that `now` lays.
  void append(const ChannelAttempt& now, int from, NicFirst nic, std::vector<int>& list);

 private:
  struct Candidate {
    int gpu, distance;
    std::array<int, 5> score;  // less is better
  };

  bool is_free(int gpu, int channel) const {
    return (used_[static_cast<std::size_t>(gpu)] >> channel & 1) == 0;
  }
  Candidate candidate(const ChannelAttempt& now, int from, int gpu, int distance, bool near_nic) const;
  void append_neighbours(const ChannelAttempt& now, int from, std::vector<int>& list) const;

  const CountedNode& node_;
  const LinkRates& rates_;
  int version_;
  std::vector<std::uint64_t> used_;  // of a GPU: channels that have it
  std::vector<Candidate> candidates_;
};

class NicLists {
 public:
  explicit NicLists(const CountedNode& node) : node_(node) {}

  // Lists the NICs that GPUs have as their own or reach on paths up to that type.
  void list(PathType worst);
  const std::vector<int>& to_start() const { return to_start_; }  // all GPUs' own ones first
  const std::vector<int>& to_end(int gpu) const { return of_gpu_[static_cast<std::size_t>(gpu)]; }

 private:
  const CountedNode& node_;
  std::optional<PathType> listed_;
  std::vector<int> to_start_;
  std::vector<std::vector<int>> of_gpu_;
};

}  // namespace paceline
