// Batches by speed.
#include "sim/strategy/balance.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/dice.h"

namespace paceline {
namespace {

using Batches = std::vector<std::int64_t>;

TEST_CASE("batches are in proportion to speeds, the largest remainders rounded up") {
  const Batches free(4, 1000);
  CHECK(balanced_batches(std::vector<double>{1, 2, 1, 2}, free, 60) == Batches{10, 20, 10, 20});
  CHECK(balanced_batches(std::vector<double>{1, 1, 1, 1}, free, 10) == Batches{3, 3, 2, 2});
  CHECK(balanced_batches(std::vector<double>{5, 3, 1, 1}, free, 12) ==
        Batches{6, 4, 1, 1});  // 6, 3.6, 1.2, 1.2
}

TEST_CASE("what a GPU can't hold the others share, and none is without work") {
  CHECK(balanced_batches(std::vector<double>{4, 1, 1}, Batches{10, 100, 100}, 60) == Batches{10, 25, 25});
  CHECK(balanced_batches(std::vector<double>{1000, 1, 1}, Batches{100, 100, 100}, 60) == Batches{58, 1, 1});
  CHECK(balanced_batches(std::vector<double>{1, 1}, Batches{7, 5}, 12) == Batches{7, 5});
}

TEST_CASE("batches add up, keep their bounds, and no sample would be better elsewhere") {
  Dice dice(17);
  for (std::uint64_t round = 0; round < rounds(2000); ++round) {
    const auto ranks = static_cast<std::size_t>(dice.between(1, 20));
    std::vector<double> speeds;
    Batches most;
    for (std::size_t r = 0; r < ranks; ++r) {
      speeds.push_back(dice.real(0.1, 10));
      most.push_back(dice.between(1, 60));
    }
    const std::int64_t room = std::accumulate(most.begin(), most.end(), std::int64_t{0});
    const std::int64_t total = dice.between(static_cast<std::int64_t>(ranks), room);
    const Batches batches = balanced_batches(speeds, most, total);
    CHECK(std::accumulate(batches.begin(), batches.end(), std::int64_t{0}) == total);
    for (std::size_t r = 0; r < ranks; ++r) {
      CHECK(batches[r] >= 1);
      CHECK(batches[r] <= most[r]);
    }
    // Whoever could give a sample is not two samples' time later than who could take it.
    for (std::size_t a = 0; a < ranks; ++a) {
      for (std::size_t b = 0; b < ranks; ++b) {
        if (batches[a] > 2 && batches[b] < most[b]) {
          CHECK((static_cast<double>(batches[a]) - 2) / speeds[a] <=
                (static_cast<double>(batches[b]) + 2) / speeds[b]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline
