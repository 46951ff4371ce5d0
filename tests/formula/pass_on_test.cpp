// When is what a GPU passes on there? Trees in LL128 and NVLS against recursions from NCCL's rules, and what a proxy
// takes for its messages.
#include <algorithm>
#include <catch2/catch.hpp>

#include "sim/collective/nccl.h"
#include "sim/collective/step_times.h"
#include "sim/engine/simulate.h"

namespace paceline {
namespace {

constexpr double kHopTakes = 2e-6, kStartTakes = 10e-6;

CollectiveSpec spec_of(const char* algorithm, const char* protocol, int channels) {
  CollectiveSpec spec;
  spec.algorithm = algorithm;
  spec.protocol = protocol;
  spec.min_channels = spec.max_channels = channels;
  spec.costs = {{"launch.latency", 0},
                {"ll128.startup", kStartTakes},
                {"nvls.startup", kStartTakes},
                {"ll128.nvlink.latency", kHopTakes},
                {"ll128.network.latency", kHopTakes},
                {"nvls.latency", 0},
                {"nvls.slice_overhead", 0},
                {"network.latency", 0},
                {"network.slice_overhead", 0}};
  return spec;
}

ClusterSpec machine(int nodes, int gpus) {
  ClusterSpec cluster;
  cluster.node = node_preset("dgx-h100");
  cluster.nodes = nodes;
  cluster.gpus_per_node = gpus;
  return cluster;
}

// An all-reduce alone.
struct Alone {
  TrainingJob job;
  const CollectivePlan& plan() const { return job.plans[0]; }
  const CollectiveGraph& graph() const { return job.communicator.graphs[plan().graph]; }
  double rate(std::uint32_t hop) const { return hop_in(plan(), 0, hop).rate.value; }
  double seconds() const {
    RunSpec run;
    run.iterations = 1;
    return static_cast<double>(run_vector_engine(job, run).iteration_end[0].ps) * 1e-12;
  }
};

Alone all_reduce(const ClusterSpec& cluster, const CollectiveSpec& spec, Bytes bytes) {
  const Topology topology = build_topology(cluster);
  CollectivePlanner planner = nccl_planner(topology, spec, {});
  Alone alone;
  alone.job.plans = {planner.plan(CollectiveKind::all_reduce, bytes)};
  alone.job.communicator = planner.communicator();
  alone.job.main().steady.collectives = {0};
  alone.job.main().steady.ops = {{OpKind::collective, 0, {}, {}, "all_reduce"},
                                 {OpKind::wait, 0, {}, {}, "wait"}};
  alone.job.main().warm_up = alone.job.main().steady;
  return alone;
}

TEST_CASE("a tree in LL128: every GPU of a node passes on lines, the last one waits for the chunk") {
  constexpr double kLines = 1920;  // 16 lines of 120 bytes
  for (const int gpus : {2, 3, 4, 8}) {
    for (const std::int64_t bytes : {1'000, 9'600, 16'384}) {
      const Alone alone = all_reduce(machine(1, gpus), spec_of("tree", "ll128", 1), Bytes(bytes));
      REQUIRE(alone.plan().loops.size() == 1);
      REQUIRE(alone.plan().loops[0].count == 1);
      const double chunk = static_cast<double>(alone.plan().loops[0].chunk.value);
      const double rate = alone.rate(alone.graph().fifos[0].hop);
      const int hops = 2 * (gpus - 1);  // up the chain, down again
      const double expected = kStartTakes + (hops - 1) * (std::min(chunk, kLines) / rate + kHopTakes) +
                              chunk / rate + kHopTakes + chunk / alone.plan().copy_rate.value;
      CAPTURE(gpus, bytes);
      CHECK(alone.seconds() == Approx(expected).epsilon(1e-6));
    }
  }
}

TEST_CASE("a tree in LL128 between nodes: a proxy sends whole chunks") {
  const Alone alone = all_reduce(machine(2, 1), spec_of("tree", "ll128", 1), Bytes(9'600));
  REQUIRE(alone.plan().loops.size() == 1);
  const double chunk = static_cast<double>(alone.plan().loops[0].chunk.value);
  const std::uint32_t hop = alone.graph().fifos[0].hop;
  const double way = chunk / alone.rate(hop) + to_seconds(alone.plan().hops[hop].latency).value;
  CHECK(alone.seconds() ==
        Approx(kStartTakes + 2 * way + chunk / alone.plan().copy_rate.value).epsilon(1e-6));
}

TEST_CASE("NVLS: heads begin when all their blocks are scattered, a GPU gathers when all heads are through") {
  for (const int gpus : {4, 8}) {
    const Alone alone = all_reduce(machine(1, gpus), spec_of("nvls", "simple", 1), Bytes(65'536));
    const CollectiveGraph& graph = alone.graph();
    REQUIRE(alone.plan().loops.size() == 1);
    REQUIRE(alone.plan().loops[0].count == 1);
    const double block = static_cast<double>(alone.plan().loops[0].chunk.value);
    double push = 0, add = 0, head = 0, copy = 0;  // B/s
    for (const Fifo& fifo : graph.fifos) {
      const auto receives = [&](std::uint32_t w) {
        return std::ranges::any_of(graph.fifos, [&](const Fifo& f) { return f.to == w; });
      };
      const auto sends = [&](std::uint32_t w) {
        return std::ranges::any_of(graph.fifos, [&](const Fifo& f) { return f.from == w; });
      };
      if (fifo.wire == Wire::gpu_to_nvswitch) {
        (receives(fifo.from) ? head : push) = alone.rate(fifo.hop);
      } else if (fifo.wire == Wire::nvswitch_to_gpu) {
        (sends(fifo.to) ? add : copy) = alone.rate(fifo.hop);
      }
    }
    const auto block_ends = [&](int k, double rate) { return (k + 1) * block / rate; };
    double added = block_ends(gpus - 2, push), copied = 0, begun = 0;  // the word goes with the last block
    for (int k = 0; k < gpus; ++k) {
      added = std::max(added, block_ends(k, push)) + block / add;
      begun = std::max(copied, added + block / head);
      copied = begun + block / copy;
    }
    const double gather = block / alone.plan().copy_rate.value;
    const double expected = std::max(begun + gpus * gather, copied + gather);
    CAPTURE(gpus);
    CHECK(alone.seconds() == Approx(kStartTakes + expected).epsilon(1e-6));
  }
}

TEST_CASE("a proxy takes its time for a message of each FIFO that its GPU sends on at once") {
  constexpr double kOfMessage = 3e-6;
  for (const int channels : {1, 4}) {
    CollectiveSpec spec = spec_of("ring", "simple", channels);
    spec.costs.push_back({"network.slice_overhead", kOfMessage});
    const Alone alone = all_reduce(machine(2, 1), spec, Bytes(1 << 20));
    CAPTURE(channels);
    for (const Fifo& fifo : alone.graph().fifos) {
      CHECK(alone.plan().hops[fifo.hop].least == to_sim_time(Seconds(channels * kOfMessage)));
    }
  }
}

}  // namespace
}  // namespace paceline
