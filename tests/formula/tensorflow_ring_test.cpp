// Does TensorFlow's own ring (CommunicationImplementation.RING) equal its closed form?
//
// n nodes of one GPU, equal links of bandwidth B and latency l. S bytes are n chunks of s = ceil(S / n) bytes, rounded up
// to lines of 64. A chunk goes on as soon as it is reduced; on its way it is copied to the host, sent, and copied to the
// GPU, one after the other, while other chunks are in other places. All GPUs do so together, so each of the n - 1 steps of
// the first pass takes s / B + a + 2 s / C + s / R, each of the second one s / B + a + 2 s / C, with a the call's latency
// and the links', C the rate of a copy, R of a reduction. With more than two nodes acknowledgements of what comes in take
// a share of B.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "sim/collective/host_collectives.h"
#include "sim/report/collective_cost.h"
#include "tests/error_of.h"
#include "tests/plain_hosts.h"
#include "topology/topology.h"

namespace paceline {
namespace {

using namespace units;

constexpr double kLinkRate = 3e9, kPayload = 0.95, kTcpAcks = 0.02, kReduced = 250e9, kCopied = 11e9;
constexpr Seconds kBegins = 60.0_us, kCall = 90.0_us, kLocal = 15.0_us, kCard = 2.0_us, kSlot = 0.25_us;

CollectiveSpec own_ring() {
  CollectiveSpec spec;
  spec.library = CollectiveLibrary::tensorflow;
  spec.costs = {{"tensorflow.startup", kBegins.value},     {"tensorflow.network.latency", kCall.value},
                {"tensorflow.pcie.latency", kLocal.value}, {"tensorflow.reduce_rate", kReduced},
                {"tensorflow.copy_rate", kCopied},         {"tcp.acknowledgements", kTcpAcks},
                {"network.efficiency", kPayload}};
  return spec;
}

TEST_CASE("TensorFlow's ring on equal nodes takes its closed form") {
  for (const int n : {2, 3, 4, 7, 16}) {
    for (const std::int64_t bytes : {4LL, 4096LL, 100'001LL, 1LL << 20, 64LL << 20}) {
      CAPTURE(n, bytes);
      const Topology topology = build_topology(plain_hosts(n, BytesPerSecond(kLinkRate), kCard, kSlot));
      CollectivePlanner planner = collective_planner(topology, {.collective = own_ring()});
      const std::vector<Bytes> sizes{Bytes(bytes)};
      const SimTime took = cost_collectives(planner, CollectiveKind::all_reduce, sizes, false).front().time;
      const double chunk = static_cast<double>(((bytes + n - 1) / n + 63) / 64 * 64);
      const SimTime stay = to_sim_time(Seconds(chunk / (kLinkRate * kPayload) * (n > 2 ? 1 + kTcpAcks : 1)));
      const double links =
          2 * (2 * kSlot.value + kCard.value);  // GPU, PCIe switch, NIC, leaf, and down again
      const double passed = kCall.value + links + 2 * chunk / kCopied;
      const SimTime reducing = to_sim_time(Seconds(passed + chunk / kReduced));
      const std::int64_t expected =
          to_sim_time(kBegins).ps + (n - 1) * (2 * stay.ps + reducing.ps + to_sim_time(Seconds(passed)).ps);
      CHECK(std::abs(took.ps - expected) <= 4 * n);  // each of the roundings may differ by one
    }
  }
}

TEST_CASE("TensorFlow's ring copies to hosts between nodes alone") {
  ClusterSpec cluster;
  cluster.node = node_preset("pcie-a100");
  cluster.gpus_per_node = 4;
  cluster.nodes = 2;
  const Topology topology = build_topology(cluster);
  CollectivePlanner planner = collective_planner(topology, {.collective = own_ring()});
  const Bytes bytes(8 << 20);
  const CollectivePlan plan = planner.plan(CollectiveKind::all_reduce, bytes);
  const CollectiveGraph& graph = planner.communicator().graphs[plan.graph];
  CHECK(plan.algorithm == Algorithm::tensorflow_ring);
  CHECK(plan.slots == 0);
  int between = 0, inside = 0;
  for (const Fifo& fifo : graph.fifos) {
    const Hop& hop = graph.hops[fifo.hop];
    const bool network = hop.kind == HopKind::network;
    const bool reduces = fifo.hop >= graph.hops.size() / 2;
    const double chunk = 1 << 20;
    const double expected = (network ? kCall.value + 2 * chunk / kCopied : kLocal.value) + hop.latency.value +
                            (reduces ? chunk / kReduced : 0);
    CHECK(to_seconds(plan.hops[fifo.hop].latency).value == Approx(expected).epsilon(1e-9));
    ++(network ? between : inside);
  }
  CHECK(between == 4);  // two passes, there and back
  CHECK(inside == 12);
  CHECK(error_of([&] { planner.plan(CollectiveKind::broadcast, bytes); }) ==
        "expected all_reduce with TensorFlow's ring, found a collective that isn't simulated of it");
}

}  // namespace
}  // namespace paceline
