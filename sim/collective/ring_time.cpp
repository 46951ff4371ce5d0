// How RingSchedule finds the maximising path.
//
// Unroll the positions: q runs over all integers, begin and links are periodic. Let M be the largest stay,
// P(q) the sum of move before q, gain(q) = q * M - P(q), lead(q) = begin(q) + gain(q), lag(k) = M - stay(k).
// The formula of the header, with q = r - j and any link k of the path for its staying (a faster one than the
// slowest only makes the path shorter), is
//   end(r)   = S * M - gain(r) + reach(r)
//   reach(r) = max over q <= k <= r, r - q <= S of  lead(q) - (S - r + q) * lag(k)
//
// Paths over a slowest link: lag = 0, reach is the largest lead of a range of q that begins at r - S and ends
// at l(r), the last slowest link at or before r. lead(q + N) = lead(q) + D with D = gain_of_turn_, so a few
// copies of the leads 0 .. N-1 matter, and of copies wholly in range the one that the sign of D favours:
//   S = 2(N-1), D <= 0: the farthest N of the range, r - S .. r - N + 1, for r - N + 1 <= l(r). That is
//     lead(q) - D for q < r + 2 and lead(q) - 2D for the others; at r = N - 1, lead(0) and lead(q) - D for
//     the others. A path that meets no slowest link has j <= N - 2; one turn more is still in range, passes
//     the slowest link and has no smaller lead: nothing else needs to be looked at.
//   S = 2(N-1), D > 0: the nearest N, l(r) - N + 1 .. l(r). That is lead(q) for q <= l(r) and lead(q) - D for
//     the others (or for all: those up to l(r) are covered by themselves).
//   S = N-1: the range itself. That is lead(q) for q <= l(r) and lead(q) - D for q > r.
//
// Paths that stay behind the last slowest link: q, k, r in one stretch. If all its lags are equal, a running
// maximum does. Else for each k the best q is a maximum of lines in lag(k), found on the upper hull of the
// points (q, lead(q)), and for each r the best k a maximum of lines in r, found in a Li Chao tree. Most never
// get there:
//   - of q only those with a lead above all before them in the stretch (lag >= 0: a later q loses more);
//   - of k, between two such q, only those with a lag below all since;
//   - of lines, only those that at the end of the stretch beat the paths over a slowest link: lines grow
//     with r, and what those paths reach does not grow within a stretch.
#include "sim/collective/ring_time.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace paceline {
namespace {

__extension__ typedef __int128 Wide;  // no other form is an extension

// Below every value that occurs, with room to subtract one.
constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min() / 2;
constexpr std::int64_t kNoLag = std::numeric_limits<std::int64_t>::max();

// Appends a point to the right of an upper hull (a concave chain).
template <class Point>
void extend_hull(std::vector<Point>& hull, const Point& added) {
  while (hull.size() >= 2) {
    const Point &a = hull[hull.size() - 2], &b = hull.back();
    if (Wide(b.value - a.value) * (added.at - a.at) > Wide(added.value - a.value) * (b.at - a.at)) {
      break;
    }
    hull.pop_back();
  }
  hull.push_back(added);
}

// max over the hull's points of value - at * lag: before the first edge that climbs by no more than lag per
// position.
template <class Point>
std::int64_t highest_above(const std::vector<Point>& hull, std::int64_t lag) {
  std::size_t low = 0, high = hull.size() - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const Point &a = hull[middle], &b = hull[middle + 1];
    if (b.value - b.at * lag > a.value - a.at * lag) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return hull[low].value - hull[low].at * lag;
}

// A Li Chao tree: the maximum of lines at the integers first .. last-1. The node of a range is its middle;
// every line that is the highest at some x lies in a node on the way from the root to x. Below an empty node
// all are empty.
template <class Line>
struct LineTree {
  std::vector<Line>& node;
  std::size_t first, last;

  static std::int64_t value(const Line& line, std::size_t x) {
    return line.height + static_cast<std::int64_t>(x) * line.slope;
  }
  void clear() { std::fill(node.begin() + first, node.begin() + last, Line{kLowest, 0}); }

  // Requires: no query below `from` follows.
  void insert(Line line, std::size_t from) {
    std::size_t low = first, high = last;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      Line& here = node[middle];
      if (value(line, middle) > value(here, middle)) {
        std::swap(line, here);
      }
      if (line.slope > here.slope && value(line, high - 1) > value(here, high - 1)) {
        low = middle + 1;
      } else if (line.slope < here.slope && middle > from && value(line, low) > value(here, low)) {
        high = middle;
      } else {
        return;
      }
    }
  }

  std::int64_t highest_at(std::size_t x) const {
    std::int64_t best = kLowest;
    std::size_t low = first, high = last;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (node[middle].height == kLowest) {
        break;
      }
      best = std::max(best, value(node[middle], x));
      if (x == middle) {
        break;
      }
      (x < middle ? high : low) = x < middle ? middle : middle + 1;
    }
    return best;
  }
};

}  // namespace

RingSchedule::RingSchedule(const RingLinks& links, std::int64_t steps)
    : steps_(steps), gain_(links.stay.size()) {
  const std::size_t n = size();
  assert(n >= 1 && links.move.size() == n);
  assert(steps == 2 * static_cast<std::int64_t>(n - 1) || steps == static_cast<std::int64_t>(n - 1));
  const auto slowest = std::max_element(links.stay.begin(), links.stay.end());
  slowest_ = slowest->ps;
  origin_ = static_cast<std::size_t>(slowest - links.stay.begin() + 1) % n;
  for (std::size_t i = 0, at = origin_; i < n; ++i, at = at + 1 == n ? 0 : at + 1) {
    gain_[i] = gain_of_turn_;
    gain_of_turn_ += slowest_ - links.move[at].ps;
  }
  find_stretches(links);
}

void RingSchedule::find_stretches(const RingLinks& links) {
  const std::size_t n = size();
  std::vector<std::int64_t> lag(n);
  bool varied = false;
  Stretch stretch{0, 0, 0};
  for (std::size_t i = 0, at = origin_; i < n; ++i, at = at + 1 == n ? 0 : at + 1) {
    lag[i] = slowest_ - links.stay[at].ps;
    if (i == stretch.first) {
      stretch.lag = lag[i];
    }
    if (lag[i] == 0) {
      stretch.last = static_cast<std::uint32_t>(i);
      stretches_.push_back(stretch);
      stretch = {stretch.last + 1, 0, 0};
    } else if (lag[i] != stretch.lag) {
      stretch.lag = kVaried;
      varied = true;
    }
  }
  if (varied) {
    lag_ = std::move(lag);
  }
}

void RingSchedule::end(std::span<const SimTime> begin, std::span<SimTime> end, Scratch& scratch) const {
  const std::size_t n = size(), head = n - origin_;
  assert(begin.size() == n && end.size() == n);
  scratch.lead.resize(n);
  scratch.reach.resize(n);
  for (std::size_t i = 0; i < head; ++i) {
    scratch.lead[i] = begin[origin_ + i].ps + gain_[i];
  }
  for (std::size_t i = head; i < n; ++i) {
    scratch.lead[i] = begin[i - head].ps + gain_[i];
  }
  if (gain_of_turn_ <= 0 && steps_ > static_cast<std::int64_t>(n) - 1) {
    reach_by_whole_turns(scratch);
  } else {
    reach_from_behind(scratch);
  }
  const std::int64_t staying = steps_ * slowest_;
  for (std::size_t i = 0; i < head; ++i) {
    end[origin_ + i].ps = staying + scratch.reach[i] - gain_[i];
  }
  for (std::size_t i = head; i < n; ++i) {
    end[i - head].ps = staying + scratch.reach[i] - gain_[i];
  }
}

// S = 2(N-1), D <= 0.
void RingSchedule::reach_by_whole_turns(Scratch& scratch) const {
  const std::int64_t* lead = scratch.lead.data();
  std::int64_t* reach = scratch.reach.data();
  const std::size_t n = size();
  std::int64_t largest = lead[n - 1];
  reach[n - 2] = kLowest;
  for (std::size_t i = n - 1; i >= 2; --i) {
    reach[i - 2] = largest;
    largest = std::max(largest, lead[i - 1]);
  }
  reach[n - 1] = std::max(lead[0], largest - gain_of_turn_);
  largest = std::max(largest, lead[0]);
  for (std::size_t r = 0; r + 1 < n; ++r) {
    reach[r] = std::max(largest, reach[r] - gain_of_turn_) - gain_of_turn_;
  }
}

// The other two cases, from the far copy of the leads to the near one to the stretches.
void RingSchedule::reach_from_behind(Scratch& scratch) const {
  const std::int64_t* lead = scratch.lead.data();
  std::int64_t* reach = scratch.reach.data();
  const std::size_t n = size();
  if (steps_ > static_cast<std::int64_t>(n) - 1) {
    std::fill(reach, reach + n, *std::max_element(lead, lead + n) - gain_of_turn_);
  } else {
    std::int64_t largest = kLowest;
    for (std::size_t i = n; i-- > 0;) {
      reach[i] = largest - gain_of_turn_;
      largest = std::max(largest, lead[i]);
    }
  }
  std::int64_t nearest = kLowest;  // the largest lead up to the last slowest link
  for (const Stretch& stretch : stretches_) {
    if (stretch.lag == kVaried) {
      reach_in_varied_stretch(stretch, nearest, scratch);
    } else {
      reach_in_uniform_stretch(stretch, nearest, scratch);
    }
    for (std::size_t i = stretch.first; i <= stretch.last; ++i) {
      nearest = std::max(nearest, lead[i]);
    }
    reach[stretch.last] = std::max(reach[stretch.last], nearest);
  }
}

void RingSchedule::reach_in_uniform_stretch(const Stretch& stretch, std::int64_t nearest,
                                            Scratch& scratch) const {
  const std::int64_t* lead = scratch.lead.data();
  std::int64_t* reach = scratch.reach.data();
  std::int64_t best = kLowest, lost = 0;
  const std::int64_t all_lost = steps_ * stretch.lag;
  for (std::size_t r = stretch.first; r < stretch.last; ++r) {
    best = std::max(best, lead[r] - lost);
    reach[r] = std::max({reach[r], nearest, best + lost - all_lost});
    lost += stretch.lag;
  }
}

void RingSchedule::reach_in_varied_stretch(const Stretch& stretch, std::int64_t nearest,
                                           Scratch& scratch) const {
  scratch.tree.resize(std::max(scratch.tree.size(), size()));
  scratch.hull.clear();
  LineTree<Scratch::Line> tree{scratch.tree, stretch.first, stretch.last};
  bool planted = false;
  const std::int64_t end = stretch.last - 1, fewest_stays = steps_ - end;
  const std::int64_t bound = std::max(scratch.reach[stretch.last - 1], nearest);
  std::int64_t largest = kLowest, least = kNoLag;
  for (std::size_t r = stretch.first; r < stretch.last; ++r) {
    const std::int64_t lead = scratch.lead[r], lag = lag_[r];
    if (lead > largest) {
      largest = lead;
      extend_hull(scratch.hull, {static_cast<std::int64_t>(r), lead});
      least = kNoLag;
    }
    if (lag < least) {
      least = lag;
      if (largest - (fewest_stays + stretch.first) * lag > bound) {
        const std::int64_t best = highest_above(scratch.hull, lag);
        if (best - fewest_stays * lag > bound) {
          if (!planted) {
            tree.clear();
            planted = true;
          }
          tree.insert({best - steps_ * lag, lag}, r);
        }
      }
    }
    const std::int64_t behind = planted ? tree.highest_at(r) : kLowest;
    scratch.reach[r] = std::max({scratch.reach[r], nearest, behind});
  }
}

// Unrolled, a path enters at some q with its first chunk, and does its M-1 stays on the slowest link k that
// it passes:
//   start(r, M-1) = P(r) + max over q <= k <= r of  begin(q) - P(q) + (M-1) * stay(k)

}  // namespace paceline
