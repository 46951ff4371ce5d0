// The flows on a link that alone holds them back (incast): what water-filling gives them, at O(log flows) a
// start or end. Which flows these are, and that no other link hinders them, flow_network.h sees to.
//
// Flows below their cap all have the same rate, the level: (capacity - the others' caps) / their number. So
// whatever the level has been, all have been given the same bytes since a given instant, and one clock counts
// them for all: a flow with so many bytes left ends when the clock has gone so much further. These *rising*
// flows wait in a heap by the clock at their end; only the level changes. A flow whose cap the level
// exceeds runs at its cap (*capped*). Heaps by cap say who crosses when the level changes.
//
// The clock and the bytes that are left are sums without rounding (fixed.h) of level times duration, so what
// a flow is given is off by the relative error of a product, 2^-53, however often the level changes; a
// flow's end is rounded to a picosecond once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/time.h"
#include "sim/network/fixed.h"
#include "sim/network/placed_heap.h"
#include "sim/network/placed_queue.h"

namespace paceline {

class Crowd {
 public:
  // How far a flow has come.
  struct Progress {
    double rate = 0;
    double remaining = 0;  // bytes left at `settled`, from when it runs at `rate`
    SimTime settled;
    std::optional<SimTime> end;
  };

  // Begins anew, with no flow.
  void open(Capacity capacity, SimTime now);
  // A flow of the caller's, from the coming share on; `now` is at or after what it has settled. Its end, when
  // it runs at its cap already, stays. Returns its name in this crowd.
  std::uint32_t join(std::uint32_t flow, double cap, bool endless, const Progress& progress, SimTime now);
  void leave(std::uint32_t member);
  // The level anew after flows have joined or left. Returns how many flows crossed it.
  std::size_t share(SimTime now);
  // What is rising is settled at `now`, at the level that held till now.
  void advance(SimTime now);

  // The earliest end, or nullopt when none ends.
  std::optional<SimTime> next() const;
  // Appends the flows whose end is `now`, in no order. They don't leave: others' rates stay till the next
  // share.
  void take_ended(SimTime now, std::vector<std::uint32_t>& flows);

  // The rate of the flows below their cap, as of the last share.
  double level() const { return level_; }
  double rate(std::uint32_t member) const;
  Progress progress(std::uint32_t member) const;

 private:
  struct Member {
    double cap = 0;
    Fixed left = 0;   // capped: bytes left at `settled`; rising: what the clock shows at its end
    SimTime settled;  // if capped
    std::uint32_t flow = 0;
    bool endless = false;
  };

  bool rising(std::uint32_t member) const { return rising_.holds(member); }
  double find_level() const;
  SimTime end_of_rising(Fixed clock) const;
  void raise(std::uint32_t member, Fixed left);
  void hold_at_cap(std::uint32_t member, Fixed left, SimTime settled);

  Capacity capacity_;
  Fixed room_ = 0;  // capacity less the caps of the capped
  double level_ = 0;
  Fixed clock_ = 0;  // bytes that each rising flow has been given at `at_`
  SimTime at_;
  std::vector<Member> members_;
  std::vector<std::uint32_t> free_;
  PlacedHeap<double> rising_, capped_;  // by cap: the lowest first; the highest first (by -cap)
  PlacedQueue<Fixed> rising_ends_;      // by clock: of equal bytes who joins later ends later
  PlacedHeap<SimTime> capped_ends_;
};

// When what runs from `now` for `left` ends.
constexpr SimTime end_after(SimTime now, SimTime left) { return left < kNever - now ? now + left : kNever; }

}  // namespace paceline
