// How long does a ring take without its steps? Compare RingEnd* with RingSteps, and see the ratio in
// RingRatio.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "core/fingerprint.h"
#include "sim/collective/ring_time.h"
#include "tests/ring_by_steps.h"

namespace paceline {
namespace {

using Times = std::vector<SimTime>;
constexpr std::int64_t kMicrosecond = 1'000'000, kSecond = 1'000'000'000'000;

struct Ring {
  Times stay, move;
  RingLinks links() const { return {stay, move}; }
  std::int64_t steps() const { return 2 * (static_cast<std::int64_t>(stay.size()) - 1); }
};

std::int64_t draw(std::size_t i, std::uint64_t stream, std::int64_t bound) {
  return static_cast<std::int64_t>(mix64(mix64(stream) + i) % static_cast<std::uint64_t>(bound));
}

// Eight ranks a node: seven NVLink hops and one NIC hop, chunk by chunk; `latency` on all.
Ring two_classes(std::size_t n, std::int64_t latency) {
  Ring ring{Times(n), Times(n)};
  for (std::size_t i = 0; i < n; ++i) {
    ring.stay[i].ps = i % 8 == 7 ? 20 * kMicrosecond : 2 * kMicrosecond;
    ring.move[i].ps = ring.stay[i].ps + latency;
  }
  return ring;
}

Ring all_different(std::size_t n) {
  Ring ring{Times(n), Times(n)};
  for (std::size_t i = 0; i < n; ++i) {
    ring.stay[i].ps = 2 * kMicrosecond + draw(i, 1, 18 * kMicrosecond);
    ring.move[i].ps = ring.stay[i].ps + kMicrosecond;
  }
  return ring;
}

// Slower and slower but little, and one slowest link: every path has a hope.
Ring rising(std::size_t n) {
  Ring ring{Times(n), Times(n)};
  for (std::size_t i = 0; i < n; ++i) {
    ring.stay[i].ps = 2 * kMicrosecond + 20 * static_cast<std::int64_t>(i);
    ring.move[i].ps = ring.stay[i].ps;
  }
  return ring;
}

Times random_begins(std::size_t n, std::int64_t spread) {
  Times begin(n);
  for (std::size_t i = 0; i < n; ++i) {
    begin[i].ps = draw(i, 2, spread);
  }
  return begin;
}

// The worst case: with lag(k) = a * k and lead(q) = S * a * q every q is a corner of the hull, every k is the
// best for some rank, and free moves keep the paths over the slowest link from being any better.
constexpr std::int64_t kLagGrowth = 20;

std::int64_t worst_slowest(std::size_t n) { return 10 * kLagGrowth * static_cast<std::int64_t>(n); }

Ring worst(std::size_t n) {
  Ring ring{Times(n), Times(n)};
  for (std::size_t i = 0; i < n; ++i) {
    ring.stay[i].ps = worst_slowest(n) - kLagGrowth * static_cast<std::int64_t>((i + 1) % n);
  }
  return ring;
}

Times worst_begins(std::size_t n) {
  const auto ranks = static_cast<std::int64_t>(n), slowest = worst_slowest(n);
  Times begin(n);
  for (std::int64_t i = 0; i < ranks; ++i) {
    const std::int64_t lead = kLagGrowth * 2 * (ranks - 1) * i - i * i / ranks;
    begin[static_cast<std::size_t>(i)].ps = ranks * slowest + lead - i * slowest;
  }
  return begin;
}

void run(benchmark::State& state, const Ring& ring, const Times& begin) {
  const RingSchedule schedule(ring.links(), ring.steps());
  RingSchedule::Scratch scratch;
  Times end(begin.size());
  for (auto _ : state) {
    schedule.end(begin, end, scratch);
    benchmark::DoNotOptimize(end.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(begin.size()));
}

std::size_t ranks(const benchmark::State& state) { return static_cast<std::size_t>(state.range(0)); }

void RingEndTwoClasses(benchmark::State& state) {
  run(state, two_classes(ranks(state), kMicrosecond), random_begins(ranks(state), state.range(1)));
}
void RingEndLongLatency(benchmark::State& state) {
  run(state, two_classes(ranks(state), 30 * kMicrosecond), random_begins(ranks(state), state.range(1)));
}
void RingEndAllDifferent(benchmark::State& state) {
  run(state, all_different(ranks(state)), random_begins(ranks(state), state.range(1)));
}
void RingEndRising(benchmark::State& state) {
  run(state, rising(ranks(state)), random_begins(ranks(state), state.range(1)));
}
void RingEndWorst(benchmark::State& state) { run(state, worst(ranks(state)), worst_begins(ranks(state))); }

constexpr std::int64_t kRanks = 100'000;
BENCHMARK(RingEndTwoClasses)->Args({1024, kSecond})->Args({4096, kSecond})->Args({kRanks, kSecond});
BENCHMARK(RingEndTwoClasses)->Args({kRanks, kMicrosecond});
BENCHMARK(RingEndLongLatency)->Args({kRanks, kSecond});
BENCHMARK(RingEndAllDifferent)->Args({1024, kSecond})->Args({4096, kSecond})->Args({kRanks, kSecond});
BENCHMARK(RingEndAllDifferent)->Args({kRanks, kMicrosecond})->Args({kRanks, 1000 * kSecond});
BENCHMARK(RingEndRising)->Args({kRanks, kMicrosecond})->Args({kRanks, kSecond});
BENCHMARK(RingEndWorst)->Arg(10'000)->Arg(kRanks);

void RingScheduleTwoClasses(benchmark::State& state) {
  const Ring ring = two_classes(ranks(state), kMicrosecond);
  for (auto _ : state) {
    benchmark::DoNotOptimize(RingSchedule(ring.links(), ring.steps()));
  }
}
void RingScheduleAllDifferent(benchmark::State& state) {
  const Ring ring = all_different(ranks(state));
  for (auto _ : state) {
    benchmark::DoNotOptimize(RingSchedule(ring.links(), ring.steps()));
  }
}
BENCHMARK(RingScheduleTwoClasses)->Arg(kRanks);
BENCHMARK(RingScheduleAllDifferent)->Arg(kRanks);

void RingSteps(benchmark::State& state) {
  const Ring ring = two_classes(ranks(state), kMicrosecond);
  const Times begin = random_begins(ranks(state), kSecond);
  Times end(begin.size());
  for (auto _ : state) {
    ring_end_by_steps(ring.links(), ring.steps(), begin, end);
    benchmark::DoNotOptimize(end.data());
  }
}
BENCHMARK(RingSteps)->Arg(1024)->Arg(4096);

// The counter `steps/schedule` is the time by steps over the time by schedule, and `picoseconds_off` is 0.
void RingRatio(benchmark::State& state) {
  const Ring ring =
      state.range(1) == 0 ? two_classes(ranks(state), kMicrosecond) : all_different(ranks(state));
  const Times begin = random_begins(ranks(state), kSecond);
  const RingSchedule schedule(ring.links(), ring.steps());
  RingSchedule::Scratch scratch;
  Times by_steps(begin.size()), end(begin.size());
  const auto started = std::chrono::steady_clock::now();
  ring_end_by_steps(ring.links(), ring.steps(), begin, by_steps);
  const auto stepped = std::chrono::steady_clock::now();
  for (auto _ : state) {
    schedule.end(begin, end, scratch);
    benchmark::DoNotOptimize(end.data());
  }
  const std::chrono::duration<double> by_schedule = std::chrono::steady_clock::now() - stepped;
  std::int64_t off = 0;
  for (std::size_t i = 0; i < end.size(); ++i) {
    off = std::max(off, std::abs(end[i].ps - by_steps[i].ps));
  }
  state.counters["steps/schedule"] = std::chrono::duration<double>(stepped - started).count() /
                                     (by_schedule.count() / static_cast<double>(state.iterations()));
  state.counters["picoseconds_off"] = static_cast<double>(off);
}
BENCHMARK(RingRatio)->Args({1024, 0})->Args({4096, 0})->Args({1024, 1})->Args({4096, 1});

}  // namespace
}  // namespace paceline
