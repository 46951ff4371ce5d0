// Does RingSchedule equal the recursion of its steps, and that its closed forms?
#include "sim/collective/ring_time.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "core/fingerprint.h"
#include "tests/dice.h"
#include "tests/ring_by_steps.h"

namespace paceline {
namespace {

using Times = std::vector<SimTime>;

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  std::int64_t below(std::int64_t bound) {
    state_ += 0x9e3779b97f4a7c15ULL;
    return static_cast<std::int64_t>(mix64(state_) % static_cast<std::uint64_t>(bound));
  }

 private:
  std::uint64_t state_;
};

struct Ring {
  Times stay, move;
  RingLinks links() const { return {stay, move}; }
};

constexpr std::int64_t kSecond = 1'000'000'000'000;

enum class Stays {
  kEqual,
  kTwo,
  kFew,
  kDifferent,
  kMostlyZero,
  kHugeSpread,
  kRising,
  kFalling,
  kBlocks,
  kTiny,
  kZero,
  kEnd
};
enum class Latencies { kZero, kSmall, kHuge, kAny, kFree, kEnd };
enum class Begins { kZero, kSmall, kHuge, kRising, kFalling, kOneLate, kTiny, kAtGain, kNearGain, kEnd };

template <class Kind>
Kind any(Draws& draws) {
  return static_cast<Kind>(draws.below(static_cast<std::int64_t>(Kind::kEnd)));
}

std::int64_t draw_stay(Stays kind, std::int64_t i, std::int64_t n, Draws& draws) {
  switch (kind) {
    case Stays::kEqual:
      return 1000;
    case Stays::kTwo:
      return i % 4 == 3 ? 9000 : 1000;
    case Stays::kFew:
      return 700 * (1 + draws.below(3));
    case Stays::kMostlyZero:
      return draws.below(4) == 0 ? draws.below(1000) : 0;
    case Stays::kHugeSpread:
      return std::int64_t{1} << draws.below(36);
    case Stays::kRising:
      return 1000 + i * (1 + draws.below(3));
    case Stays::kFalling:
      return 1000 + (n - i) * (1 + draws.below(3));
    case Stays::kBlocks:
      return i * 5 / n * 300 + draws.below(2);
    case Stays::kTiny:  // small numbers: many ties, and lines that cross between neighbours
      return draws.below(20);
    case Stays::kZero:
      return 0;
    default:
      return draws.below(10'000);
  }
}

std::int64_t draw_move(Latencies kind, std::int64_t stay, Draws& draws) {
  switch (kind) {
    case Latencies::kSmall:
      return stay + draws.below(50);
    case Latencies::kHuge:
      return stay + draws.below(1'000'000'000);
    case Latencies::kAny:
      return stay + draws.below(3 * stay + 1);
    case Latencies::kFree:  // the recursion does not ask for move >= stay
      return draws.below(10'000);
    default:
      return stay;
  }
}

Ring draw_ring(std::size_t n, Draws& draws) {
  const Stays stays = any<Stays>(draws);
  const Latencies latencies = any<Latencies>(draws);
  Ring ring{Times(n), Times(n)};
  const auto turned = static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(n)));
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t at = (i + turned) % n;
    ring.stay[at].ps = draw_stay(stays, static_cast<std::int64_t>(i), static_cast<std::int64_t>(n), draws);
    ring.move[at].ps = draw_move(latencies, ring.stay[at].ps, draws);
  }
  return ring;
}

Times draw_begins(const Ring& ring, Draws& draws) {
  const Begins kind = any<Begins>(draws);
  const std::size_t n = ring.stay.size(),
                    late = static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(n)));
  const SimTime slowest = *std::max_element(ring.stay.begin(), ring.stay.end());
  Times begin(n);
  std::int64_t moved = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto rank = static_cast<std::int64_t>(i);
    switch (kind) {
      case Begins::kSmall:
        begin[i].ps = draws.below(20'000);
        break;
      case Begins::kHuge:
        begin[i].ps = draws.below(1000 * kSecond);
        break;
      case Begins::kRising:
        begin[i].ps = rank * draws.below(5000);
        break;
      case Begins::kFalling:
        begin[i].ps = (static_cast<std::int64_t>(n) - rank) * draws.below(5000);
        break;
      case Begins::kOneLate:
        begin[i].ps = i == late ? draws.below(1'000'000) : 0;
        break;
      case Begins::kTiny:
        begin[i].ps = draws.below(500);
        break;
      case Begins::kNearGain:
        begin[i].ps = kSecond + moved - rank * slowest.ps + draws.below(40 + 10 * rank);
        break;
      case Begins::kAtGain:  // all paths nearly equal, so that every term of the maximum is the largest
                             // somewhere
        begin[i].ps = kSecond + moved - rank * slowest.ps + draws.below(2000);
        break;
      default:
        break;
    }
    moved += ring.move[i].ps;
  }
  return begin;
}

Times ring_end(const Ring& ring, std::int64_t steps, const Times& begin) {
  RingSchedule::Scratch scratch;
  Times end(begin.size());
  RingSchedule(ring.links(), steps).end(begin, end, scratch);
  return end;
}

Times steps_end(const Ring& ring, std::int64_t steps, const Times& begin) {
  Times end(begin.size());
  ring_end_by_steps(ring.links(), steps, begin, end);
  return end;
}

// As one bool, so that a failure of a large ring does not print it.
bool same(const Times& a, const Times& b) { return a == b; }

std::string numbers(const Times& times) {
  std::string text;
  for (const SimTime t : times) {
    text += std::to_string(t.ps) + " ";
  }
  return text;
}

// The unrolled formula of the header at one rank, in O(S).
SimTime unrolled_end(const Ring& ring, std::int64_t steps, const Times& begin, std::size_t rank) {
  const std::size_t n = begin.size();
  std::size_t q = rank;
  std::int64_t moved = 0, slowest = ring.stay[q].ps, best = begin[q].ps + steps * slowest;
  for (std::int64_t j = 1; j <= steps; ++j) {
    q = q == 0 ? n - 1 : q - 1;
    moved += ring.move[q].ps;
    slowest = std::max(slowest, ring.stay[q].ps);
    best = std::max(best, begin[q].ps + moved + (steps - j) * slowest);
  }
  return {best};
}

TEST_CASE("equal links: every step costs stay + latency, and a late rank is felt after its distance") {
  // All begin together: by symmetry start(r, s) is the same for all r, so start(s) = start(s-1) + max(stay,
  // move) = start(s-1) + stay + latency, S times.
  const std::int64_t stay = 700, latency = 55;
  for (const std::size_t n : {1, 2, 3, 8, 33, 1000}) {
    const auto ranks = static_cast<std::int64_t>(n), steps = 2 * (ranks - 1);
    const Ring ring{Times(n, SimTime{stay}), Times(n, SimTime{stay + latency})};
    CHECK(same(ring_end(ring, steps, Times(n)), Times(n, SimTime{steps * (stay + latency)})));
    CHECK(same(ring_end(ring, ranks - 1, Times(n)), Times(n, SimTime{(ranks - 1) * (stay + latency)})));

    // Rank 0 alone begins at `late`. A path from it takes S steps of which j are moves, j = r modulo N; the
    // most moves win: j = r + N if that is within S = 2N-2, which leaves out only r = N-1. The others' paths
    // are those above.
    const std::int64_t late = 10'000'000;
    Times begin(n);
    begin[0].ps = late;
    const Times end = ring_end(ring, steps, begin);
    for (std::int64_t r = 0; n > 1 && r < ranks; ++r) {
      const std::int64_t moves = r + ranks <= steps ? r + ranks : r;
      CHECK(end[static_cast<std::size_t>(r)].ps == late + steps * stay + moves * latency);
    }
  }
}

TEST_CASE("one slow link without latency: its occupancy, S times, and the way from it") {
  // stay = move. The longest path to rank r > 0 stays at rank 0 as long as it can, crosses link 0 and then
  // the r - 1 fast links to r without staying; every step but those r - 1 takes `slow`. At rank 0 all do.
  const std::int64_t slow = 9000, fast = 1000;
  const std::size_t n = 8;
  Ring ring{Times(n, SimTime{fast}), Times(n, SimTime{fast})};
  ring.stay[0] = ring.move[0] = SimTime{slow};
  const Times end = ring_end(ring, 14, Times(n));
  for (std::size_t r = 0; r < n; ++r) {
    const std::int64_t crossed = r == 0 ? 0 : static_cast<std::int64_t>(r) - 1;
    CHECK(end[r].ps == (14 - crossed) * slow + crossed * fast);
  }
}

TEST_CASE("rings of one, two and three ranks by hand") {
  const Ring one{{SimTime{5}}, {SimTime{7}}};
  CHECK(same(ring_end(one, 0, {SimTime{42}}), Times{SimTime{42}}));
  // Two ranks, two steps: rank 0 after step 1 max(0+3, 10+6) = 16, rank 1 max(10+5, 0+4) = 15;
  // after step 2 max(16+3, 15+6) = 21 and max(15+5, 16+4) = 20.
  const Ring two{{SimTime{3}, SimTime{5}}, {SimTime{4}, SimTime{6}}};
  CHECK(same(ring_end(two, 2, {SimTime{0}, SimTime{10}}), Times{SimTime{21}, SimTime{20}}));
  CHECK(same(ring_end(two, 1, {SimTime{0}, SimTime{10}}), Times{SimTime{16}, SimTime{15}}));
  // Three ranks, stay = move = 1, 2, 4, all at 0: 4 2 4 (rank 1: max(2, 1)), then 8 5 8, 12 9 12, 16 13 16.
  const Ring three{{SimTime{1}, SimTime{2}, SimTime{4}}, {SimTime{1}, SimTime{2}, SimTime{4}}};
  CHECK(same(ring_end(three, 4, Times(3)), Times{SimTime{16}, SimTime{13}, SimTime{16}}));
}

TEST_CASE("the schedule equals the steps on random rings") {
  Draws draws(1);
  RingSchedule::Scratch scratch;
  for (int trial = 0; trial < static_cast<int>(rounds(20'000)); ++trial) {
    const auto n = static_cast<std::size_t>(1 + draws.below(64));
    const auto steps = static_cast<std::int64_t>(n - 1) * (1 + draws.below(2));
    const Ring ring = draw_ring(n, draws);
    const RingSchedule schedule(ring.links(), steps);
    REQUIRE(schedule.size() == n);
    for (int repeat = 0; repeat < 3; ++repeat) {
      const Times begin = draw_begins(ring, draws), expected = steps_end(ring, steps, begin);
      Times end(n), in_place = begin;
      schedule.end(begin, end, scratch);
      schedule.end(in_place, in_place, scratch);
      if (end != expected || in_place != expected) {
        FAIL("trial " << trial << "\nstay " << numbers(ring.stay) << "\nmove " << numbers(ring.move)
                      << "\nbegin " << numbers(begin) << "\nsteps " << numbers(expected) << "\nend "
                      << numbers(end));
      }
    }
  }
}

TEST_CASE("the schedule equals the steps on some larger rings") {
  Draws draws(2);
  for (int trial = 0; trial < 60; ++trial) {
    const auto n = static_cast<std::size_t>(200 + draws.below(400));
    const auto steps = static_cast<std::int64_t>(n - 1) * (1 + draws.below(2));
    const Ring ring = draw_ring(n, draws);
    const Times begin = draw_begins(ring, draws);
    REQUIRE(same(ring_end(ring, steps, begin), steps_end(ring, steps, begin)));
  }
}

// Rings made to keep the hull and the tree full: rising and falling stays under one slowest link. Kind 4,
// with spread 4 below, makes every rank a corner of the hull and every link the best for some rank.
Ring adversary(int kind, std::size_t n, Draws& draws) {
  Ring ring{Times(n), Times(n)};
  const auto ranks = static_cast<std::int64_t>(n);
  for (std::int64_t i = 0; i < ranks; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t rising = 1'000'000 + 20 * i, falling = 1'000'000 + 20 * (ranks - i);
    const std::int64_t stays[] = {rising, falling, i % 2 == 0 ? rising : falling,
                                  1'000'000 + draws.below(20 * ranks), 20 * (10 * ranks - (i + 1) % ranks)};
    ring.stay[at].ps = stays[kind];
    ring.move[at].ps = kind == 4 ? 0 : kind == 3 ? ring.stay[at].ps / 2 : ring.stay[at].ps;
  }
  if (kind < 4) {
    ring.stay[n / 3].ps = ring.move[n / 3].ps = 1'000'000 + 40 * ranks;
  }
  return ring;
}

Times adversarial_begins(int spread, std::int64_t steps, std::size_t n, Draws& draws) {
  Times begin(n);
  const auto ranks = static_cast<std::int64_t>(n);
  for (std::int64_t i = 0; i < ranks; ++i) {
    const std::int64_t begins[] = {0, draws.below(kSecond), i * 1'200'000 + 1000 * i * i,
                                   1000 * (ranks * ranks - i * i) + i * 1'000'000,
                                   kSecond + 20 * i * (steps - 10 * ranks) - i * i / ranks};
    begin[static_cast<std::size_t>(i)].ps = begins[spread];
  }
  return begin;
}

TEST_CASE("large adversaries: every hundredth rank equals the unrolled formula", "[release]") {
  Draws draws(3);
  const std::size_t n = 20'000;
  for (int kind = 0; kind < 5; ++kind) {
    const Ring ring = adversary(kind, n, draws);
    for (int spread = 0; spread < 5; ++spread) {
      const auto steps = static_cast<std::int64_t>(n - 1) * (kind == 2 ? 1 : 2);
      const Times begin = adversarial_begins(spread, steps, n, draws), end = ring_end(ring, steps, begin);
      for (std::size_t r = 0; r < n; r += 100) {
        INFO("kind " << kind << ", spread " << spread << ", rank " << r);
        REQUIRE(end[r].ps == unrolled_end(ring, steps, begin, r).ps);
      }
    }
  }
}

TEST_CASE("smaller adversaries: every rank equals the steps") {
  Draws draws(5);
  for (const std::size_t n : {7, 64, 500}) {
    for (int kind = 0; kind < 5; ++kind) {
      const Ring ring = adversary(kind, n, draws);
      for (int spread = 0; spread < 5; ++spread) {
        for (const auto steps : {static_cast<std::int64_t>(n - 1), 2 * static_cast<std::int64_t>(n - 1)}) {
          const Times begin = adversarial_begins(spread, steps, n, draws);
          INFO("n " << n << ", kind " << kind << ", spread " << spread << ", steps " << steps);
          REQUIRE(same(ring_end(ring, steps, begin), steps_end(ring, steps, begin)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline
