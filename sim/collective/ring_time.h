// Exact times of a ring without its steps, where no FIFO fills.
//
// A ring all-reduce over N ranks takes S = 2(N-1) steps (reduce-scatter or all-gather alone: S = N-1). Rank r
// may begin step s when its own step s-1 has left (stay: how long its outgoing link is occupied by one chunk)
// and its predecessor's step s-1 has arrived (move = stay + latency):
//   start(r, 0) = begin(r)
//   start(r, s) = max(start(r, s-1) + stay(r), start(r-1, s-1) + move(r-1))        indices modulo N
//   end(r)      = start(r, S)
// Unrolled, a path of j moves and S-j stays does all its staying on the slowest link that it passes:
//   end(r) = max over j in 0..S of
//            begin(r-j) + sum(move(k), k = r-j .. r-1) + (S-j) * max(stay(k), k = r-j .. r)
// RingSchedule computes that maximum in O(N) for two classes of links and O(N log N) for any; the steps
// are the oracle (tests/ring_by_steps.h).
//
// Everywhere: begin, end and links have equal size N >= 1, stay >= 0 and move >= 0, and
// |begin| + 2N * max(stay, move) < 2^60 ps (13 days), so that int64 holds every sum.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/time.h"

namespace paceline {

// One ring in ring order: element i is the link from position i to position i+1 (modulo N).
struct RingLinks {
  std::span<const SimTime> stay, move;
};

// What the links alone decide, computed once in O(N) and used for every vector of begins. Immutable: may be
// shared by threads, each with a Scratch of its own.
class RingSchedule {
 public:
  // Working memory of end(): reusable for any schedule; grows to the largest one and is not allocated again.
  class Scratch {
    friend class RingSchedule;
    struct Point {
      std::int64_t at, value;
    };
    struct Line {
      std::int64_t height, slope;
    };
    std::vector<std::int64_t> lead, reach;  // by position
    std::vector<Point> hull;
    std::vector<Line> tree;
  };

  // Requires: steps = 2(N-1) or N-1. The links are read here only.
  RingSchedule(const RingLinks& links, std::int64_t steps);

  std::size_t size() const { return gain_.size(); }
  // `end` may be `begin` itself, but may not overlap it otherwise.
  void end(std::span<const SimTime> begin, std::span<SimTime> end, Scratch& scratch) const;

 private:
  // Positions first .. last-1 between two slowest links, and the slowest link `last` that follows them.
  struct Stretch {
    std::uint32_t first, last;
    std::int64_t lag;  // of every link of the stretch, or kVaried
  };
  static constexpr std::int64_t kVaried = -1;

  void find_stretches(const RingLinks& links);
  void reach_by_whole_turns(Scratch& scratch) const;
  void reach_from_behind(Scratch& scratch) const;
  void reach_in_uniform_stretch(const Stretch& stretch, std::int64_t nearest, Scratch& scratch) const;
  void reach_in_varied_stretch(const Stretch& stretch, std::int64_t nearest, Scratch& scratch) const;

  std::int64_t steps_;
  std::size_t origin_ = 0;          // position 0 here is position origin_ of the caller: after a slowest link
  std::int64_t slowest_ = 0;        // M, the largest stay
  std::int64_t gain_of_turn_ = 0;   // N * M - sum of move
  std::vector<std::int64_t> gain_;  // q * M - sum of move before q
  std::vector<std::int64_t> lag_;   // M - stay; empty unless a stretch is varied
  std::vector<Stretch> stretches_;  // one per slowest link; together they hold every position
};

}  // namespace paceline
