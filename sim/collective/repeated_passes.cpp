#include <algorithm>
#include <limits>

#include "sim/collective/passes.h"

namespace paceline {

// After the pass of this number, counted from 0: compares with a pass before, and goes on where these would end if they
// were repeated as often as they can be; false: they are not. Keeps what stands after the passes 7, 8, 10, 12, 15
// ..., each a quarter later than the one before: whatever the period, some of them are kept for long enough.
bool Passes::leave_out_repeats(const StepTimes& times, std::uint64_t pass) {
  constexpr std::uint64_t kFirstKept = 7;
  if (const std::int64_t again = pass > kFirstKept ? times_again(times) : 0; again > 0) {
    for (std::size_t v = 0; v < at_.size(); ++v) {
      if (times.done(at_[v])) {
        continue;
      }
      at_[v] = StepTimes::after_again(earlier_.at[v], at_[v], again);
      for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
        time_[v * lanes_ + lane] += later_[lane] * again;
      }
    }
    for (std::uint32_t f = 0; f < counts_.size(); ++f) {
      for (std::uint32_t back = slots_in_use(f); back > 0; --back) {
        SimTime* const of_lanes = slot(f, counts_[f].sent - back);
        for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
          of_lanes[lane] += later_[lane] * again;
        }
      }
    }
    left_out_ += static_cast<std::uint64_t>(again) * (pass - earlier_.pass);
    return true;
  }
  if (pass == kFirstKept || (pass > kFirstKept && pass >= earlier_.pass + earlier_.pass / 4)) {
    earlier_.pass = pass;
    earlier_.at = at_;
    earlier_.time = time_;
    earlier_.counts = counts_;
    const std::size_t used = place_of_slot(static_cast<std::uint32_t>(counts_.size()), 0);
    earlier_.slots.assign(slots_.begin(), slots_.begin() + static_cast<std::ptrdiff_t>(used));
  }
  return false;
}

// How often what happened since earlier_ can happen again, later by later_; 0 where it is not the same.
std::int64_t Passes::times_again(const StepTimes& times) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  bool first = true;
  for (std::size_t i = 0; i < at_.size(); ++i) {
    const std::size_t v = (unlike_ + i) % at_.size();  // first what has told them apart before
    if (times.done(earlier_.at[v])) {
      continue;
    }
    if (first) {
      later_.clear();
      for (std::size_t at = v * lanes_; at < (v + 1) * lanes_; ++at) {
        later_.push_back(time_[at] - earlier_.time[at]);
      }
      first = false;
    }
    least = std::min(least, times.times_again(earlier_.at[v], at_[v]));
    if (least == 0 || !is_later(v)) {
      unlike_ = v;
      return 0;
    }
  }
  return first || !fifos_are_later() ? 0 : least;
}

bool Passes::is_later(std::size_t visit) const {
  for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
    const std::size_t at = visit * lanes_ + lane;
    if (time_[at] != earlier_.time[at] + later_[lane]) {
      return false;
    }
  }
  return true;
}

bool Passes::fifos_are_later() const {
  for (std::uint32_t f = 0; f < counts_.size(); ++f) {
    const Count &now = counts_[f], &before = earlier_.counts[f];
    const bool some_unfilled = plan_->slots > 0 && now.sent != before.sent && before.sent < limit_;
    if (now.sent - before.sent != now.received - before.received || some_unfilled) {
      return false;
    }
    for (std::uint32_t back = slots_in_use(f); back > 0; --back) {
      const SimTime* const of_lanes = &slots_[place_of_slot(f, now.sent - back)];
      const SimTime* const were = &earlier_.slots[place_of_slot(f, before.sent - back)];
      for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
        if (of_lanes[lane] != were[lane] + later_[lane]) {
          return false;
        }
      }
    }
  }
  return true;
}

// Whose times count: full ones, and where FIFOs are limited those that were emptied. None of a FIFO that nothing was
// sent on since earlier_, whose times stay.
std::uint32_t Passes::slots_in_use(std::uint32_t fifo) const {
  const Count& count = counts_[fifo];
  return count.sent == earlier_.counts[fifo].sent ? 0
         : plan_->slots > 0                       ? limit_
                                                  : count.sent - count.received;
}

}  // namespace paceline
