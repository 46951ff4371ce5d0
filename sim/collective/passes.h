// When each thread block of a collective ends: what Wavefront (tests/wavefront.h) finds, to the picosecond,
// several times faster.
//
// Which moves are possible depends on how many slices the FIFOs hold, never on times, and in whatever order
// moves are made the times are the same. So the thread blocks are visited in turn, producers before consumers
// where no cycle forbids it, and each makes in one go all the moves that it can: as many as its FIFOs have
// slots, as a rule. Channels are independent: those that differ in nothing but their ranks run side by side,
// as lanes of vector instructions, others one after the other in the same memory.
//
// Once FIFOs are full or empty for good, loops repeat: after some passes every thread block is at the same step, every
// FIFO holds as many slices, and all times are later by the same. As moves go by counts, and times are maxima of sums
// of them, the same passes then make all that later by the same again, as long as moves take what they took. So they
// are not made: the times go up by as much as they would.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/collective/channels.h"
#include "sim/collective/plan.h"
#include "sim/collective/step_times.h"

namespace paceline {

// A FIFO's next slots to be filled, and since when each is empty; what it takes a slice to arrive.
struct SlotsSent {
  SimTime* arrival = nullptr;
  const SimTime* emptied = nullptr;
  SimTime way;
};

// A graph in the order of visits and its working memory, for any number of plans on it.
class Passes {
 public:
  explicit Passes(const CollectiveGraph&);

  // time[w]: in: when thread block w may begin; out: when it has ended. Requires: plan.graph is this graph.
  // Cost: O(moves of all thread blocks until they repeat).
  void run(const CollectivePlan&, const StepTimes&, std::span<SimTime> time);
  // The same of several, side by side where lanes are free: two cost little more than one.
  void run(const CollectivePlan&, const StepTimes&, std::span<const std::span<SimTime>> times);
  // Of all runs: passes that were not made, as they would have repeated others.
  std::uint64_t left_out() const { return left_out_; }

 private:
  struct Visit {  // a thread block, in the order of visits
    std::uint32_t thread_block = 0, script = 0;
    std::uint32_t first_in = 0;   // its FIFOs, one a port
    std::uint32_t first_out = 0;  // in out_
  };
  struct Out {  // a port to send on
    std::uint32_t fifo = 0, hop = 0;
  };
  struct Part {                         // channels alike
    Channel channel;                    // the first of them
    std::vector<std::uint32_t> lanes;   // by channel: how much higher its thread blocks are numbered
    std::uint32_t first = 0, last = 0;  // in visits_
  };
  struct Count {  // slices of one FIFO so far
    std::uint32_t sent = 0, received = 0;
  };

  struct Earlier {  // what stood after a pass before, as the members of the same names
    std::uint64_t pass = 0;
    std::vector<Cursor> at;
    std::vector<SimTime> time, slots;
    std::vector<Count> counts;
  };

  struct Possible {  // moves of a step: at all, and while each FIFO's slots are in a row
    std::uint32_t moves = 0, in_row = 0;
  };

  void add_visits(const CollectiveGraph&, Part&);
  void run_part(const StepTimes&, const Part&, std::span<const std::span<SimTime>> times);
  void run_passes(const StepTimes&, const Part&);
  bool leave_out_repeats(const StepTimes&, std::uint64_t pass);
  std::int64_t times_again(const StepTimes&);
  bool is_later(std::size_t visit) const;
  bool fifos_are_later() const;
  std::uint32_t slots_in_use(std::uint32_t fifo) const;
  bool visit(const StepTimes&, const Visit&, Cursor&, SimTime* time);
  Possible possible(const Visit&, const FlatStep&, std::uint32_t most) const;
  void move(const StepTimes&, const Visit&, const FlatStep&, const Cursor&, SimTime* time,
            std::uint32_t moves);
  std::size_t place_of_slot(std::uint32_t fifo, std::uint32_t number) const {
    return (std::size_t{fifo} * (std::size_t{mask_} + 1) + (number & mask_)) * lanes_;
  }
  SimTime* slot(std::uint32_t fifo, std::uint32_t number) {
    return slots_.data() + place_of_slot(fifo, number);
  }

  std::vector<Visit> visits_;
  std::vector<Out> out_;
  std::vector<Part> parts_;
  const CollectivePlan* plan_ = nullptr;
  std::uint32_t limit_ = 0, mask_ = 0;  // slices that a FIFO holds; of a slice's place in slots_
  std::uint32_t lanes_ = 1;             // of the part at hand, as is all that follows
  std::vector<Cursor> at_;              // by visit
  std::vector<SimTime> time_;           // by visit and lane
  std::vector<Count> counts_;           // by FIFO, from 0 in each part
  std::vector<SimTime> never_filled_;   // slots that are empty from the beginning, as many as a run takes
  std::vector<SimTime> slots_;  // by FIFO, slot and lane: when a slice has arrived, or when it was taken away
  std::vector<SimTime*> in_;    // of the visit at hand: the next full slots, by port
  std::vector<SlotsSent> sent_;
  Earlier earlier_;             // of the part at hand
  std::vector<SimTime> later_;  // by lane: by how much all is later than earlier_
  std::size_t unlike_ = 0;      // the visit that was not
  std::uint64_t left_out_ = 0;
};

}  // namespace paceline
