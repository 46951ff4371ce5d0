// Does a run say that its steps have not settled where they have not, and only there?
#include "sim/report/drift.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <vector>

#include "tests/dice.h"

namespace paceline {
namespace {

std::vector<SimTime> series(std::size_t count, const std::function<double(std::size_t)>& seconds) {
  std::vector<SimTime> steps;
  for (std::size_t i = 0; i < count; ++i) {
    steps.push_back(SimTime{std::llround(1e12 * seconds(i))});
  }
  return steps;
}

}  // namespace

TEST_CASE("steps that drift are said to, by how much") {
  for (const std::size_t count : {14U, 20U, 101U, 3000U}) {
    CAPTURE(count);
    const auto all = static_cast<double>(count);
    const std::optional<Drift> up =
        drift_of(series(count, [&](std::size_t i) { return 1 + static_cast<double>(i) / all; }));
    REQUIRE(up);
    if (count <= 2000) {  // the means of the halves of a ramp
      const double half = std::floor(all / 2), first = 1 + (half - 1) / 2 / all;
      CHECK(up->steps == count / 2);
      CHECK(up->change == Approx((first + (all - half) / all) / first - 1));
    }
    const std::optional<Drift> down = drift_of(series(
        count, [&](std::size_t i) { return 1 + 9 * std::pow(0.5, 10 * static_cast<double>(i) / all); }));
    REQUIRE(down);
    CHECK(down->change < -0.1);
  }
  // They come apart late, and fast.
  CHECK(drift_of(series(20, [](std::size_t i) { return 1 + std::pow(2, static_cast<double>(i) - 17); })));
}

TEST_CASE("steps that are alike, repeat a period, drift little, or are few have not drifted") {
  CHECK_FALSE(drift_of(series(20, [](std::size_t) { return 1.0; })));
  CHECK_FALSE(drift_of(series(20, [](std::size_t i) { return 1 + 4e-4 * static_cast<double>(i); })));
  CHECK_FALSE(drift_of(series(13, [](std::size_t i) { return static_cast<double>(i + 1); })));
  CHECK_FALSE(drift_of({}));
  for (std::size_t period = 2; period <= 10; ++period) {
    for (std::size_t count = std::max<std::size_t>(14, 2 * period); count < 200; ++count) {
      CAPTURE(period, count);
      CHECK_FALSE(drift_of(series(count, [&](std::size_t i) { return i % period == 0 ? 3.0 : 1.0; })));
      CHECK_FALSE(
          drift_of(series(count, [&](std::size_t i) { return 1 + static_cast<double>(i % period); })));
    }
  }
}

// Above 3 standard deviations of a normal distribution lie 2.7 of 1000, and as many of the statistic where all orders of
// steps are alike: whatever their distribution.
TEST_CASE("steps with jitter have drifted in 3 of 1000 runs, whatever the jitter") {
  Dice dice(77);
  const std::function<double()> jitters[] = {[&] { return dice.real(0.5, 1.5); },
                                             [&] { return std::exp(dice.real(-1, 1) + dice.real(-1, 1)); },
                                             [&] { return dice.maybe(0.1) ? 3.0 : dice.real(0.99, 1.01); },
                                             [&] { return std::pow(dice.real(0.01, 1), -0.7); }};
  const std::uint64_t runs = rounds(20'000);
  for (const std::size_t count : {14U, 20U, 100U}) {
    for (const auto& jitter : jitters) {
      std::uint64_t drifted = 0;
      for (std::uint64_t run = 0; run < runs; ++run) {
        drifted += drift_of(series(count, [&](std::size_t) { return jitter(); })) ? 1 : 0;
      }
      CAPTURE(count, drifted, runs);
      CHECK(static_cast<double>(drifted) <= 0.004 * static_cast<double>(runs) + 5);
    }
  }
}

}  // namespace paceline
