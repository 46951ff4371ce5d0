// When is what a GPU passes on there? Trees and chains in LL128 and NVLS against recursions from NCCL's rules, what a
// proxy takes to begin and for its messages, and what a channel does.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

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
                {"network.slice_overhead", 0},
                {"network.fifo_startup", 0},
                {"network.channel_overhead", 0},
                {"network.channel_rate", 0}};
  return spec;
}

ClusterSpec machine(int nodes, int gpus) {
  ClusterSpec cluster;
  cluster.node = node_preset("dgx-h100");
  cluster.nodes = nodes;
  cluster.gpus_per_node = gpus;
  return cluster;
}

// A collective alone.
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

Alone alone(const ClusterSpec& cluster, const CollectiveSpec& spec, CollectiveKind kind, Bytes bytes) {
  const Topology topology = build_topology(cluster);
  CollectivePlanner planner = nccl_planner(topology, spec, {});
  Alone alone;
  alone.job.plans = {planner.plan(kind, bytes)};
  alone.job.communicator = planner.communicator();
  alone.job.main().steady.collectives = {0};
  alone.job.main().steady.ops = {{OpKind::collective, 0, {}, {}, "collective"},
                                 {OpKind::wait, 0, {}, {}, "wait"}};
  alone.job.main().warm_up = alone.job.main().steady;
  return alone;
}

Alone all_reduce(const ClusterSpec& cluster, const CollectiveSpec& spec, Bytes bytes) {
  return alone(cluster, spec, CollectiveKind::all_reduce, bytes);
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

TEST_CASE("a broadcast in LL128 passes lines on inside nodes, and chunks between them") {
  constexpr double kLines = 1920;
  constexpr int kNodes = 3, kGpus = 4;
  const Alone chain =
      alone(machine(kNodes, kGpus), spec_of("ring", "ll128", 1), CollectiveKind::broadcast, Bytes(96'000));
  REQUIRE(chain.plan().loops.size() == 1);
  REQUIRE(chain.plan().loops[0].count == 1);
  const double chunk = static_cast<double>(chain.plan().loops[0].chunk.value);
  double expected = kStartTakes;
  int whole = 0;
  for (std::uint32_t at = 0; at + 1 < kNodes * kGpus; ++at) {  // along the chain, from the root
    const auto fifo = std::ranges::find(chain.graph().fifos, at, &Fifo::from);
    REQUIRE(fifo != chain.graph().fifos.end());
    // What the receiver sends on over the network, or to nobody, it has whole.
    const std::uint32_t from = chain.graph().thread_blocks[fifo->from].rank,
                        to = chain.graph().thread_blocks[fifo->to].rank;
    const auto next = std::ranges::find(chain.graph().fifos, fifo->to, &Fifo::from);
    const bool passed_on =
        next != chain.graph().fifos.end() && chain.graph().thread_blocks[next->to].rank / kGpus == to / kGpus;
    const HopCost& hop = chain.plan().hops[fifo->hop];
    const double stay = std::max(chunk / hop.rate.value, to_seconds(hop.least).value);
    const double earlier = passed_on ? std::min((chunk - kLines) / hop.cut_through.value, stay) : 0;
    whole += passed_on ? 0 : 1;
    expected += stay - earlier + to_seconds(hop.latency).value;
    CHECK((from / kGpus == to / kGpus) == (chain.graph().hops[fifo->hop].kind == HopKind::nvlink));
  }
  CHECK(whole == kNodes);  // before each way out, and at the end
  expected += chunk / chain.plan().copy_rate.value;
  CHECK(chain.seconds() == Approx(expected).epsilon(1e-6));
}

TEST_CASE("a channel takes its time for a message in Simple beside its bytes, however idle the NIC is") {
  constexpr double kOfMessage = 7e-6, kOfBytes = 20e9;
  for (const int channels : {1, 8}) {
    CollectiveSpec spec = spec_of("ring", "simple", channels);
    for (const CostParameter& cost :
         {CostParameter{"simple.startup", kStartTakes}, CostParameter{"simple.network.latency", kHopTakes},
          CostParameter{"network.channel_overhead", kOfMessage},
          CostParameter{"network.channel_rate", kOfBytes}}) {
      spec.costs.push_back(cost);
    }
    const Alone chain = alone(machine(2, 1), spec, CollectiveKind::broadcast, Bytes(64 << 20));
    const HopCost& hop = chain.plan().hops[chain.graph().fifos[0].hop];
    double expected = kStartTakes + to_seconds(hop.latency).value, last = 0;
    for (const auto& loops : chain.plan().loops) {
      REQUIRE(slices_of(loops) == 1);
      last = static_cast<double>(loops.chunk.value);
      const double of_channel = kOfMessage + last / kOfBytes, of_nic = last / hop.rate.value;
      CHECK((of_channel > of_nic) == (channels == 1));  // eight keep the NIC busy
      expected += static_cast<double>(loops.count) * std::max(of_channel, of_nic);
    }
    expected += last / chain.plan().copy_rate.value;
    CAPTURE(channels);
    CHECK(chain.seconds() == Approx(expected).epsilon(1e-6));
  }
  const Alone lines =
      alone(machine(2, 1), spec_of("ring", "ll128", 1), CollectiveKind::broadcast, Bytes(64 << 20));
  CHECK(lines.plan().hops[lines.graph().fifos[0].hop].channel_rate.value == 0);
}

TEST_CASE("a message across the network is sent by channels of 14 GB/s, and begins as LL does") {
  CollectiveSpec spec = spec_of("", "", 2);
  spec.costs.push_back({"ll.startup", kStartTakes});
  const Alone one = alone(machine(2, 1), spec, CollectiveKind::send_recv, Bytes(256 << 20));
  REQUIRE(one.plan().protocol == Protocol::simple);
  CHECK(one.plan().startup == to_sim_time(Seconds(kStartTakes)));
  for (const Fifo& fifo : one.graph().fifos) {
    CHECK(one.rate(fifo.hop) == Approx(14e9));
  }
  CHECK(one.seconds() > (256 << 20) / (2 * 14e9));
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

TEST_CASE("a message takes what its proxy or what its channel takes, not both") {
  constexpr double kOfProxy = 30e-6, kOfChannel = 4e-6, kOfBytes = 10e9;
  CollectiveSpec spec = spec_of("ring", "simple", 1);
  spec.costs.push_back({"network.slice_overhead", kOfProxy});
  spec.costs.push_back({"network.channel_overhead", kOfChannel});
  spec.costs.push_back({"network.channel_rate", kOfBytes});
  const Alone alone = all_reduce(machine(2, 1), spec, Bytes(1 << 20));
  const HopCost& hop = alone.plan().hops[alone.graph().fifos[0].hop];
  for (const std::int64_t bytes : {1'000LL, 200'000LL, 300'000LL, 4'000'000LL}) {
    const double of_channel = kOfChannel + static_cast<double>(bytes) / kOfBytes;
    CHECK(to_seconds(stay_of(Bytes(bytes), hop)).value == Approx(std::max(kOfProxy, of_channel)));
  }
}

TEST_CASE("a proxy takes its time to begin each FIFO that its GPU sends on") {
  constexpr double kOfFifo = 3e-6;
  for (const int nodes : {2, 4}) {
    CollectiveSpec spec = spec_of("nvls_tree", "simple", 4);
    spec.costs.push_back({"network.fifo_startup", kOfFifo});
    const Alone tree = all_reduce(machine(nodes, 8), spec, Bytes(8 << 20));
    std::map<std::uint32_t, int> sends;  // over the network, by rank
    for (const Fifo& fifo : tree.graph().fifos) {
      if (tree.graph().hops[fifo.hop].kind == HopKind::network) {
        ++sends[tree.graph().thread_blocks[fifo.from].rank];
      }
    }
    const int most =
        std::ranges::max_element(sends, {}, [](const auto& each) { return each.second; })->second;
    CAPTURE(nodes);
    // Four channels; parents of two, in one tree of two, and a leaf in the other.
    CHECK(most == (nodes == 2 ? 4 : 8));
    CHECK(to_seconds(tree.plan().startup).value == Approx(kStartTakes + most * kOfFifo));
  }
  // Without: what the protocol's own startup takes.
  const auto begins = [](const char* algorithm, CollectiveKind kind, int nodes, int gpus, double of_fifo) {
    CollectiveSpec spec = spec_of(algorithm, *algorithm == '\0' ? "" : "ll128", 2);
    spec.costs.push_back({"network.fifo_startup", of_fifo});
    return to_seconds(alone(machine(nodes, gpus), spec, kind, Bytes(1 << 20)).plan().startup).value;
  };
  const auto added = [&](const char* algorithm, CollectiveKind kind, int nodes, int gpus) {
    return (begins(algorithm, kind, nodes, gpus, kOfFifo) - begins(algorithm, kind, nodes, gpus, 0)) /
           kOfFifo;
  };
  CHECK(added("ring", CollectiveKind::all_gather, 4, 1) == Approx(2));  // a node's only GPU has both channels
  CHECK(added("ring", CollectiveKind::all_gather, 1, 8) == Approx(0).margin(1e-6));
  CHECK(added("", CollectiveKind::all_to_all, 4, 2) == Approx(6));  // the GPUs of other nodes
  CHECK(added("", CollectiveKind::all_to_all, 3, 8) == Approx(16));
}

}  // namespace
}  // namespace paceline
