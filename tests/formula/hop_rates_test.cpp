// What hops are given: of GPUs of one process, of a tree that fills, past a CPU, and for messages of Slingshot.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/collective/default_costs.h"
#include "sim/collective/nccl.h"
#include "sim/collective/step_times.h"
#include "sim/report/collective_cost.h"

namespace paceline {
namespace {

struct Planned {
  CollectivePlan plan;
  std::vector<Hop> hops;
  CollectiveCosts costs;
  std::int64_t turn = 0;
  std::uint32_t channels = 0;
};

Planned planned(const NodeSpec& node, int nodes, Bytes bytes, const CollectiveSpec& spec) {
  ClusterSpec cluster;
  cluster.node = node;
  cluster.nodes = nodes;
  cluster.gpus_per_node = cluster.node.gpus;
  const Topology topology = build_topology(cluster);
  NcclCollectives nccl(topology, spec, {});
  Communicator communicator;
  communicator.ranks = static_cast<std::uint32_t>(topology.ranks());
  CollectivePlan plan = nccl.plan(communicator, CollectiveKind::all_reduce, bytes,
                                  nccl.tuned(CollectiveKind::all_reduce, bytes));
  const CollectiveGraph& graph = communicator.graphs[plan.graph];
  return {std::move(plan), graph.hops, nccl.costs(), graph.turn, graph.channels};
}

Planned planned(const char* node, int nodes, Bytes bytes, const CollectiveSpec& spec) {
  return planned(node_preset(node), nodes, bytes, spec);
}

TEST_CASE("half of what one process launches shows up to A100, and where work is short all of it") {
  const auto times = [](const char* node, const char* protocol, int of_process) {
    ClusterSpec cluster;
    cluster.node = node_preset(node);
    cluster.gpus_per_node = 8;
    const Topology topology = build_topology(cluster);
    CollectiveSpec spec{.algorithm = "ring", .protocol = protocol};
    spec.gpus_per_process = of_process;
    CollectivePlanner planner = nccl_planner(topology, spec, {});
    std::vector<double> seconds;
    for (const CollectiveCost& cost : cost_collectives(planner, CollectiveKind::all_reduce,
                                                       std::vector{Bytes(8), Bytes(64 << 20)}, false)) {
      seconds.push_back(to_seconds(cost.time).value);
    }
    return seconds;
  };
  constexpr double kLaunches = 8 * 5e-6;
  for (const char* protocol : {"ll", "ll128", "simple"}) {
    for (const std::string node : {"dgx1-v100", "dgx-a100", "dgx-h100"}) {
      const std::vector<double> each = times(node.c_str(), protocol, 1),
                                one = times(node.c_str(), protocol, 8);
      const double shown = node == "dgx-h100" ? 0 : kLaunches / 2;
      CAPTURE(protocol, node);
      CHECK(one[0] == Approx(std::max(kLaunches, each[0] + shown)));
      CHECK(each[1] > kLaunches);
      CHECK(one[1] == Approx(each[1] + shown));
    }
  }
}

TEST_CASE("a tree in Simple fills at what its thread blocks move, and is full at NCCL's cap, since 2.20") {
  const auto rates = [](const char* version, Bytes bytes) {
    const Planned tree =
        planned("aws-p4d", 2, bytes, {.nccl = version, .algorithm = "tree", .protocol = "simple"});
    std::vector<double> of_loops;  // the slowest hop inside a node, by loops of the plan
    for (std::size_t i = 0; i < tree.plan.loops.size(); ++i) {
      double slowest = tree.costs.copy_rate.value;
      for (std::size_t h = 0; h < tree.hops.size(); ++h) {
        if (tree.hops[h].kind == HopKind::nvlink) {
          const std::size_t at = i * tree.hops.size() + h;
          slowest = std::min(slowest, tree.plan.paced.empty() || tree.plan.paced[at].value == 0
                                          ? tree.plan.hops[h].rate.value
                                          : tree.plan.paced[at].value);
        }
      }
      of_loops.push_back(slowest);
    }
    return of_loops;
  };
  const CollectiveCosts costs = planned("aws-p4d", 2, Bytes(1 << 20), {.nccl = "2.23"}).costs;
  const double block = costs.copy_rate.value / 2,
               cap = costs.caps.tree * 1e9 * 4 / 8 / 2;  // 4 channels are searched
  CHECK(cap < 0.7 * block);
  const std::vector<double> short_one = rates("2.23", Bytes(4 << 20));  // one chunk: never full
  REQUIRE(short_one.size() == 1);
  CHECK(short_one.front() == Approx(block));
  const std::vector<double> long_one = rates("2.23", Bytes(std::int64_t{1} << 30));
  REQUIRE(long_one.size() >= 3);
  CHECK(long_one.front() == Approx(block));
  CHECK(*std::ranges::min_element(long_one) == Approx(cap));
  CHECK(long_one.back() == Approx(block));
  const std::vector<double> before = rates("2.18", Bytes(4 << 20));
  CHECK(std::ranges::max(before) == Approx(cap));
}

TEST_CASE("a channel in LL128 is a thread block: more of them than NCCL takes carry more, fewer less") {
  const auto all = [](int channels) {  // what the slowest hop inside a node lets all channels carry
    CollectiveSpec spec{.algorithm = "ring", .protocol = "ll128"};
    spec.min_channels = spec.max_channels = channels;
    const Planned ring = planned("dgx-h100", 2, Bytes(1 << 30), spec);
    CHECK(ring.channels == static_cast<std::uint32_t>(channels));
    double slowest = ring.costs.copy_rate.value;
    for (std::size_t h = 0; h < ring.hops.size(); ++h) {
      slowest =
          ring.hops[h].kind == HopKind::nvlink ? std::min(slowest, ring.plan.hops[h].rate.value) : slowest;
    }
    return slowest * channels;
  };
  constexpr double kBlock = 36.7e9 / 2;  // NCCL's figure for a channel of its search, which runs as two
  CHECK(all(8) == Approx(8 * kBlock));
  CHECK(all(16) == Approx(16 * kBlock));
  CHECK(all(32) == Approx(18 * 20.6e9 * 120 / 128 * 8 / 7));  // the NVLinks: seven of eight hops
}

// One GPU for each of four PCIe switches, two sockets: the ring passes CPUs with every hop, two of them over the
// sockets' link.
NodeSpec past_cpus(CpuVendor cpu, int gpus, double sockets) {
  NodeSpec node = node_preset("pcie-a100");
  node.gpus = node.pcie_switches = gpus;
  node.nics = 0;
  node.cpu = cpu;
  node.pcie_bandwidth = BytesPerSecond(24e9);
  node.socket_bandwidth = BytesPerSecond(sockets);
  return node;
}

// Of the ring's channels together, by the slowest hop of each.
double ring_rate(const NodeSpec& node, const char* protocol) {
  const Planned ring = planned(node, 1, Bytes(1 << 30),
                               {.algorithm = "ring",
                                .protocol = protocol,
                                .costs = {{"host.efficiency", 0.6}, {"block.copy_rate", 1e12}}});
  double slowest = 1e12;
  for (std::size_t h = 0; h < ring.hops.size(); ++h) {
    if (ring.hops[h].kind == HopKind::pcie) {
      slowest = std::min(slowest, ring.plan.hops[h].rate.value);
    }
  }
  return slowest * ring.channels;
}

TEST_CASE(
    "GPUs past a CPU read the host's memory at a part of PCIe's rate, in lines at that of data in them") {
  CHECK(ring_rate(past_cpus(CpuVendor::intel, 4, 64e9), "simple") == Approx(0.6 * 24e9));
  CHECK(ring_rate(past_cpus(CpuVendor::intel, 4, 10e9), "simple") == Approx(10e9));  // the sockets' link
  CHECK(ring_rate(past_cpus(CpuVendor::intel, 4, 64e9), "ll") == Approx(0.5 * 0.6 * 24e9));
}

TEST_CASE("two GPUs past a CPU are peers between CPUs of AMD, and read nothing from the host") {
  CHECK(ring_rate(past_cpus(CpuVendor::amd, 2, 64e9), "simple") == Approx(24e9));
  CHECK(ring_rate(past_cpus(CpuVendor::intel, 2, 64e9), "simple") == Approx(0.6 * 24e9));
  CHECK(ring_rate(past_cpus(CpuVendor::amd, 4, 64e9), "simple") == Approx(0.6 * 24e9));
}

TEST_CASE("NCCL_P2P_LEVEL says which GPUs are peers, whatever the CPU") {
  NodeSpec node = past_cpus(CpuVendor::intel, 4, 64e9);
  const auto rate = [&](P2pLevel level) {
    node.p2p_level = level;
    return ring_rate(node, "simple");
  };
  // Two of four hops stay below a CPU, two pass the sockets' link.
  CHECK(rate(P2pLevel::sys) == Approx(24e9));
  CHECK(rate(P2pLevel::phb) == Approx(0.6 * 24e9));
  CHECK(rate(P2pLevel::pxb) == rate(P2pLevel::by_cpu));
  node.sockets = 1;
  CHECK(rate(P2pLevel::phb) == Approx(24e9));
  // All four below one PCIe switch: its link to the CPU carries every hop, there and back.
  node.pcie_switches = 1;
  CHECK(rate(P2pLevel::pix) == Approx(24e9));
  CHECK(rate(P2pLevel::by_cpu) == Approx(24e9));
  CHECK(rate(P2pLevel::loc) == Approx(0.6 * 24e9 / 4));
}

TEST_CASE(
    "a message on Slingshot occupies its proxy longer than on InfiniBand, but for those that go at once") {
  NodeSpec node = node_preset("dgx-a100");
  const auto occupied = [&](NetworkKind network, const char* protocol, Bytes bytes) {
    node.network = network;
    const Planned ring =
        planned(node, 2, bytes,
                {.algorithm = "ring", .protocol = protocol, .costs = {{"network.channel_overhead", 0}}});
    SimTime least;
    for (std::size_t h = 0; h < ring.hops.size(); ++h) {
      if (ring.hops[h].kind == HopKind::network) {
        least = std::max(least, ring.plan.hops[h].least);
      }
    }
    return std::pair(least, ring.plan.loops.front());
  };
  const auto [long_one, long_loops] = occupied(NetworkKind::slingshot, "simple", Bytes(256 << 20));
  CHECK(long_loops.slice > Bytes(16 << 10));
  CHECK(long_one > 5 * occupied(NetworkKind::infiniband, "simple", Bytes(256 << 20)).first);
  int at_once = 0, by_rendezvous = 0;
  for (std::int64_t bytes = 1 << 12; bytes <= 1 << 23; bytes *= 2) {
    const auto [least, loops] = occupied(NetworkKind::slingshot, "ll", Bytes(bytes));
    const bool fits = 2 * loops.chunk.value <= 16 << 10;  // a line is half flags
    CHECK((least == SimTime{}) == fits);
    ++(fits ? at_once : by_rendezvous);
  }
  CHECK(at_once > 0);
  CHECK(by_rendezvous > 0);
  const HopCost simple{
      .rate = BytesPerSecond(1e15), .latency = {}, .least = SimTime{1'000'000}, .eager = Bytes(16 << 10)};
  CHECK(least_of(Bytes(16 << 10), simple) == SimTime{});
  CHECK(least_of(Bytes((16 << 10) + 1), simple) == SimTime{1'000'000});
  CHECK(least_of(Bytes(0), {.rate = simple.rate, .latency = {}, .least = simple.least}) == simple.least);
}

TEST_CASE("where software moves messages, what one takes comes beside its bytes, else it is the least") {
  constexpr double kOfMessage = 40e-6;
  struct Case {
    const char* preset;
    NetworkKind network;
    bool beside;
  };
  for (const auto& [preset, network, beside] :
       {Case{"dgx-h100", NetworkKind::infiniband, false}, Case{"dgx-h100", NetworkKind::roce, false},
        Case{"dgx-h100", NetworkKind::slingshot, false}, Case{"dgx-h100", NetworkKind::tcp, false},
        Case{"dgx-h100", NetworkKind::efa, true}, Case{"dgx-h100", NetworkKind::efa_v3, true},
        Case{"dgx-h100", NetworkKind::tcpx, true}, Case{"dgx-h100", NetworkKind::tcpxo, true},
        Case{"dgx-a100", NetworkKind::efa, true}, Case{"dgx2-v100", NetworkKind::efa, true}}) {
    NodeSpec node = node_preset(preset);
    node.network = network;
    const Planned ring = planned(node, 2, Bytes(1 << 30),
                                 {.algorithm = "ring",
                                  .protocol = "simple",
                                  .costs = {{"network.slice_overhead", kOfMessage},
                                            {"network.channel_overhead", 0},
                                            {"network.channel_rate", 1e15}}});
    for (std::size_t h = 0; h < ring.hops.size(); ++h) {
      if (ring.hops[h].kind != HopKind::network) {
        continue;
      }
      const HopCost& hop = ring.plan.hops[h];
      for (const std::int64_t bytes : {1 << 16, 1 << 20}) {
        const double moved = static_cast<double>(bytes) / hop.rate.value;
        const double message = kOfMessage * ring.hops[h].of_one_proxy;
        CAPTURE(preset, name_of(network), bytes, moved, message);
        CHECK(to_seconds(stay_of(Bytes(bytes), hop)).value ==
              Approx(beside ? moved + message : std::max(moved, message)).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("TCP sockets carry what threads, flows and the adapter let them, whichever is least") {
  const auto of_all_channels = [](int gpus, int threads, int sockets, std::vector<CostParameter> costs) {
    NodeSpec node = node_preset("dgx-h100");
    node.gpus = gpus;
    node.nics = 1;
    node.network = NetworkKind::tcp;
    const Planned ring = planned(node, 3, Bytes(256 << 20),
                                 {.algorithm = "ring",
                                  .protocol = "simple",
                                  .socket_threads = threads,
                                  .sockets_per_thread = sockets,
                                  .costs = std::move(costs)});
    for (std::size_t h = 0; h < ring.hops.size(); ++h) {
      if (ring.hops[h].kind == HopKind::network) {
        CHECK(ring.hops[h].of_one_proxy == ring.channels);
        return std::pair(ring.plan.hops[h].rate.value * ring.channels, static_cast<double>(ring.channels));
      }
    }
    FAIL("no hop over the network");
    return std::pair(0.0, 0.0);
  };
  constexpr double kThread = 1e9, kAdapter = 5e9, kFlow = 0.2e9, kLine = 50e9, kEfficiency = 0.9;
  const std::vector<CostParameter> slow_threads{{"network.thread_rate", kThread},
                                                {"network.adapter_rate", 1e15}};
  // The proxy sends and receives; in a ring of nodes with more GPUs one sends and another receives.
  CHECK(of_all_channels(1, 0, 1, slow_threads).first == Approx(kThread));
  CHECK(of_all_channels(8, 0, 1, slow_threads).first == Approx(2 * kThread));
  for (const int gpus : {1, 8}) {
    const auto [three, channels] = of_all_channels(gpus, 3, 1, slow_threads);
    CHECK(three == Approx(3 * kThread * channels));
    std::vector<CostParameter> slow_flows = slow_threads;
    slow_flows.push_back({"network.socket_rate", kFlow});
    CHECK(of_all_channels(gpus, 3, 2, slow_flows).first == Approx(6 * kFlow * channels));
    CHECK(of_all_channels(gpus, 3, 64, slow_flows).first == Approx(3 * kThread * channels));
    CHECK(of_all_channels(gpus, 0, 1, slow_flows).first ==
          Approx(std::min(kFlow * channels, (gpus == 1 ? 1 : 2) * kThread)));
    CHECK(of_all_channels(gpus, 16, 1, {{"network.adapter_rate", kAdapter}}).first == Approx(kAdapter));
    CHECK(of_all_channels(gpus, 16, 1,
                          {{"network.thread_rate", 1e15},
                           {"network.adapter_rate", 1e15},
                           {"network.efficiency", kEfficiency}})
              .first == Approx(kLine * kEfficiency));
  }
}

TEST_CASE(
    "a faster adapter is never slower over TCP sockets, nor are more threads; LL moves twice the bytes") {
  const auto seconds = [](const NodeSpec& node, double gigabits, const CollectiveSpec& spec,
                          CollectiveKind kind) {
    ClusterSpec cluster;
    cluster.node = node;
    cluster.node.network = NetworkKind::tcp;
    cluster.node.nics = 1;
    cluster.node.nic_bandwidth = BytesPerSecond(gigabits * 1e9 / 8);
    cluster.nodes = 2;
    cluster.gpus_per_node = node.gpus;
    const Topology topology = build_topology(cluster);
    CollectivePlanner planner = nccl_planner(topology, spec, {});
    return to_seconds(cost_collectives(planner, kind, std::vector{Bytes(128 << 20)}, false).front().time)
        .value;
  };
  constexpr double kOtherChannels = 1.01;  // that the search finds for another adapter
  for (const char* preset : {"dgx-a100", "dgx-h100", "pcie-a100"}) {
    for (const auto& [algorithm, kind] : {std::pair("ring", CollectiveKind::all_reduce),
                                          {"tree", CollectiveKind::all_reduce},
                                          {"ring", CollectiveKind::reduce_scatter},
                                          {"ring", CollectiveKind::broadcast}}) {
      const NodeSpec node = node_preset(preset);
      CAPTURE(preset, algorithm, static_cast<int>(kind));
      for (const int threads : {0, 16}) {
        double before = std::numeric_limits<double>::infinity();
        for (const double gigabits : {10.0, 100.0, 200.0, 400.0, 800.0}) {
          const double now =
              seconds(node, gigabits,
                      {.algorithm = algorithm, .protocol = "simple", .socket_threads = threads}, kind);
          CHECK(now <= before * kOtherChannels);
          before = now;
        }
      }
      for (const int channels : {1, 2}) {
        double before = std::numeric_limits<double>::infinity();
        for (const int threads : {0, 1, 2, 4}) {
          CollectiveSpec spec{.algorithm = algorithm, .protocol = "simple", .socket_threads = threads};
          spec.min_channels = spec.max_channels = channels;
          const double now = seconds(node, 200, spec, kind);
          CHECK(now <= before);
          before = now;
        }
      }
    }
  }
  NodeSpec one = node_preset("dgx-a100");
  one.gpus = 1;
  const auto in = [&](const char* protocol) {
    return seconds(one, 100,
                   {.algorithm = "ring", .protocol = protocol, .costs = {{"network.thread_rate", 0.3e9}}},
                   CollectiveKind::all_reduce);
  };
  CHECK(in("ll") == Approx(2 * in("simple")).epsilon(0.01));
}

TEST_CASE("what sockets cost is the hosts', not the generation of GPUs'") {
  const auto costs = [](int compute_capability) {
    const CollectiveCosts of = default_costs(compute_capability, NetworkKind::tcp);
    return std::tuple(of.thread_rate.value, of.adapter_rate.value, of.network_latency.value,
                      of.efficiency[static_cast<std::size_t>(HopKind::network)]);
  };
  CHECK(costs(70) == costs(90));
  CHECK(costs(80) == costs(120));
  CHECK(std::get<0>(costs(90)) > 0);
  CHECK(std::get<0>(costs(90)) < std::get<1>(costs(90)));
}

TEST_CASE("a hop of Slingshot in LL has a default of its own, fitted to tables between its nodes") {
  const auto in_lines = [](int compute_capability, NetworkKind network) {
    const CollectiveCosts costs = default_costs(compute_capability, network);
    return costs.of[static_cast<std::size_t>(Protocol::ll)]
        .latency[static_cast<std::size_t>(HopKind::network)];
  };
  CHECK(in_lines(90, NetworkKind::slingshot) > in_lines(90, NetworkKind::infiniband));
  CHECK(in_lines(80, NetworkKind::slingshot) < in_lines(80, NetworkKind::infiniband));
  CHECK(in_lines(90, NetworkKind::roce) == in_lines(90, NetworkKind::infiniband));
  for (const NetworkKind kind : {NetworkKind::slingshot, NetworkKind::efa}) {
    const std::vector<CostParameter> fitted = starting_network_costs(kind, false);
    CHECK(std::ranges::any_of(fitted, [](const CostParameter& cost) {
            return cost.name == "ll.network.latency";
          }) == (kind == NetworkKind::slingshot));
  }
}

TEST_CASE("a message takes the EFA of p5 longer, proxy and hop, than the newer one of p5en and p6") {
  const auto network_hop = [](const char* preset) {
    const Planned ring =
        planned(node_preset(preset), 2, Bytes(256 << 20),
                {.algorithm = "ring", .protocol = "simple", .costs = {{"network.channel_overhead", 0}}});
    for (std::size_t h = 0; h < ring.hops.size(); ++h) {
      if (ring.hops[h].kind == HopKind::network) {
        return ring.plan.hops[h];
      }
    }
    FAIL("no hop over the network");
    return HopCost{};
  };
  const HopCost p5 = network_hop("aws-p5");
  for (const char* newer : {"aws-p5en", "aws-p6-b200"}) {
    CHECK(node_preset(newer).network == NetworkKind::efa_v3);
    CHECK(p5.overhead > network_hop(newer).overhead);
    CHECK(p5.latency > network_hop(newer).latency);
  }
}

}  // namespace
}  // namespace paceline
