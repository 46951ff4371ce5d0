// When each rank leaves a collective that no other traffic touches, from when each rank enters it.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "core/time.h"
#include "sim/collective/ring_time.h"
#include "sim/job.h"

namespace paceline {

// Holds what the job alone decides (one RingSchedule per plan and pattern of hops), and working memory.
class CollectiveTimes {
 public:
  explicit CollectiveTimes(const TrainingJob&);

  // launch and end by rank. Requires: launch[r] >= origin, within 2^59 ps of it.
  void end(std::uint32_t plan, std::span<const SimTime> launch, SimTime origin, std::span<SimTime> end);

 private:
  void ring_ends(std::uint32_t plan, const Channel&);
  void chain_ends(const CollectivePlan&, const Channel&);

  const TrainingJob& job_;
  std::vector<std::vector<RingSchedule>> schedules_;  // [plan][pattern]; empty for a broadcast
  RingSchedule::Scratch scratch_;
  std::vector<SimTime> begin_, end_, stay_, move_;  // by position of the channel at hand
};

}  // namespace paceline
