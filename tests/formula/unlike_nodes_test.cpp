// Nodes of several kinds in one job: wires, NICs and GPUs of their own, and what NCCL makes of them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "scenarios/gpu_memory.h"
#include "scenarios/predict.h"
#include "scenarios/scenario.h"
#include "sim/collective/collective_times.h"
#include "sim/collective/nccl.h"
#include "tests/dice.h"
#include "tests/error_of.h"
#include "topology/channel_search.h"

namespace paceline {
namespace {

ClusterSpec of_kinds(const std::vector<NodeRun>& runs, FabricSpec fabric = {}) {
  ClusterSpec cluster;
  cluster.node = runs.front().node;
  cluster.runs = runs;
  cluster.nodes = 0;
  for (const NodeRun& run : runs) {
    cluster.nodes += run.nodes;
  }
  cluster.fabric = fabric;
  return cluster;
}

ClusterSpec of_one(const NodeSpec& node, int nodes) {
  ClusterSpec cluster;
  cluster.node = node;
  cluster.nodes = nodes;
  return cluster;
}

// One GPU with one NIC.
NodeSpec one_gpu(BytesPerSecond nic) {
  NodeSpec node = node_preset("dgx-a100");
  node.name = "single";
  node.gpus = node.nics = node.pcie_switches = node.sockets = 1;
  node.wiring = NvlinkWiring::none;
  node.nic_bandwidth = nic;
  return node;
}

SimTime finish_on(const ClusterSpec& cluster, CollectiveKind kind, Bytes bytes,
                  const CollectiveSpec& spec = {}) {
  const Topology topology = build_topology(cluster);
  CollectivePlanner planner = nccl_planner(topology, spec, {});
  const CollectivePlan plan = planner.plan(kind, bytes);
  CollectiveTimes times(planner.communicator(), std::span(&plan, 1));
  std::vector<SimTime> launch(planner.communicator().ranks), end(planner.communicator().ranks);
  times.end(0, launch, SimTime{}, end);
  return *std::ranges::max_element(end);
}

constexpr CollectiveKind kCollectives[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                           CollectiveKind::reduce_scatter, CollectiveKind::broadcast};

// Every hop leaves one kind of node for the other, so all go at the narrow NIC's rate: as if both had it.
TEST_CASE("a ring over two unlike nodes is as fast as its slowest hop") {
  const NodeSpec narrow = one_gpu(BytesPerSecond(12.5e9)), wide = one_gpu(BytesPerSecond(50e9));
  for (const CollectiveKind kind : kCollectives) {
    for (const std::int64_t bytes : {8LL, 100'000LL, 1LL << 22, 1LL << 30}) {
      CAPTURE(name_of(kind), bytes);
      const SimTime both = finish_on(of_one(narrow, 2), kind, Bytes(bytes));
      CHECK(finish_on(of_kinds({{1, narrow}, {1, wide}}), kind, Bytes(bytes)) == both);
      CHECK(finish_on(of_kinds({{1, wide}, {1, narrow}}), kind, Bytes(bytes)) == both);
    }
  }
  // Three of a kind in a row have hops of their own, but a ring goes at its narrowest one's rate.
  CollectiveSpec ring;
  ring.algorithm = "ring";
  ring.protocol = "simple";
  ring.limited_fifos = false;
  const auto slope = [&](const ClusterSpec& cluster) {
    const Bytes one(1LL << 30), two(1LL << 31);
    return to_seconds(finish_on(cluster, CollectiveKind::all_reduce, two, ring) -
                      finish_on(cluster, CollectiveKind::all_reduce, one, ring));
  };
  const CollectiveCosts costs = default_costs(80, narrow.network);
  const double carried = 2.0 * 5 / 6 * static_cast<double>(1LL << 30);
  const Seconds least(carried / (12.5e9 * cost_value("network.efficiency", costs)));
  const Seconds mixed = slope(of_kinds({{3, wide}, {3, narrow}}));
  CHECK(mixed.value == Approx(least.value).epsilon(1e-3));
  CHECK(mixed.value == Approx(slope(of_one(narrow, 6)).value).epsilon(0.01));
  CHECK(slope(of_one(wide, 6)).value < 0.6 * least.value);
}

TEST_CASE("equal nodes under two names are one kind, and a kind alone is what it is without kinds") {
  for (const std::string preset : {"dgx-a100", "dgx-h100", "dgx1-v100"}) {
    const NodeSpec node = node_preset(preset);
    NodeSpec other = node;
    other.name = "another";
    for (const CollectiveKind kind : kCollectives) {
      for (const std::int64_t bytes : {1000LL, 1LL << 20, 1LL << 28}) {
        CAPTURE(preset, name_of(kind), bytes);
        const SimTime plain = finish_on(of_one(node, 4), kind, Bytes(bytes));
        CHECK(finish_on(of_kinds({{1, node}, {3, other}}), kind, Bytes(bytes)) == plain);
        CHECK(finish_on(of_kinds({{4, node}}), kind, Bytes(bytes)) == plain);
      }
    }
  }
}

TEST_CASE("all nodes take the least of what each found") {
  const NodeSpec a100 = node_preset("dgx-a100"), h100 = node_preset("dgx-h100");
  const auto alone = [](const NodeSpec& node) {
    return search_channels(build_topology(of_one(node, 6)), SearchSpec{});
  };
  const ChannelGraphs of_a100 = alone(a100), of_h100 = alone(h100);
  REQUIRE_FALSE(of_h100.nvls.channels.empty());
  const Topology topology = build_topology(of_kinds({{4, a100}, {2, h100}}));
  const NcclCollectives nccl(topology, {}, {});
  const ChannelGraphs& mixed = nccl.graphs();
  CHECK(mixed.ring.channels.size() == std::min(of_a100.ring.channels.size(), of_h100.ring.channels.size()));
  CHECK(mixed.tree.channels.size() == mixed.ring.channels.size());
  CHECK(mixed.ring.bw_intra == std::min(of_a100.ring.bw_intra, of_h100.ring.bw_intra));
  CHECK(mixed.ring.bw_inter == std::min(of_a100.ring.bw_inter, of_h100.ring.bw_inter));
  CHECK(mixed.ring.type_inter == std::max(of_a100.ring.type_inter, of_h100.ring.type_inter));
  CHECK(mixed.channels ==
        2 * static_cast<int>(mixed.ring.channels.size()));  // not doubled again: the least is 8.0
  CHECK(mixed.nvls.channels.empty());
  CHECK(mixed.nvls_channels == 0);
}

TEST_CASE("what NVLS runs on is the least of all nodes, whichever kind stands first") {
  const auto of_two = [](const NodeSpec& a, const NodeSpec& b, const std::string& version) {
    const Topology topology = build_topology(of_kinds({{1, a}, {1, b}}));
    CollectiveSpec spec;
    spec.nccl = version;
    return NcclCollectives(topology, spec, {}).graphs();
  };
  const NodeSpec a100 = node_preset("dgx-a100"), h100 = node_preset("dgx-h100"),
                 b200 = node_preset("dgx-b200");
  for (const std::string version : {"2.23", "2.30"}) {
    CAPTURE(version);
    for (const NodeSpec& fast : {h100, b200}) {
      const ChannelGraphs first = of_two(fast, a100, version), last = of_two(a100, fast, version);
      CHECK(first.nvls_channels == 0);
      CHECK(first.channels == last.channels);
    }
    const ChannelGraphs first = of_two(b200, h100, version), last = of_two(h100, b200, version);
    CHECK(first.nvls_channels == 16);
    CHECK(last.nvls_channels == 16);
    CHECK(first.nvls_tree_chunk == Bytes(0));
    CHECK(last.nvls_tree_chunk == Bytes(0));
    CHECK((of_two(b200, b200, version).nvls_tree_chunk > Bytes(0)) == (version == "2.30"));
  }
}

// src/graph/tuning.cc: before 2.30 unlike GPUs never, then from Hopper on.
TEST_CASE("unlike GPUs have LL128 only where all know it well") {
  const auto chosen = [](const NodeSpec& a, const NodeSpec& b, const std::string& version) {
    const Topology topology = build_topology(of_kinds({{1, a}, {1, b}}));
    CollectiveSpec spec;
    spec.nccl = version;
    NcclCollectives nccl(topology, spec, {});
    return nccl.time_of(CollectiveKind::all_reduce, Bytes(1 << 20), {Algorithm::ring, Protocol::ll128, 0}) >
           0;
  };
  const NodeSpec a100 = node_preset("dgx-a100"), h100 = node_preset("dgx-h100");
  NodeSpec renamed = h100;
  renamed.name = "another";
  NodeSpec newer = h100;
  newer.compute_capability = 100;
  CHECK(chosen(h100, renamed, "2.28"));
  CHECK_FALSE(chosen(a100, h100, "2.28"));
  CHECK_FALSE(chosen(a100, h100, "2.30"));
  CHECK_FALSE(chosen(h100, newer, "2.29"));
  CHECK(chosen(h100, newer, "2.30"));
}

// The links of a route follow each other, through NICs that the nodes have, and no two nodes share a port.
TEST_CASE("routes between unlike nodes are unbroken on every fabric") {
  const std::vector<NodeSpec> kinds{node_preset("dgx-a100"), node_preset("dgx-h100"),
                                    node_preset("dgx1-v100")};
  Dice dice(5);
  for (const FabricKind fabric : {FabricKind::single_switch, FabricKind::leaf_spine,
                                  FabricKind::rail_optimized, FabricKind::fat_tree}) {
    for (const Placement placement : {Placement::packed, Placement::striped}) {
      FabricSpec spec;
      spec.kind = fabric;
      spec.placement = placement;
      spec.nodes_per_leaf = 2 + static_cast<int>(dice.below(3));
      spec.leaves_per_pod = 2;
      std::vector<NodeRun> runs;
      for (int i = 0; i < 5; ++i) {
        runs.push_back({1 + static_cast<int>(dice.below(4)), kinds[dice.below(3)]});
      }
      const ClusterSpec cluster = of_kinds(runs, spec);
      const Topology t = build_topology(cluster);
      CAPTURE(static_cast<int>(fabric), static_cast<int>(placement));
      for (std::uint32_t d = 0; d < t.devices(); ++d) {
        REQUIRE(t.device_named(t.device_name(DeviceId(d))) == DeviceId(d));
      }
      std::set<LinkId> ports;
      for (std::uint32_t n = 0; n < static_cast<std::uint32_t>(cluster.nodes); ++n) {
        for (int nic = 0; nic < t.spec_of_kind(t.kind_of(n)).nics; ++nic) {
          const Route in = t.from_fabric(Rank(8 * n), nic);
          const Route out = t.to_fabric(Rank(8 * n), nic);
          REQUIRE(t.link(*in.begin()).from == t.link(*(out.end() - 1)).to);
          REQUIRE(t.device_name(t.link(*in.begin()).to) ==
                  "node" + std::to_string(n) + "/nic" + std::to_string(nic));
          REQUIRE(ports.insert(*in.begin()).second);
        }
      }
      for (int i = 0; i < 300; ++i) {
        const auto ranks = static_cast<std::uint32_t>(t.ranks());
        const Rank from(dice.below(ranks)), to(dice.below(ranks));
        if (from == to) {
          continue;
        }
        const Route route = t.route(from, to, static_cast<int>(dice.below(8)));
        DeviceId at = t.gpu_of(from);
        for (const LinkId link : route) {
          REQUIRE(t.link(link).from == at);
          at = t.link(link).to;
        }
        REQUIRE(at == t.gpu_of(to));
      }
      if (fabric != FabricKind::rail_optimized) {
        CHECK(bisection_closed_form(cluster).value == Approx(bisection_by_max_flow(t).value).epsilon(1e-9));
      }
    }
  }
}

std::string training_on(const std::string& cluster, const std::string& training = "",
                        const std::string& more = "") {
  return R"({"cluster": {)" + cluster + R"(}, "model": "resnet50", "training": {"batch_per_gpu": 64)" +
         training + R"(}, "run": {"iterations": 3})" + more + "}";
}
Prediction predicted(const std::string& text) { return predict(parse_scenario(text, "nodes.json")); }

const std::string kMixed =
    R"("nodes": 6, "gpus": [{"nodes": 4, "node": "dgx-a100", "measured": "2500 samples/s"},
    {"nodes": 2, "node": "dgx-h100", "measured": "3500 samples/s"}])";

TEST_CASE("a job on A100 and H100 nodes, with what each of them measured") {
  const Prediction p = predicted(training_on(kMixed));
  CHECK(p.job.ranks() == 48);
  CHECK(p.topology->device_name(p.topology->gpu_of(Rank(32))) == "node4/gpu0");
  CHECK(p.topology->spec_of_kind(p.topology->kind_of(4)).name == "dgx-h100");
  // Each kind's kernels take what it measured.
  const auto compute = [&](std::size_t rank) { return p.result.breakdown[rank].compute.ps; };
  CHECK(static_cast<double>(compute(0)) / static_cast<double>(compute(32)) ==
        Approx(3500.0 / 2500).epsilon(0.01));
  CHECK(p.report.scaling_efficiency < 48 * 2500.0 / (32 * 2500 + 16 * 3500));
  CHECK(p.report.scaling_efficiency > 0.8);
  // What is written is what was read.
  const Scenario again = parse_scenario(to_json(p.scenario), "again.json");
  CHECK(again.cluster == p.scenario.cluster);
  CHECK(predict(again).result.fingerprint == p.result.fingerprint);
  // Both engines.
  Scenario events = p.scenario;
  events.run.engine = EngineChoice::event;
  CHECK(predict(events).result.fingerprint == p.result.fingerprint);
}

TEST_CASE("kinds of node that are alike change no training") {
  const auto fingerprint = [](const std::string& text) { return predicted(text).result.fingerprint; };
  for (const std::string training :
       {"", R"(, "strategy": "fsdp")", R"(, "strategy": "zero")", R"(, "strategy": "horovod")"}) {
    CAPTURE(training);
    const auto plain = fingerprint(training_on(R"("node": "dgx-a100", "nodes": 4)", training));
    CHECK(
        fingerprint(training_on(
            R"("nodes": 4, "gpus": [{"nodes": 1, "node": "dgx-a100"}, {"nodes": 3, "node": {"preset": "dgx-a100", "name": "other"}}])",
            training)) == plain);
    CHECK(fingerprint(training_on(R"("gpus": [{"nodes": 4, "node": "dgx-a100"}])", training)) == plain);
    CHECK(fingerprint(training_on(R"("node": "dgx-a100", "gpus": [{"nodes": 1}, {"nodes": 3}])", training)) ==
          plain);
  }
  const std::string servers =
      R"(, "strategy": "parameter_server", "parameter_server": {"servers": {"count": 2}})";
  CHECK(
      fingerprint(training_on(
          R"("nodes": 2, "gpus": [{"nodes": 1, "node": "dgx-a100"}, {"nodes": 1, "node": {"preset": "dgx-a100", "name": "other"}}])",
          servers)) == fingerprint(training_on(R"("node": "dgx-a100", "nodes": 2)", servers)));
}

TEST_CASE("GPUs of other compute capabilities in like nodes are kinds of node, in whatever order") {
  for (const std::string node : {"aws-p2.8xlarge", "azure-nd-h100-v5", "dgx-a100"}) {
    CAPTURE(node);
    const auto of_gpu = [](int nodes, const std::string& gpu) {
      return R"({"nodes": )" + std::to_string(nodes) + R"(, "gpu": ")" + gpu + R"("})";
    };
    const auto of_node = [&](int nodes, const std::string& gpu) {
      return R"({"nodes": )" + std::to_string(nodes) + R"(, "node": {"preset": ")" + node + R"(", "gpu": ")" +
             gpu + R"("}})";
    };
    const auto with = [&](const std::string& first, const std::string& second) {
      return predicted(training_on(R"("node": ")" + node + R"(", "gpus": [)" + first + ", " + second + "]",
                                   R"(, "precision": "fp16")"));
    };
    const Prediction p = with(of_gpu(1, "V100-16GB"), of_gpu(2, "H100"));
    CHECK(p.topology->spec_of_kind(p.topology->kind_of(0)).compute_capability == 70);
    CHECK(p.topology->spec_of_kind(p.topology->kind_of(1)).compute_capability == 90);
    CHECK(with(of_gpu(2, "H100"), of_gpu(1, "V100-16GB")).report.step.mean.value ==
          Approx(p.report.step.mean.value).epsilon(0.01));  // which node is the tree's root
    CHECK(with(of_node(1, "V100-16GB"), of_node(2, "H100")).result.fingerprint == p.result.fingerprint);
    const Scenario again = parse_scenario(to_json(p.scenario), "again.json");
    CHECK(predict(again).result.fingerprint == p.result.fingerprint);
  }
}

TEST_CASE("the smallest memory of all kinds decides what fits") {
  const auto of = [](const std::string& first, const std::string& second) {
    return parse_scenario(training_on(R"("node": "dgx-a100", "nodes": 2, "gpus": [{"nodes": 1, "gpu": ")" +
                                      first + R"("}, {"nodes": 1, "gpu": ")" + second + R"("}])"),
                          "memory.json");
  };
  Scenario mixed = of("A100-80GB", "A100-40GB");
  CHECK(memory_of_gpu(mixed) == gpu_preset("A100-40GB").memory);
  mixed.training.batch_per_gpu = 600;  // between what the two hold
  Scenario large = of("A100-80GB", "A100-80GB");
  large.training.batch_per_gpu = 600;
  CHECK(does_not_fit(large).empty());
  CHECK_FALSE(does_not_fit(mixed).empty());
}

TEST_CASE("nodes that can't be of one job are refused") {
  const auto error = [](const std::string& cluster) {
    return error_of([&] { static_cast<void>(parse_scenario(training_on(cluster), "")); });
  };
  CHECK(
      error(
          R"("nodes": 2, "gpus": [{"nodes": 1, "node": "dgx-a100", "gpu": "H100"}, {"nodes": 1, "node": "dgx-h100"}])") ==
      "/cluster/gpus/0: expected either gpu or node, found both");
  CHECK(
      error(R"("nodes": 3, "gpus": [{"nodes": 1, "node": "dgx-a100"}, {"nodes": 1, "node": "dgx-h100"}])") ==
      "/cluster/gpus: expected the GPUs of 3 nodes, found those of 2");
  CHECK(
      error(
          R"("nodes": 2, "gpus": [{"nodes": 1, "node": "dgx-a100"}, {"nodes": 1, "node": "aws-p2.8xlarge"}])")
          .starts_with("/cluster/gpus/1/node: expected"));
  CHECK(
      error(R"("nodes": 2, "gpus": [{"nodes": 1, "node": "dgx-a100"}, {"nodes": 1, "gpu": "V100-32GB"}])") ==
      "/cluster: missing key \"node\"");
}

}  // namespace
}  // namespace paceline
