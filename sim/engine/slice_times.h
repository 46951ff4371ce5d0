// Of the slices on each FIFO: since when each is there to be received, then since when its slot is empty again.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/time.h"
#include "sim/engine/laid_out_graphs.h"

namespace paceline {

// A ring for each FIFO, of the slices by their numbers; all in one memory, where one that grows goes to the end.
class SliceTimes {
 public:
  // The next FIFO, with room for so many slices.
  void add_fifo(std::uint32_t slices) {
    rings_.push_back({static_cast<std::uint32_t>(times_.size()), std::bit_ceil(slices) - 1});
    times_.resize(times_.size() + rings_.back().mask + 1);
  }
  std::size_t fifos() const { return rings_.size(); }
  // By slice, until the next that is made larger.
  struct Ring {
    SimTime* times = nullptr;
    std::uint64_t mask = 0;
    SimTime& operator[](std::uint64_t slice) const { return times[slice & mask]; }
  };
  Ring ring(FifoId fifo) {
    const Place& place = rings_[fifo.index()];
    return {times_.data() + place.first, place.mask};
  }
  // Room for slice `next` besides all from `first` on.
  void make_room(FifoId fifo, std::uint64_t first, std::uint64_t next) {
    if (next - first > rings_[fifo.index()].mask) {
      grow(rings_[fifo.index()], first, next);
    }
  }
  // Room for so many slices, of which `next` comes next; those that are there stay.
  void widen(FifoId fifo, std::uint32_t slices, std::uint64_t next) {
    for (Place& ring = rings_[fifo.index()]; ring.mask + 1 < slices;) {
      grow(ring, next - std::min<std::uint64_t>(next, ring.mask + 1), next);
    }
  }

 private:
  struct Place {
    std::uint32_t first = 0, mask = 0;
  };

  void grow(Place& ring, std::uint64_t first, std::uint64_t next) {
    const Place larger{static_cast<std::uint32_t>(times_.size()), 2 * ring.mask + 1};
    times_.resize(times_.size() + larger.mask + 1);
    for (std::uint64_t slice = first; slice < next; ++slice) {
      times_[larger.first + (slice & larger.mask)] = times_[ring.first + (slice & ring.mask)];
    }
    ring = larger;
  }

  std::vector<Place> rings_;  // by FIFO
  std::vector<SimTime> times_;
};

}  // namespace paceline
