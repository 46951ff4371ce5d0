// Exact times of ring and chain collectives without their steps.
//
// A ring all-reduce over N ranks takes S = 2(N-1) steps. Rank r may begin step s when its own step s-1 has left (stay: how
// long its outgoing link is occupied by one chunk) and its predecessor's step s-1 has arrived (move = stay + latency):
//   start(r, 0) = begin(r)
//   start(r, s) = max(start(r, s-1) + stay(r), start(r-1, s-1) + move(r-1))        indices modulo N
//   end(r)      = start(r, S)
// Unrolled, a path of j moves and S-j stays does all its staying on the slowest link that it passes:
//   end(r) = max over j in 0..S of  begin(r-j) + sum(move(k), k = r-j .. r-1) + (S-j) * max(stay(k), k = r-j .. r)
// ring_end computes that maximum in O(N log N), and O(N) for two classes of links; the steps are the oracle.
//
// A broadcast chain sends M chunks from position 0 to position N-1; position r < N-1 sends to r+1:
//   start(r, s) = max(begin(r), start(r, s-1) + stay(r), start(r-1, s) + move(r-1))
//   end(r)      = start(r, M-1) + stay(r) for r < N-1, arrival of the last chunk for r = N-1 (at least begin(r)).
#pragma once

#include <cstdint>
#include <span>

#include "core/time.h"

namespace paceline {

// One ring in ring order: element i is the link from position i to position i+1 (modulo N).
struct RingLinks {
  std::span<const SimTime> stay, move;
};

// Requires: begin, end, links of equal size N >= 1; `end` may not alias `begin`. N = 1: end = begin.
// What `links` alone decides is computed once in a RingSchedule and used for every start vector.
void ring_end_by_steps(const RingLinks& links, std::int64_t steps, std::span<const SimTime> begin, std::span<SimTime> end);
void chain_end_by_steps(const RingLinks& links, std::int64_t chunks, std::span<const SimTime> begin, std::span<SimTime> end);
void chain_end(const RingLinks& links, std::int64_t chunks, std::span<const SimTime> begin, std::span<SimTime> end);

}  // namespace paceline
