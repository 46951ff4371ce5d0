// Messages between members on devices of a cluster, beside each other on its links.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/strategy/message_routes.h"
#include "tests/error_of.h"

namespace paceline {
namespace {

constexpr SimTime kCompute{1'000'000'000};

ClusterSpec nodes_of(const char* node, int nodes) {
  ClusterSpec cluster;
  cluster.node = node_preset(node);
  cluster.nodes = nodes;
  return cluster;
}

// One worker per node, on its first GPU; a server on a CPU of the last node. Each worker sends it `bytes` when it
// has computed, and goes on when it has an answer, which is empty.
TrainingJob one_server(const Topology& topology, std::uint32_t workers, Bytes bytes) {
  TrainingJob job;
  job.communicator.ranks = workers;
  const std::vector<Op> ops{{.kind = OpKind::kernel, .duration = kCompute},
                            {.kind = OpKind::send, .index = 0, .to = 0, .bytes = bytes},
                            {.kind = OpKind::gate, .index = 0}};
  job.main() = {{ops, {}}, {ops, {}}};
  std::vector<MessagePair> pairs;
  for (std::uint32_t w = 0; w < workers; ++w) {
    job.members.push_back({0, topology.device_named("node" + std::to_string(w) + "/gpu0")});
    pairs.insert(pairs.end(), {{w, workers}, {workers, w}});
  }
  job.members.push_back({0, topology.device_named("node" + std::to_string(workers) + "/cpu0")});
  job.families = {{{{workers}}, std::vector<std::uint32_t>(workers, 0)}};
  job.serving.shards = {{.server = workers}};
  job.serving.workers = job.serving.quorum = workers;
  add_message_routes(topology, pairs, job);
  return job;
}

const MessageRoute& route_of(const TrainingJob& job, std::uint32_t from, std::uint32_t to) {
  return *std::ranges::find_if(
      job.routes, [&](const MessageRoute& route) { return route.from == from && route.to == to; });
}

// All send at once over the server's link: each has 1/n of the narrowest one that all cross, and the last bit comes
// after n * bytes / rate, as if they had gone one after the other.
TEST_CASE("incast: n messages into one server take n times as long as one") {
  for (const char* node : {"dgx-a100", "dgx-h100", "dgx1-v100"}) {
    for (const std::uint32_t workers : {1U, 2U, 5U, 16U}) {
      INFO(node << ", " << workers << " workers");
      const Topology topology = build_topology(nodes_of(node, static_cast<int>(workers) + 1));
      const Bytes bytes(100'000'000);
      const TrainingJob job = one_server(topology, workers, bytes);
      RunSpec run;
      run.iterations = 3;
      const Result result = simulate(job, run);
      CHECK(result.engine == EngineKind::event);
      const MessageRoute &there = route_of(job, 0, workers), &back = route_of(job, workers, 0);
      const Seconds sent(static_cast<double>(bytes.value) * workers / there.rate.value);
      const SimTime step = kCompute + to_sim_time(sent) + there.latency + back.latency;
      for (std::size_t i = 1; i < result.iteration_end.size(); ++i) {
        const SimTime taken = result.iteration_end[i] - result.iteration_end[i - 1];
        CHECK(std::abs((taken - step).ps) <= 1);
      }
    }
  }
}

TEST_CASE("a message without a route, and a gate that nobody opens, are told") {
  const Topology topology = build_topology(nodes_of("dgx-a100", 3));
  TrainingJob job = one_server(topology, 2, Bytes(1000));
  TrainingJob shut = job;
  shut.main().steady.ops.back().quorum = shut.main().warm_up.ops.back().quorum = 3;
  CHECK(error_of([&] { simulate(shut, {}); }).find("all wait for each other") != std::string::npos);
  job.routes.pop_back();
  CHECK(error_of([&] { simulate(job, {}); }).find("route") != std::string::npos);
}

}  // namespace
}  // namespace paceline
