#include "sim/engine/collective_times.h"

#include <algorithm>

namespace paceline {

CollectiveTimes::CollectiveTimes(const TrainingJob& job)
    : job_(job),
      schedules_(job.plans.size()),
      begin_(job.ranks()),
      end_(job.ranks()),
      stay_(job.ranks()),
      move_(job.ranks()) {
  const Communicator& wires = job.communicator;
  for (std::size_t p = 0; p < job.plans.size(); ++p) {
    if (job.plans[p].kind != CollectiveKind::all_reduce) {
      continue;
    }
    for (const std::vector<std::uint32_t>& pattern : wires.patterns) {
      for (std::size_t i = 0; i < pattern.size(); ++i) {
        const HopClass& hop = wires.classes[pattern[i]];
        stay_[i] = occupancy(job.plans[p].chunk, hop);
        move_[i] = stay_[i] + hop.latency;
      }
      schedules_[p].emplace_back(RingLinks{stay_, move_}, job.plans[p].chunks);
    }
  }
}

void CollectiveTimes::end(std::uint32_t plan, std::span<const SimTime> launch, SimTime origin,
                          std::span<SimTime> end) {
  if (job_.ranks() == 1) {
    end[0] = launch[0];
    return;
  }
  std::fill(end.begin(), end.end(), SimTime{});
  for (const Channel& channel : job_.communicator.channels) {
    const bool ring = job_.plans[plan].kind == CollectiveKind::all_reduce;
    const std::size_t n = channel.order.size(), first = ring ? 0 : root_position(channel);
    const auto rank_at = [&](std::size_t position) {
      const std::size_t p = first + position;
      return channel.order[p < n ? p : p - n].index();
    };
    for (std::size_t p = 0; p < n; ++p) {
      begin_[p] = launch[rank_at(p)] - origin;
    }
    ring ? ring_ends(plan, channel) : chain_ends(job_.plans[plan], channel);
    for (std::size_t p = 0; p < n; ++p) {
      SimTime& latest = end[rank_at(p)];
      latest = std::max(latest, end_[p] + origin);
    }
  }
}

void CollectiveTimes::ring_ends(std::uint32_t plan, const Channel& channel) {
  schedules_[plan][channel.pattern].end(begin_, end_, scratch_);
}

void CollectiveTimes::chain_ends(const CollectivePlan& plan, const Channel& channel) {
  const Communicator& wires = job_.communicator;
  const std::vector<std::uint32_t>& pattern = wires.patterns[channel.pattern];
  const std::size_t n = pattern.size(), root = root_position(channel);
  for (std::size_t i = 0; i < n; ++i) {
    const HopClass& hop = wires.classes[pattern[(root + i) % n]];
    stay_[i] = occupancy(plan.chunk, hop);
    move_[i] = stay_[i] + hop.latency;
  }
  chain_end({stay_, move_}, plan.chunks, begin_, end_);
}

}  // namespace paceline
