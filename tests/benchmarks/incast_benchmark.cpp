// Many flows into one port, and into each of several: what a start and an end cost, and how much more than
// among a thousand.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "sim/network/flow_network.h"

namespace paceline {
namespace {

struct Cost {
  double seconds = 0;
  std::size_t visited = 0;
};

// So many starts, 1 ns apart, every third with a cap that binds at times; all are live together before the
// first ends. Each has a link of its own and two that all cross.
Cost incast(std::size_t flows, Clock clock) {
  FlowNetwork network(std::vector<BytesPerSecond>(2 + flows, BytesPerSecond(25e9)), flows);
  std::vector<std::uint64_t> ended;
  Cost cost;
  const std::clock_t begin = std::clock();
  for (std::size_t i = 0; i < flows; ++i) {
    const SimTime now{static_cast<std::int64_t>(i) * 1000};
    const LinkId links[] = {LinkId(2 + i), LinkId(0), LinkId(1)};
    const BytesPerSecond cap = BytesPerSecond(25e9) / static_cast<double>(i % 3 == 0 ? 2 + i % 5000 : 1);
    network.start(links, cap, Bytes(10'000'000 + static_cast<std::int64_t>(i)), i, now, clock);
    network.share(now);
    cost.visited += network.visited();
  }
  while (const std::optional<SimTime> now = network.next()) {
    ended.clear();
    network.take_ended(*now, ended);
    network.share(*now);
    cost.visited += network.visited();
  }
  cost.seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;  // of the processor
  return cost;
}

void run(benchmark::State& state, Clock clock) {
  const auto flows = static_cast<std::size_t>(state.range(0));
  double thousand = incast(1000, clock).seconds;
  for (int again = 0; again < 4; ++again) {
    thousand = std::min(thousand, incast(1000, clock).seconds);
  }
  double seconds = 0;
  std::size_t visited = 0;
  for (auto _ : state) {
    const Cost cost = incast(flows, clock);
    state.SetIterationTime(cost.seconds);
    seconds += cost.seconds;
    visited += cost.visited;
  }
  const double all = static_cast<double>(flows) * static_cast<double>(state.iterations());
  state.counters["us/flow"] = seconds / all * 1e6;
  state.counters["to_1000"] = seconds / all / (thousand / 1000);
  state.counters["visits/flow"] = static_cast<double>(visited) / all;
}

// Each worker sends to every server, over its link and the server's; what ends starts again. The workers
// begin 10 us apart, within a quarter of what a transfer takes, and no two transfers are equal. Counts from
// when all have begun.
Cost workers_and_servers(std::size_t workers, std::size_t servers, std::size_t restarts) {
  const BytesPerSecond port(25e9);
  FlowNetwork network(std::vector<BytesPerSecond>(workers + servers, port), workers * servers);
  const auto start = [&](std::uint64_t flow, SimTime now) {
    const std::size_t worker = flow / servers, server = flow % servers;
    const LinkId links[] = {LinkId(servers + worker), LinkId(server)};
    network.start(links, port, Bytes(1'000'000 + static_cast<std::int64_t>(10 * worker + server)), flow, now,
                  Clock::shared);
  };
  std::vector<std::uint64_t> ended;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    const SimTime now{static_cast<std::int64_t>(worker) * 10'000'000};
    for (std::size_t server = 0; server < servers; ++server) {
      start(worker * servers + server, now);
    }
    network.share(now);
  }
  Cost cost;
  const std::clock_t begin = std::clock();
  for (std::size_t restarted = 0; restarted < restarts; restarted += ended.size()) {
    const SimTime now = *network.next();
    ended.clear();
    network.take_ended(now, ended);
    for (const std::uint64_t flow : ended) {
      start(flow, now);
    }
    network.share(now);
    cost.visited += network.visited();
  }
  cost.seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  return cost;
}

void incast_many_ports(benchmark::State& state) {
  const auto workers = static_cast<std::size_t>(state.range(0));
  const auto servers = static_cast<std::size_t>(state.range(1));
  const auto restarts = static_cast<std::size_t>(state.range(2));
  double seconds = 0;
  std::size_t visited = 0;
  for (auto _ : state) {
    const Cost cost = workers_and_servers(workers, servers, restarts);
    state.SetIterationTime(cost.seconds);
    seconds += cost.seconds;
    visited += cost.visited;
  }
  const double all = static_cast<double>(restarts) * static_cast<double>(state.iterations());
  state.counters["us/restart"] = seconds / all * 1e6;  // an end and a start
  state.counters["visits/restart"] = static_cast<double>(visited) / all;
}

void incast_one_clock(benchmark::State& state) { run(state, Clock::shared); }
void incast_own_clocks(benchmark::State& state) { run(state, Clock::own); }
BENCHMARK(incast_one_clock)
    ->Arg(1'000)
    ->Arg(10'000)
    ->Arg(100'000)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(incast_many_ports)
    ->Args({1'000, 10, 1'000})
    ->Args({1'000, 10, 100'000})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(incast_own_clocks)->Arg(1'000)->Arg(4'000)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace paceline
