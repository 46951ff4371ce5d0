// Does gloo on plain hosts equal its closed forms?
//
// n hosts with equal links of bandwidth B and latency l; m segments a rank, of s = ceil(S / (n m)) bytes. All ranks do
// the same at the same time. With more than two hosts acknowledgements take their share of the links: 1 / B is so much
// more. A segment occupies its link for c = s / B + h, h the handshake, and can be passed on
// a + s / R later, a the message's latency and the links', R the rate of a reduction. Two segments a rank or more
// are under way, so a rank that has sent its own m goes on at once as long as a + s / R <= (m - 1) c; then the half
// in which segments are reduced sends (n - 1) m of them without a pause and ends when the last one is there and
// reduced, and so does the half that gathers, but for the reduction:
//   T = startup + 2 (n - 1) m c + 2 a + s / R.
// On unequal links, or where ranks come one after the other, a rank's loop (allreduce.cc) decides: in its iteration i it
// waits until segment i - 2 has come and its own segment i - 2 has gone to the kernel, then asks for segment i to come and
// to go. Segment i goes to the kernel when both sides have asked, and over the link when those before it have passed.
// A broadcast of S bytes down a binomial tree: a rank with k children sends to all of them at once, each with 1/k of
// its link. n = 2 and n = 4: startup + S / B + h + a, and 2 S / B + h + a + S / B + h + a.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <vector>

#include "scenarios/machines.h"
#include "scenarios/scenario.h"
#include "sim/collective/collective_times.h"
#include "sim/collective/communicator.h"
#include "sim/collective/host_collectives.h"
#include "sim/engine/simulate.h"
#include "tests/dice.h"
#include "tests/plain_hosts.h"
#include "tests/trace_of_first.h"
#include "topology/topology.h"

namespace paceline {
namespace {

using namespace units;

constexpr double kHostRate = 6.25e6, kSumRate = 2e9, kAcks = 0.03;
constexpr Seconds kBegin = 90.0_us, kSegment = 40.0_us, kHandshake = 70.0_us, kHostNic = 2.0_us;

ClusterSpec gloo_hosts(int nodes) {
  return plain_hosts(nodes, BytesPerSecond(kHostRate), kHostNic, Seconds{});
}

CollectiveSpec gloo() {
  CollectiveSpec spec;
  spec.library = CollectiveLibrary::gloo;
  spec.costs = {{"gloo.startup", kBegin.value},       {"gloo.network.latency", kSegment.value},
                {"gloo.handshake", kHandshake.value}, {"gloo.reduce_rate", kSumRate},
                {"tcp.acknowledgements", kAcks},      {"network.efficiency", 1}};
  return spec;
}

double alone(const Topology& topology, const CollectiveSpec& spec, CollectiveKind kind, Bytes bytes) {
  CollectivePlanner planner = collective_planner(topology, {.collective = spec});
  const CollectivePlan plan = planner.plan(kind, bytes);
  CollectiveTimes times(planner.communicator(), std::span(&plan, 1));
  const std::vector<SimTime> launch(topology.ranks());
  std::vector<SimTime> end(launch.size());
  times.end(0, launch, {}, end);
  return to_seconds(*std::ranges::max_element(end)).value;
}

double time_of(int nodes, CollectiveKind kind, Bytes bytes, double copy_rate = 0) {
  CollectiveSpec spec = gloo();
  spec.costs.push_back({"gloo.copy_rate", copy_rate});
  return alone(build_topology(gloo_hosts(nodes)), spec, kind, bytes);
}

constexpr double kLatency = kSegment.value + 2 * kHostNic.value;

TEST_CASE("gloo's ring all-reduce on equal hosts takes its closed form") {
  for (const int n : {2, 3, 4, 7, 16}) {
    for (const std::int64_t bytes : {64LL, 100'001LL, 1LL << 20, 40LL << 20, 3LL << 30}) {
      const std::int64_t m = gloo_segments_per_rank(static_cast<std::uint32_t>(n), Bytes(bytes));
      CAPTURE(n, m, bytes);
      const auto segment = static_cast<double>((bytes + n * m - 1) / (n * m));
      const double c = segment / kHostRate * (n > 2 ? 1 + kAcks : 1) + kHandshake.value,
                   reduction = segment / kSumRate;
      REQUIRE(kLatency + reduction <= static_cast<double>(m - 1) * c);
      const double expected =
          kBegin.value + 2 * static_cast<double>((n - 1) * m) * c + 2 * kLatency + reduction;
      CHECK(time_of(n, CollectiveKind::all_reduce, Bytes(bytes)) == Approx(expected).margin(1e-10));
      // a reduce-scatter is one, too
      CHECK(time_of(n, CollectiveKind::reduce_scatter, Bytes(bytes)) == Approx(expected).margin(1e-10));
      const double copies = static_cast<double>(bytes) / 1e9;
      CHECK(time_of(n, CollectiveKind::all_reduce, Bytes(bytes), 1e9) ==
            Approx(expected + copies).margin(1e-10));
    }
  }
}

TEST_CASE("gloo's copies take as long as those of the GPU whose way to its host is the slowest") {
  ClusterSpec cluster = load_cluster("dgx-a100");
  cluster.nodes = 2;
  const auto step = [&](double copy_rate) {
    CollectiveSpec spec = gloo();
    if (copy_rate > 0) {
      spec.costs.push_back({"gloo.copy_rate", copy_rate});
    }
    return alone(build_topology(cluster), spec, CollectiveKind::all_reduce, Bytes(64 << 20));
  };
  const double healthy = step(0);
  cluster.degraded.push_back({.from = "node1/gpu3", .to = {}, .bandwidth_factor = 0.1, .extra_latency = {}});
  CHECK(step(0) > healthy);
  CHECK(step(0) == Approx(step(0.1 * cluster.node.pcie_bandwidth.value / 2)));
}

struct Loops {
  int ranks = 0, segments = 0;      // of a rank
  std::vector<double> occupied;     // a rank's link to the one before, by a segment
  double arrives = 0, reduced = 0;  // later
};

// When ranks leave that enter then: allreduce.cc's two loops.
std::vector<double> leaves(const Loops& of, std::vector<double> at) {
  const auto n = static_cast<std::size_t>(of.ranks);
  const auto sends = (n - 1) * static_cast<std::size_t>(of.segments);
  std::vector<double> link(n);
  for (const double reduced : {of.reduced, 0.0}) {
    std::vector<std::vector<double>> gone(n), come(n);  // by segment: to the kernel; there, and reduced
    for (std::size_t i = 0; i < sends + 2; ++i) {
      for (std::size_t r = 0; i >= 2 && r < n; ++r) {
        at[r] = std::max({at[r], come[r][i - 2], gone[r][i - 2]});
      }
      for (std::size_t r = 0; i < sends && r < n; ++r) {
        const std::size_t to = (r + n - 1) % n;
        gone[r].push_back(std::max({at[r], at[to], i > 0 ? gone[r].back() : 0}));
        link[r] = std::max(link[r], gone[r].back()) + of.occupied[r];
        come[to].push_back(link[r] + of.arrives + reduced);
      }
    }
  }
  return at;
}

TEST_CASE("gloo's all-reduce on unequal links, entered one after the other, takes what its loops say") {
  Dice dice(23);
  for (int round = 0; round < 60; ++round) {
    const int n = 2 + static_cast<int>(dice.below(6)), m = 2 + static_cast<int>(dice.below(3));
    ClusterSpec cluster = gloo_hosts(n);
    std::vector<double> share;
    for (int host = 0; host < n; ++host) {
      share.push_back(static_cast<double>(2 + dice.below(3)) / 4);
      cluster.degraded.push_back({"node" + std::to_string(host) + "/nic0", "leaf0", share.back(), {}});
    }
    CollectiveSpec spec = gloo();
    spec.costs.push_back({"tcp.acknowledgements", 0});
    const std::int64_t segment = 1000 * (800 + static_cast<std::int64_t>(dice.below(200)));
    const std::int64_t bytes = segment * n * m;
    REQUIRE(gloo_segments_per_rank(static_cast<std::uint32_t>(n), Bytes(bytes)) ==
            static_cast<std::uint32_t>(m));
    Loops loops{n, m, {}, kLatency, static_cast<double>(segment) / kSumRate};
    std::vector<SimTime> launch;
    std::vector<double> enter;
    for (int r = 0; r < n; ++r) {
      const double slower =
          std::min(share[static_cast<std::size_t>(r)], share[static_cast<std::size_t>((r + n - 1) % n)]);
      loops.occupied.push_back(static_cast<double>(segment) / (kHostRate * slower) + kHandshake.value);
      launch.push_back(SimTime{static_cast<std::int64_t>(dice.below(2)) * 1'000'000 *
                               static_cast<std::int64_t>(dice.below(1'000'000))});  // within a second
      enter.push_back(to_seconds(launch.back()).value + kBegin.value);
    }
    const Topology topology = build_topology(cluster);
    CollectivePlanner planner = collective_planner(topology, {.collective = spec});
    const CollectivePlan plan = planner.plan(CollectiveKind::all_reduce, Bytes(bytes));
    CollectiveTimes times(planner.communicator(), std::span(&plan, 1));
    std::vector<SimTime> end(launch.size());
    times.end(0, launch, {}, end);
    const std::vector<double> expected = leaves(loops, enter);
    for (std::size_t r = 0; r < end.size(); ++r) {
      CAPTURE(round, n, m, r, segment);
      CHECK(to_seconds(end[r]).value == Approx(expected[r]).margin(1e-9));
    }
  }
}

// Measured: PyTorch 1.13, four hosts at 50 Mbit/s, host 2's link at half of it, all-reduces of 2 MiB begun together; medians
// of six. The others' shares are the same at 1 and 4 MiB.
TEST_CASE("ranks leave gloo's all-reduce as far apart beside a slow link as PyTorch's do") {
  ClusterSpec cluster = gloo_hosts(4);
  cluster.degraded.push_back({"node2/nic0", "leaf0", 0.5, {}});
  const Topology topology = build_topology(cluster);
  CollectivePlanner planner = collective_planner(topology, {.collective = gloo()});
  const CollectivePlan plan = planner.plan(CollectiveKind::all_reduce, Bytes(2 << 20));
  CollectiveTimes times(planner.communicator(), std::span(&plan, 1));
  const std::vector<SimTime> launch(4);
  std::vector<SimTime> end(4);
  times.end(0, launch, {}, end);
  const std::vector<double> measured{0.943, 1.078, 1.074, 0.899};
  for (std::size_t r = 0; r < 4; ++r) {
    CAPTURE(r);
    CHECK(to_seconds(end[r]).value / to_seconds(end[1]).value ==
          Approx(measured[r] / measured[1]).epsilon(0.005));
  }
}

TEST_CASE("gloo's all-gather and broadcast on equal hosts take their closed forms") {
  const Bytes bytes(3 << 20);
  for (const int n : {2, 3, 6}) {
    const double c = 3.0 * (1 << 20) / (2 * n) / kHostRate * (n > 2 ? 1 + kAcks : 1) + kHandshake.value;
    // Someone comes last: as long as what its link queues, or between two one of the segments.
    const double wire = 3.0 * (1 << 20) / (2 * n), queued = n == 2 ? wire : 65536;
    const double word = queued / kHostRate * (n > 2 ? 1 + kAcks : 1);
    CHECK(time_of(n, CollectiveKind::all_gather, bytes) ==
          Approx(kBegin.value + 2 * (n - 1) * c + word + kLatency).margin(1e-10));
  }
  const double whole = 3.0 * (1 << 20) / kHostRate;
  const double hop = kHandshake.value + kLatency;
  CHECK(time_of(2, CollectiveKind::broadcast, bytes) == Approx(kBegin.value + whole + hop).margin(1e-10));
  CHECK(time_of(4, CollectiveKind::broadcast, bytes) ==
        Approx(kBegin.value + 3 * whole + 2 * hop).margin(1e-10));
}

// Inside a node segments pass the loopback at its rate, whatever its links carry; GPUs' tensors go to the host before and
// come back after, all at once: on a DGX A100 two GPUs share a switch's way to the CPU, on a DGX H100 each has its own.
TEST_CASE("gloo inside a node of GPUs is as fast as the loopback and the copies to the host") {
  for (const auto& [preset, behind_switch] : {std::pair("dgx-a100", 2), std::pair("dgx-h100", 1)}) {
    for (const int gpus : {2, 8}) {
      ClusterSpec cluster = load_cluster(preset);
      cluster.nodes = 1;
      cluster.gpus_per_node = gpus;
      const double sharing = gpus == 8 ? behind_switch : std::min(behind_switch, gpus);
      const Bytes bytes(64 << 20);
      CollectiveSpec spec;
      spec.library = CollectiveLibrary::gloo;
      spec.costs = {{"gloo.startup", 0},
                    {"gloo.nvlink.latency", 0},
                    {"gloo.reduce_rate", 1e15},
                    {"gloo.local_rate", 2e9},
                    {"gloo.handshake", 1e-3}};
      const Topology topology = build_topology(cluster);
      const double wire = 2.0 * (gpus - 1) / gpus * static_cast<double>(bytes.value) / 2e9;
      const double copies =
          2 * static_cast<double>(bytes.value) * sharing / cluster.node.pcie_bandwidth.value;
      CAPTURE(preset, gpus);
      CHECK(alone(topology, spec, CollectiveKind::all_reduce, bytes) == Approx(wire + copies).epsilon(1e-3));
      spec.costs.push_back({"gloo.copy_rate", 1e10});
      CHECK(alone(topology, spec, CollectiveKind::all_reduce, bytes) ==
            Approx(wire + static_cast<double>(bytes.value) / 1e10).epsilon(1e-3));
    }
  }
}

// Two all-reduces at a time, first come first served, whose segments take turns on a rank's link in the order in which
// they are issued. All ranks do the same at the same time, so one rank's link tells all: with no latencies the next
// segment of an all-reduce is there when its last one has left.
struct Bucket {
  double ready = 0, segment = 0;
  std::int64_t left = 0;  // segments
  double start = 0, end = 0;
};
void serve(std::vector<Bucket>& buckets) {
  std::deque<std::size_t> turns;
  std::size_t next = 0, running = 0;
  double now = 0;
  const auto admit = [&] {
    while (next < buckets.size() && running < 2 && buckets[next].ready <= now) {
      buckets[next].start = now;
      turns.push_back(next++);
      ++running;
    }
  };
  // One that becomes ready while a segment is sent gets its turn before that segment's successor.
  for (admit(); next < buckets.size() || running > 0;) {
    if (turns.empty()) {
      now = std::max(now, buckets[next].ready);
      admit();
      continue;
    }
    const std::size_t turn = turns.front();
    turns.pop_front();
    const double until = now + buckets[turn].segment;
    while (next < buckets.size() && running < 2 && buckets[next].ready <= until) {
      now = std::max(now, buckets[next].ready);
      admit();
    }
    now = until;
    if (--buckets[turn].left > 0) {
      turns.push_back(turn);
    } else {
      buckets[turn].end = now;
      --running;
      admit();
    }
  }
}

TEST_CASE("two all-reduces of gloo run at once, and their segments take turns on the links") {
  Dice dice(17);
  for (int round = 0; round < 40; ++round) {
    const int n = 2 + static_cast<int>(dice.below(4)), layers = 3 + static_cast<int>(dice.below(8));
    Scenario scenario;
    scenario.cluster = gloo_hosts(n);
    scenario.cluster.node.nic_latency = Seconds{};
    scenario.gpu = gpu_preset("V100-16GB");
    scenario.gpu.memory_bandwidth = BytesPerSecond(1e18);
    scenario.model.name = "layers";
    std::vector<Bucket> buckets;
    std::vector<ExplicitLayerTime> times;
    double backward = 0;
    for (int l = 0; l < layers; ++l) {
      const std::int64_t elements = 2 * n * (100 + static_cast<std::int64_t>(dice.below(100'000)));
      scenario.model.layers.push_back({.name = "layer" + std::to_string(l),
                                       .kind = LayerKind::linear,
                                       .parameters = {elements},
                                       .output_elements = 1});
      times.push_back(
          {.forward = 1.0_ms, .backward = Seconds(0.001 * static_cast<double>(1 + dice.below(60)))});
    }
    for (int l = layers; l-- > 0;) {
      const auto at = static_cast<std::size_t>(l);
      backward += times[at].backward.value;
      const auto bytes = static_cast<double>(4 * scenario.model.layers[at].parameters.front());
      const std::int64_t segments =
          gloo_segments_per_rank(static_cast<std::uint32_t>(n), Bytes(std::int64_t(bytes)));
      buckets.push_back({layers * 1e-3 + backward,
                         std::ceil(bytes / static_cast<double>(n * segments)) / kHostRate,
                         2 * (n - 1) * segments});
    }
    serve(buckets);
    scenario.training.layer_times = times;
    scenario.training.ddp.bucket_cap = scenario.training.ddp.first_bucket = Bytes(1);
    scenario.training.ddp.gradient_as_bucket_view = true;
    scenario.training.ddp.broadcast_buffers = false;
    scenario.training.host = {};
    scenario.training.host.kernel_launch = scenario.training.host.collective_launch = Seconds{};
    scenario.training.collective = gloo();
    for (CostParameter& cost : scenario.training.collective.costs) {
      cost.value = cost.name == "gloo.reduce_rate" ? 1e18 : cost.name == "network.efficiency" ? 1 : 0;
    }
    Machines machines;
    const TrainingJob job = machines.build(scenario).job;
    CHECK(why_not_vector(job).has_value());
    const Result result = simulate(job, {.iterations = 2}, trace_of_first(static_cast<std::uint32_t>(n), 2));
    REQUIRE(result.trace.size() == 2 * static_cast<std::size_t>(n));
    for (const TracedIteration& traced : result.trace) {
      if (traced.iteration == 0) {
        continue;
      }
      const double began = to_seconds(result.iteration_end[0]).value;
      std::size_t bucket = 0;
      for (std::size_t o = 0; o < traced.ops.size(); ++o) {
        if (job.main().steady.ops[o].kind == OpKind::collective) {
          CAPTURE(round, n, bucket);
          // The broadcast of the order of the buckets, of some 100 bytes, has left ranks that far apart.
          CHECK(to_seconds(traced.ops[o].start).value - began == Approx(buckets[bucket].start).margin(5e-5));
          CHECK(to_seconds(traced.ops[o].end).value - began == Approx(buckets[bucket].end).margin(5e-5));
          ++bucket;
        }
      }
      CHECK(bucket == buckets.size());
    }
  }
}

// One layer, one bucket: what follows backward is gloo's all-reduce of half the bytes. The order of buckets is broadcast in
// the warm-up alone.
TEST_CASE("the hook fp16 over gloo reduces half the bytes") {
  for (const int n : {2, 4}) {
    Scenario scenario;
    scenario.cluster = gloo_hosts(n);
    scenario.gpu = gpu_preset("V100-16GB");
    scenario.gpu.memory_bandwidth = BytesPerSecond(1e18);
    scenario.model.name = "layer";
    scenario.model.layers.push_back(
        {.name = "layer", .kind = LayerKind::linear, .parameters = {800'000}, .output_elements = 1});
    scenario.training.layer_times = {{.forward = 3.0_ms, .backward = 7.0_ms}};
    scenario.training.compression.kind = CompressionKind::fp16;
    scenario.training.host = {};
    scenario.training.host.kernel_launch = scenario.training.host.collective_launch = Seconds{};
    scenario.training.collective = gloo();
    Machines machines;
    const Result result = simulate(machines.build(scenario).job, {.iterations = 2});
    CHECK(to_seconds(result.iteration_end[2] - result.iteration_end[1]).value ==
          Approx(10e-3 + time_of(n, CollectiveKind::all_reduce, Bytes(1'600'000))).margin(1e-7));
  }
}

// fully_shard on n hosts, in shards of `of`: of each layer, a unit of its own, the all-gather twice, its waits, and an
// all-reduce of all of it; with replicas one of the shard, too.
TEST_CASE("a step of FSDP over gloo is the sum of its layers' waits and its collectives' closed forms") {
  const auto gather = [](int n, double bytes) {
    const double segment = std::ceil(bytes / (2 * n)), acks = n > 2 ? 1 + kAcks : 1,
                 word = n == 2 ? segment : std::min(segment, 65536.0);
    return kBegin.value + (2 * (n - 1) * segment + word) / kHostRate * acks + 2 * (n - 1) * kHandshake.value +
           kLatency;
  };
  const auto reduce = [](int n, double bytes) {
    const double m = gloo_segments_per_rank(static_cast<std::uint32_t>(n), Bytes(std::int64_t(bytes))),
                 segment = std::ceil(bytes / (n * m)),
                 c = segment / kHostRate * (n > 2 ? 1 + kAcks : 1) + kHandshake.value;
    return kBegin.value + 2 * ((n - 1) * m * c + kLatency) + segment / kSumRate;
  };
  for (const auto& [hosts, of] : {std::pair{2, 2}, {4, 4}, {6, 6}, {4, 2}, {8, 4}, {8, 2}}) {
    for (const bool reshards : {true, false}) {
      CAPTURE(hosts, of, reshards);
      Scenario scenario;
      scenario.cluster = gloo_hosts(hosts);
      scenario.gpu = gpu_preset("V100-16GB");
      scenario.gpu.memory_bandwidth = BytesPerSecond(1e18);
      scenario.model.name = "layers";
      double expected = 0;
      for (const std::int64_t kilobytes : {400, 40, 4000, 12}) {
        const std::int64_t elements = 250 * kilobytes / 8 * 8;
        scenario.model.layers.push_back({.name = "layer" + std::to_string(kilobytes),
                                         .kind = LayerKind::linear,
                                         .parameters = {elements},
                                         .output_elements = 1});
        scenario.training.layer_times.push_back({.forward = 3.0_ms, .backward = 7.0_ms});
        scenario.training.fsdp.units.layers.push_back(1);
        const double bytes = 4.0 * static_cast<double>(elements);
        expected += (reshards ? 2 : 1) * gather(of, bytes) + 10e-3 + reduce(of, bytes);
        expected += of < hosts ? reduce(hosts / of, bytes / of) : 0;
      }
      scenario.training.strategy = StrategyKind::fsdp;
      scenario.training.fsdp.reshard_after_forward.reshards = reshards;
      scenario.training.fsdp.shard_group.ranks = of;
      scenario.training.host = {};
      scenario.training.host.kernel_launch = scenario.training.host.collective_launch = Seconds{};
      scenario.training.collective = gloo();
      Machines machines;
      const Result result = simulate(machines.build(scenario).job, {.iterations = 2});
      CHECK(to_seconds(result.iteration_end[2] - result.iteration_end[1]).value ==
            Approx(expected).margin(1e-8));
    }
  }
}

}  // namespace
}  // namespace paceline
