#include "sim/network/crowd.h"

#include <cassert>
#include <limits>

namespace paceline {

void Crowd::open(Capacity capacity, SimTime now) {
  capacity_ = capacity;
  room_ = to_fixed(capacity.rate);
  level_ = 0;
  clock_ = 0;
  at_ = now;
  members_.clear();
  free_.clear();
  rising_.clear();
  capped_.clear();
  rising_ends_.clear();
  capped_ends_.clear();
}

std::uint32_t Crowd::join(std::uint32_t flow, double cap, bool endless, const Progress& progress,
                          SimTime now) {
  advance(now);
  std::uint32_t id = static_cast<std::uint32_t>(members_.size());
  if (free_.empty()) {
    members_.emplace_back();
    rising_.reserve(members_.capacity());
    capped_.reserve(members_.capacity());
    rising_ends_.reserve(members_.capacity());
    capped_ends_.reserve(members_.capacity());
  } else {
    id = free_.back();
    free_.pop_back();
  }
  members_[id] = {cap, 0, now, flow, endless};
  if (progress.rate == cap) {
    hold_at_cap(id, to_fixed(progress.remaining), progress.settled);
  } else {
    const double sent = progress.rate * to_seconds(now - progress.settled).value;
    raise(id, to_fixed(progress.remaining - sent));
  }
  return id;
}

void Crowd::leave(std::uint32_t id) {
  if (!rising(id)) {
    room_ += capacity_.load(members_[id].cap);
  }
  rising_.drop(id);
  capped_.drop(id);
  rising_ends_.drop(id);
  capped_ends_.drop(id);
  free_.push_back(id);
}

std::size_t Crowd::share(SimTime now) {
  advance(now);
  std::size_t crossed = 0;
  level_ = find_level();
  // Each that comes back from its cap lifts the level, but not over that cap; so what stays at its cap
  // stays rightly. Then each that meets its cap lifts the level for the others.
  while (!capped_.empty() && -capped_.top().key > level_ * (1 + kRateSlack)) {
    const std::uint32_t id = capped_.top().id;
    const Member& member = members_[id];
    room_ += capacity_.load(member.cap);
    capped_.drop(id);
    capped_ends_.drop(id);
    raise(id, member.left - to_fixed(member.cap * to_seconds(now - member.settled).value));
    level_ = find_level();
    ++crossed;
  }
  while (!rising_.empty() && rising_.top().key <= level_ * (1 + kRateSlack)) {
    const std::uint32_t id = rising_.top().id;
    rising_.drop(id);
    rising_ends_.drop(id);
    hold_at_cap(id, members_[id].left - clock_, now);
    level_ = find_level();
    ++crossed;
  }
  return crossed;
}

void Crowd::advance(SimTime now) {
  assert(at_ <= now);
  if (at_ < now && !rising_.empty()) {
    clock_ += to_fixed(level_ * to_seconds(now - at_).value);
  }
  at_ = now;
}

// Requires: no rising flow, or room for it. A level of 0 brings the capped back until there is.
double Crowd::find_level() const {
  if (rising_.empty()) {
    return capacity_.fits(to_fixed(capacity_.rate) - room_) ? std::numeric_limits<double>::infinity() : 0;
  }
  return std::max(0.0, to_double(room_) / static_cast<double>(rising_.size()));
}

void Crowd::raise(std::uint32_t id, Fixed left) {
  Member& member = members_[id];
  member.left = clock_ + std::max(Fixed{0}, left);
  rising_.set(id, member.cap);
  if (!member.endless) {
    rising_ends_.set(id, member.left);
  }
}

void Crowd::hold_at_cap(std::uint32_t id, Fixed left, SimTime settled) {
  Member& member = members_[id];
  member.left = std::max(Fixed{0}, left);
  member.settled = settled;
  room_ -= capacity_.load(member.cap);
  capped_.set(id, -member.cap);
  if (!member.endless) {
    capped_ends_.set(id, end_after(settled, to_sim_time(Seconds(to_double(member.left) / member.cap))));
  }
}

SimTime Crowd::end_of_rising(Fixed clock) const {
  return end_after(at_, to_sim_time(Seconds(to_double(std::max(Fixed{0}, clock - clock_)) / level_)));
}

std::optional<SimTime> Crowd::next() const {
  if (rising_ends_.empty()) {
    return capped_ends_.empty() ? std::nullopt : std::optional(capped_ends_.top().key);
  }
  const SimTime first_rising = end_of_rising(rising_ends_.top().key);
  return capped_ends_.empty() ? first_rising : std::min(first_rising, capped_ends_.top().key);
}

void Crowd::take_ended(SimTime now, std::vector<std::uint32_t>& flows) {
  while (!capped_ends_.empty() && capped_ends_.top().key == now) {
    flows.push_back(members_[capped_ends_.top().id].flow);
    capped_ends_.drop(capped_ends_.top().id);
  }
  while (!rising_ends_.empty() && end_of_rising(rising_ends_.top().key) == now) {
    flows.push_back(members_[rising_ends_.top().id].flow);
    rising_ends_.drop(rising_ends_.top().id);
  }
}

double Crowd::rate(std::uint32_t id) const { return rising(id) ? level_ : members_[id].cap; }

Crowd::Progress Crowd::progress(std::uint32_t id) const {
  const Member& member = members_[id];
  if (rising(id)) {
    const auto end = member.endless ? std::nullopt : std::optional(end_of_rising(member.left));
    return {level_, to_double(std::max(Fixed{0}, member.left - clock_)), at_, end};
  }
  const auto end = member.endless ? std::nullopt : std::optional(capped_ends_.key(id));
  return {member.cap, to_double(member.left), member.settled, end};
}

}  // namespace paceline
