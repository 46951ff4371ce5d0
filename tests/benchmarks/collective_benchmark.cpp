// How long is an nccl-tests table of all_reduce, 8 B to 16 GiB by factor 2, on DGX H100? Graph search, tuner,
// graphs, classes of equal thread blocks and the simulation of every row. And what the classes save: the same
// collective with each rank beginning at its own time goes thread block by thread block.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>

#include "sim/collective/collective_times.h"
#include "sim/collective/equal_thread_blocks.h"
#include "sim/collective/passes.h"
#include "sim/report/collective_cost.h"
#include "tests/wavefront.h"

namespace paceline {
namespace {

Topology nodes_of(const char* preset, std::int64_t gpus) {
  ClusterSpec spec;
  spec.node = node_preset(preset);
  spec.nodes = static_cast<int>(gpus / 8);
  return build_topology(spec);
}

Topology nodes_of_h100(std::int64_t gpus) { return nodes_of("dgx-h100", gpus); }

void all_reduce_table(benchmark::State& state) {
  const Topology topology = nodes_of_h100(state.range(0));
  std::vector<Bytes> sizes;
  for (std::int64_t size = 8; size <= std::int64_t{16} << 30; size *= 2) {
    sizes.emplace_back(size);
  }
  for (auto _ : state) {
    CollectivePlanner planner = nccl_planner(topology, {}, {});
    benchmark::DoNotOptimize(cost_collectives(planner, CollectiveKind::all_reduce, sizes, false));
  }
}
BENCHMARK(all_reduce_table)->Arg(16)->Arg(1024)->Arg(16'384)->Unit(benchmark::kMillisecond);

// 64 MiB; range(1): all ranks begin together, or each a microsecond after the one before.
void one_all_reduce(benchmark::State& state) {
  const Topology topology = nodes_of_h100(state.range(0));
  CollectivePlanner planner = nccl_planner(topology, {}, {});
  const std::vector<CollectivePlan> plans{planner.plan(CollectiveKind::all_reduce, Bytes(64 << 20))};
  CollectiveTimes times(planner.communicator(), plans);
  std::vector<SimTime> launch(topology.ranks()), end(topology.ranks());
  SimTime now;
  for (auto _ : state) {
    for (std::size_t r = 0; r < launch.size(); ++r) {
      launch[r] = now + SimTime{state.range(1) * static_cast<std::int64_t>(r)};
    }
    times.end(0, launch, now, end);
    now = *std::max_element(end.begin(), end.end());
  }
}
BENCHMARK(one_all_reduce)
    ->Args({1024, 0})
    ->Args({1024, 1'000'000})
    ->Args({16'384, 1'000'000})
    ->Unit(benchmark::kMillisecond);

// 64 MiB in passes and by the wavefront, the ranks beginning a microsecond after one another: the wavefront's
// time over the passes', and by how much the results differ, which must be 0 ps. range(1): on DGX A100, where
// NCCL takes trees, or on DGX H100, where it takes NVLS trees.
void passes_ratio(benchmark::State& state) {
  const Topology topology = nodes_of(state.range(1) == 0 ? "dgx-a100" : "dgx-h100", state.range(0));
  CollectivePlanner planner = nccl_planner(topology, {}, {});
  const CollectivePlan plan = planner.plan(CollectiveKind::all_reduce, Bytes(64 << 20));
  const CollectiveGraph graph = find_equal_channels(planner.communicator().graphs[plan.graph]).graph;
  const StepTimes times(graph, plan);
  std::vector<SimTime> begin;
  for (const ThreadBlock& thread_block : graph.thread_blocks) {
    begin.push_back(
        {thread_block.rank == ThreadBlock::kSwitch ? 0 : 1'000'000 * std::int64_t{thread_block.rank}});
  }
  Passes passes(graph);
  Wavefront wavefront(graph);
  double seconds[2] = {};
  std::int64_t apart = 0;
  for (auto _ : state) {
    std::vector<SimTime> by_passes = begin, by_moves = begin;
    const auto start = std::chrono::steady_clock::now();
    passes.run(plan, times, by_passes);
    const auto between = std::chrono::steady_clock::now();
    wavefront.run(plan, times, by_moves);
    seconds[0] += std::chrono::duration<double>(between - start).count();
    seconds[1] += std::chrono::duration<double>(std::chrono::steady_clock::now() - between).count();
    for (std::size_t w = 0; w < begin.size(); ++w) {
      apart = std::max(apart, std::abs(by_passes[w].ps - by_moves[w].ps));
    }
  }
  state.counters["ratio"] = seconds[1] / seconds[0];
  state.counters["apart_ps"] = static_cast<double>(apart);
}
BENCHMARK(passes_ratio)
    ->Args({1024, 0})
    ->Args({16'384, 0})
    ->Args({1024, 1})
    ->Args({16'384, 1})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace paceline
