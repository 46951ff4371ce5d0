// Does every collective move the right bytes in the right steps, and leave every rank with what it should?
// Executed symbolically for 1 to 33 ranks: a chunk is the set of ranks whose contributions it holds.
#include <bitset>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "sim/collective/communicator.h"

namespace paceline {
namespace {

constexpr std::size_t kMostRanks = 33;
using Contributions = std::bitset<kMostRanks>;
const std::int64_t kSizes[] = {0, 1, 16, 17, 1'000'003, 25 << 20, std::int64_t{1} << 40};

TEST_CASE("2 (N-1) steps of one chunk leave every rank of a ring with the sum of all") {
  for (std::size_t n = 1; n <= kMostRanks; ++n) {
    const CollectivePlan plan = plan_all_reduce(Bytes(1'000'003), n, 2);
    REQUIRE(plan.chunks == 2 * static_cast<std::int64_t>(n) - 2);
    std::vector<std::vector<Contributions>> holds(n, std::vector<Contributions>(n));  // [rank][chunk]
    for (std::size_t r = 0; r < n; ++r) {
      for (Contributions& chunk : holds[r]) {
        chunk.set(r);
      }
    }
    // In step s rank r sends chunk r - s: in the first N-1 steps its successor adds its own, after that it
    // keeps it.
    for (std::size_t s = 0; s < static_cast<std::size_t>(plan.chunks); ++s) {
      const auto before = holds;
      for (std::size_t r = 0; r < n; ++r) {
        const std::size_t chunk = (r + 2 * n - s) % n, next = (r + 1) % n;
        const bool reducing = s + 1 < n;
        if (reducing) {
          CHECK((before[r][chunk] & before[next][chunk]).none());  // nothing is added twice
        }
        holds[next][chunk] = reducing ? before[r][chunk] | before[next][chunk] : before[r][chunk];
      }
    }
    for (const std::vector<Contributions>& rank : holds) {
      for (const Contributions& chunk : rank) {
        CHECK(chunk.count() == n);
      }
    }
  }
}

TEST_CASE("the chunks of all channels hold the bytes, with less than 16 bytes of padding each") {
  for (std::size_t n = 1; n <= kMostRanks; ++n) {
    for (std::size_t channels = 1; channels <= 9; channels += 4) {
      for (const std::int64_t bytes : kSizes) {
        const CollectivePlan plan = plan_all_reduce(Bytes(bytes), n, channels);
        const auto parts = static_cast<std::int64_t>(n * channels);
        INFO(n << " ranks, " << channels << " channels, " << bytes << " bytes");
        CHECK(plan.chunk.value % 16 == 0);
        CHECK(plan.chunk.value * parts >= bytes);
        CHECK((plan.chunk.value - 16) * parts < bytes + parts);
      }
    }
  }
}

TEST_CASE("a broadcast sends every byte of a channel once over every hop of the chain") {
  for (std::size_t n = 2; n <= kMostRanks; ++n) {
    for (const std::int64_t bytes : kSizes) {
      const CollectivePlan plan = plan_broadcast(Bytes(bytes), n, 3);
      const std::int64_t per_channel = (bytes + 2) / 3;
      INFO(n << " ranks, " << bytes << " bytes");
      CHECK(plan.chunks >= 1);
      CHECK(plan.chunks <= static_cast<std::int64_t>(n));
      CHECK(plan.chunks * plan.chunk.value >= per_channel);
      CHECK(((plan.chunks - 1) * plan.chunk.value < per_channel || plan.chunks == 1));
    }
  }
  CHECK(plan_broadcast(Bytes(1000), 1, 1).chunks == 0);
}

}  // namespace
}  // namespace paceline
