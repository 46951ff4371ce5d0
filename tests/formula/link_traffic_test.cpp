// What a job puts on each link.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/link_traffic_json.h"
#include "scenarios/predict.h"
#include "scenarios/scenario.h"
#include "scenarios/trace.h"
#include "sim/collective/fifo_traffic.h"
#include "sim/report/overlap.h"
#include "tests/dice.h"

namespace paceline {
namespace {

// One tensor of 4 * `parameters` bytes of gradients, so one collective.
std::string scenario(const std::string& cluster, std::int64_t parameters, const std::string& training = "",
                     const std::string& more = "") {
  return R"({"cluster": )" + cluster + R"(,
    "model": {"name": "one", "layers": [{"name": "a", "kind": "linear", "parameters": [)" +
         std::to_string(parameters) + R"(], "forward_macs": 1000, "output_elements": 10}]},
    "training": {"batch_per_gpu": 1, "ddp": {"broadcast_buffers": false})" +
         training + R"(}, "run": {"iterations": 2})" + more + "}";
}

Prediction prediction_of(const std::string& text) { return predict(parse_scenario(text, "links.json")); }

double bytes_between(const Prediction& p, const LinkTraffic& traffic, const std::string& from,
                     const std::string& to) {
  const std::optional<LinkId> link =
      p.topology->link_between(p.topology->device_named(from), p.topology->device_named(to));
  REQUIRE(link);
  return traffic.bytes[link->index()];
}

std::string node(int n, const std::string& device) { return "node" + std::to_string(n) + "/" + device; }
std::string gpu(int n, int g) { return node(n, "gpu" + std::to_string(g)); }

}  // namespace

TEST_CASE("one ring: each direction of each NVLink carries 2 (n-1)/n of the gradients, to the byte") {
  for (const int gpus : {2, 3, 4, 7, 8}) {
    INFO(gpus << " GPUs");
    const std::int64_t parameters = 8 * 7 * 3 * 100'000;
    const Prediction p =
        prediction_of(scenario(R"({"node": "dgx-a100", "gpus_per_node": )" + std::to_string(gpus) + "}",
                               parameters, R"(, "collective": {"algorithm": "ring", "protocol": "simple"})"));
    const LinkTraffic traffic = link_traffic(p);
    const double each = 2.0 * (gpus - 1) / gpus * static_cast<double>(4 * parameters);
    for (int g = 0; g < gpus; ++g) {
      CHECK(bytes_between(p, traffic, gpu(0, g), "node0/nvswitch") == Approx(each).margin(0.5));
      CHECK(bytes_between(p, traffic, "node0/nvswitch", gpu(0, g)) == Approx(each).margin(0.5));
    }
    const double all = std::accumulate(traffic.bytes.begin(), traffic.bytes.end(), 0.0);
    CHECK(all == Approx(2 * gpus * each).margin(0.5 * gpus));  // and nothing else moves
  }
}

// Each of a node's eight NICs has as many of the rings' channels, and each channel leaves and enters a node once.
TEST_CASE("rings over nodes: each NIC carries an eighth of 2 (n-1)/n of the gradients, out and in") {
  for (const int nodes : {2, 3, 5}) {
    INFO(nodes << " nodes");
    const std::int64_t parameters = 16 * 7 * 3 * 5 * 10'000;
    const Prediction p =
        prediction_of(scenario(R"({"node": "dgx-a100", "nodes": )" + std::to_string(nodes) + "}", parameters,
                               R"(, "collective": {"algorithm": "ring", "protocol": "simple"})"));
    const LinkTraffic traffic = link_traffic(p);
    const double n = 8.0 * nodes, each = 2 * (n - 1) / n * static_cast<double>(4 * parameters) / 8;
    for (int i = 0; i < nodes; ++i) {
      for (int nic = 0; nic < 8; ++nic) {
        const std::string port = node(i, "nic" + std::to_string(nic));
        CHECK(bytes_between(p, traffic, port, "leaf0") == Approx(each).margin(0.5));
        CHECK(bytes_between(p, traffic, "leaf0", port) == Approx(each).margin(0.5));
      }
    }
  }
}

TEST_CASE("parameter servers: a push of all parameters from each worker, and the answer") {
  const std::int64_t parameters = 1'000'000;
  const Prediction p = prediction_of(scenario(
      R"({"node": "dgx-a100", "nodes": 2, "gpus_per_node": 1})", parameters,
      R"(, "strategy": "parameter_server", "parameter_server": {"servers": {"count": 1, "placement": "own_nodes"}})"));
  const LinkTraffic traffic = link_traffic(p);
  const double each = 4.0 * static_cast<double>(parameters);
  for (const int worker : {0, 1}) {
    CHECK(bytes_between(p, traffic, node(worker, "nic0"), "leaf0") == Approx(each));
    CHECK(bytes_between(p, traffic, "leaf0", node(worker, "nic0")) == Approx(each));
  }
  CHECK(bytes_between(p, traffic, "leaf0", node(2, "nic0")) == Approx(2 * each));
  CHECK(bytes_between(p, traffic, node(2, "nic0"), "leaf0") == Approx(2 * each));
}

TEST_CASE("what a neighbour sends stands apart, also where nobody meets it") {
  const std::string cluster = R"({"node": "dgx-a100", "nodes": 3, "job_nodes": 2})";
  const Prediction alone = prediction_of(scenario(cluster, 1'000'000));
  const Prediction beside = prediction_of(scenario(
      cluster, 1'000'000, "", R"(, "background": [{"from": 16, "to": 0, "rate": "5 GB/s", "nic": 2}])"));
  const LinkTraffic ours = link_traffic(alone), both = link_traffic(beside);
  CHECK(ours.bytes == both.bytes);
  CHECK(std::ranges::all_of(ours.neighbours, [](double rate) { return rate == 0; }));
  const Route route = beside.topology->route(Rank(16), Rank(0), 2);
  for (std::size_t i = 0; i < both.neighbours.size(); ++i) {
    const bool crossed = std::ranges::find(route, LinkId(i)) != route.end();
    CHECK(both.neighbours[i] == (crossed ? 5e9 : 0));
  }
}

double bytes_on(const TrainingJob& job, std::uint32_t graph) {
  double bytes = 0;
  for (const Op& op : job.main().steady.ops) {
    if (op.kind == OpKind::collective) {
      const CollectivePlan& plan = job.plans[job.main().steady.collectives[op.index]];
      bytes += plan.graph == graph ? static_cast<double>(plan.bytes.value) : 0;
    }
  }
  return bytes;
}

// Where an end of a FIFO is: a GPU, or the NVSwitch of the other end's node.
std::size_t device_of(const Prediction& p, const ThreadBlock& end, const ThreadBlock& other) {
  if (end.rank != ThreadBlock::kSwitch) {
    return p.topology->gpu_of(Rank(end.rank)).index();
  }
  const std::uint32_t number = other.rank / static_cast<std::uint32_t>(p.topology->gpus_per_node());
  return p.topology->device_named("node" + std::to_string(number) + "/nvswitch").index();
}

// The trace of a rank says it too, span by span.
TEST_CASE("the time in which a step communicates is a rank's, and no link carries more than it could in it") {
  const auto communicating_of = [](const std::string& cluster, const std::string& training,
                                   double tolerance = 0.01) {
    Prediction p = prediction_of(R"({"cluster": )" + cluster +
                                 R"(, "model": "bert_base", "training": {"batch_per_gpu": 2, )" + training +
                                 R"(}, "run": {"iterations": 8}})");
    const Json links = link_traffic_json(p);
    for (const Json& of : *links.find("classes")->as<Json::Array>()) {
      const Json& share = *of.find("busiest_while_communicating");
      CHECK((share.as<double>() == nullptr || *share.as<double>() <= 1 + 1e-9));
    }
    const Json& found = *links.find("communicating_s");
    if (found.as<double>() == nullptr) {
      return -1.0;
    }
    record_trace(p, trace_request({.ranks = "0", .steps = "1-5"}, p));  // a period, and one more
    const CommunicationOverlap traced = communication_overlap(p.job, p.result.trace).front();
    const IterationRange range = overlap_iterations(p.result.trace);
    const double each = to_seconds(traced.communication).value / (range.last - range.first + 1);
    CAPTURE(training, each);
    CHECK(*found.as<double>() == Approx(each).epsilon(tolerance));
    return *found.as<double>();
  };
  const std::string two = R"({"node": "dgx-a100", "nodes": 2})";
  CHECK(communicating_of(two, R"("strategy": "ddp")") > 0);
  CHECK(communicating_of(two, R"("strategy": "fsdp")") > 0);
  CHECK(communicating_of(two, R"("strategy": "horovod")", 0.1) > 0);  // it decides anew in each step
  CHECK(communicating_of(two, R"("strategy": "local_sgd", "local_sgd": {"period": 4})") > 0);
  CHECK(communicating_of(two, R"("strategy": "local_sgd", "local_sgd": {"period": 4, "group": "node"})") > 0);
  // Messages have no spans.
  CHECK(communicating_of(R"({"node": "dgx-a100"})", R"("strategy": "data_parallel")") < 0);
  CHECK(communicating_of(
            two, R"("strategy": "mirrored", "mirrored": {"cross_device_ops": "nccl_then_ring"})") < 0);
  CHECK(communicating_of(
            R"({"node": "dgx-a100"})",
            R"("strategy": "mirrored", "mirrored": {"cross_device_ops": "reduction_to_one_device"})") < 0);
}

// What enters a device = what leaves it + what it keeps: what FIFOs bring there, less what they take from there.
TEST_CASE("on random clusters nothing is lost on the way") {
  constexpr std::array kNodes{"dgx-a100", "dgx-h100", "dgx1-v100", "dgx2-v100", "pcie-a100"};
  constexpr std::array kFabrics{R"({"kind": "single_switch"})",
                                R"({"kind": "leaf_spine", "nodes_per_leaf": 2})",
                                R"({"kind": "rail_optimized", "nodes_per_leaf": 2})",
                                R"({"kind": "fat_tree", "nodes_per_leaf": 2, "leaves_per_pod": 2})"};
  constexpr std::array kTrainings{
      "", R"(, "strategy": "fsdp")", R"(, "strategy": "fsdp", "fsdp": {"shard_group": "node"})",
      R"(, "strategy": "zero", "zero": {"stage": 1})", R"(, "collective": {"algorithm": "tree"})"};
  for (std::uint64_t seed = 1; seed <= rounds(300); ++seed) {
    Dice dice(seed);
    const std::string cluster = std::string(R"({"node": ")") + kNodes[dice.below(kNodes.size())] +
                                R"(", "nodes": )" + std::to_string(dice.between(1, 6)) +
                                R"(, "gpus_per_node": )" +
                                std::to_string(std::array{2, 4, 8}[dice.below(3)]) + R"(, "fabric": )" +
                                kFabrics[dice.below(kFabrics.size())] + "}";
    const std::string training = kTrainings[dice.below(kTrainings.size())];
    INFO("seed " << seed << ": " << cluster << training);
    const Prediction p = prediction_of(scenario(cluster, dice.between(1'000, 10'000'000), training));
    const LinkTraffic traffic = link_traffic(p);
    std::vector<double> kept(p.topology->devices());
    for (std::size_t i = 0; i < traffic.bytes.size(); ++i) {
      kept[p.topology->link(LinkId(i)).to.index()] += traffic.bytes[i];
      kept[p.topology->link(LinkId(i)).from.index()] -= traffic.bytes[i];
    }
    for (std::uint32_t g = 0; g < p.job.communicator.graphs.size(); ++g) {
      const CollectiveGraph& graph = p.job.communicator.graphs[g];
      const std::vector<double> shares = shares_of_fifos(graph);
      for (std::size_t f = 0; f < shares.size(); ++f) {
        const double bytes = shares[f] * bytes_on(p.job, g);
        const ThreadBlock &from = graph.thread_blocks[graph.fifos[f].from],
                          &to = graph.thread_blocks[graph.fifos[f].to];
        if (graph.fifos[f].wire != Wire::inside) {
          kept[device_of(p, to, from)] -= bytes;
          kept[device_of(p, from, to)] += bytes;
        }
      }
    }
    const double all = std::accumulate(traffic.bytes.begin(), traffic.bytes.end(), 0.0);
    CHECK(all > 0);
    for (std::size_t d = 0; d < kept.size(); ++d) {
      INFO(p.topology->device_name(DeviceId(d)));
      CHECK(std::abs(kept[d]) <= 1e-9 * all);
    }
  }
}

}  // namespace paceline
