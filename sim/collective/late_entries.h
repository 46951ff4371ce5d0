// A collective whose end those decide who begin last.
//
// Thread blocks wait for each other and for nothing else: every time in a collective is a maximum of sums of the times
// at which they begin, and none gets earlier when one of them begins later. So those that begin early may all be moved
// to the earliest of their times, for ends that are no later than the true ones, and all to the latest, for ends that
// are no earlier. Where both are the same they are the true ones, to the picosecond: nobody waited for the early ones.
// And as these now begin together, thread blocks are equal by the hundred, and one of each class stands for the rest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/time.h"
#include "sim/collective/equal_thread_blocks.h"
#include "sim/collective/passes.h"
#include "sim/collective/step_times.h"

namespace paceline {

class LateEntries {
 public:
  explicit LateEntries(const EqualBegins&);  // Requires: it outlives this

  // As Passes::run on the graph of these, where few enough decide when ranks end: of each rank the latest `time`
  // is that of Passes::run, of a switch no earlier than that, and no later than the first rank's end unless it is
  // the same. Else false, and `time` is as it was. Where that is the answer again and again it is given without
  // looking.
  bool run(const CollectivePlan&, std::span<SimTime> time);
  // Of the last run: the latest time of switches that may have been done earlier; nothing: none may.
  std::optional<SimTime> unknown_until() const { return unknown_until_; }

 private:
  // How many times of beginning may count, one attempt after the other.
  static constexpr std::array<std::size_t, 4> kAttempts{1, 4, 16, 64};

  struct Classes {
    explicit Classes(std::shared_ptr<const EqualThreadBlocks>);
    std::shared_ptr<const EqualThreadBlocks> of;
    Passes passes;
  };
  struct Found {
    std::vector<std::uint32_t> begins;  // by thread block: place in latest_, kUsual
    std::unique_ptr<Classes> classes;   // nothing: too many
  };

  bool run(const CollectivePlan&, std::size_t attempt, std::span<SimTime> time);
  bool decided(const Classes&);
  Classes* find_classes(std::size_t attempt, std::span<const SimTime> time);

  const EqualBegins& equal_;
  const CollectiveGraph& graph_;
  std::vector<SimTime> latest_;                // of a run, distinct, the latest first
  std::vector<std::uint32_t> begins_;          // as Found::begins, of the attempt at hand
  std::array<Found, kAttempts.size()> found_;  // by attempt: the last ones
  std::vector<SimTime> lower_, upper_;         // by class
  std::vector<SimTime> end_, upper_end_;       // by rank
  std::optional<SimTime> unknown_until_;
  SimTime reach_;  // of this run: how long before the last one others were seen to count
  std::uint32_t misses_ = 0, pause_ = 0;  // in a row; runs that are left out
};

}  // namespace paceline
