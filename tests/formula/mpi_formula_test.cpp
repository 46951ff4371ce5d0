// Does OpenMPI's ring on plain hosts equal its closed form?
//
// n hosts with equal links of bandwidth B and latency l, blocks of s = ceil(S / n) bytes. A rank sends block
// k + 1 when block k has arrived and is reduced, and all do so together; so each of the n-1 steps of the
// first half takes a + s / B + s / R, each of the second a + s / B, with a the message's latency and the
// links', and R the rate of a reduction: T = startup + 2 (n-1) (a + s / B) + (n-1) s / R. Above 64 KiB a
// block takes the rendezvous longer. With more than two hosts a link also carries the acknowledgements of what comes
// in, a share of it: 1 / B is so much more. Every s / B and every a + s / R is rounded to a picosecond once.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "scenarios/scenario.h"
#include "sim/collective/host_collectives.h"
#include "sim/engine/simulate.h"
#include "sim/report/collective_cost.h"
#include "tests/ddp_job.h"
#include "tests/plain_hosts.h"
#include "topology/topology.h"

namespace paceline {
namespace {

using namespace units;

constexpr double kRate = 12.5e6, kEfficiency = 0.95, kAcknowledgements = 0.02, kReduceRate = 2e9;
constexpr Seconds kStartup = 3.0_us, kMessage = 40.0_us, kRendezvous = 150.0_us, kNic = 2.0_us,
                  kPcie = 0.25_us;

ClusterSpec hosts(int nodes) { return plain_hosts(nodes, BytesPerSecond(kRate), kNic, kPcie); }

CollectiveSpec mpi() {
  CollectiveSpec spec;
  spec.library = CollectiveLibrary::mpi;
  spec.costs = {{"mpi.startup", kStartup.value},
                {"mpi.network.latency", kMessage.value},
                {"mpi.rendezvous", kRendezvous.value},
                {"mpi.reduce_rate", kReduceRate},
                {"tcp.acknowledgements", kAcknowledgements},
                {"network.efficiency", kEfficiency}};
  return spec;
}

SimTime time_of(const ClusterSpec& cluster, CollectiveKind kind, Bytes bytes) {
  const Topology topology = build_topology(cluster);
  CollectivePlanner planner = collective_planner(topology, {.collective = mpi()});
  const std::vector<Bytes> sizes{bytes};
  return cost_collectives(planner, kind, sizes, false).front().time;
}

// GPU, PCIe switch, NIC, leaf, and down again.
constexpr double kLinks = 2 * (2 * kPcie.value + kNic.value);

TEST_CASE("OpenMPI's ring all-reduce on equal hosts takes its closed form") {
  for (const int n : {2, 3, 4, 7, 16}) {
    for (const std::int64_t bytes : {64LL, 4096LL, 100'001LL, 1LL << 20, 16LL << 20}) {
      CAPTURE(n, bytes);
      const double block = static_cast<double>((bytes + n - 1) / n);
      const double wire = block / (kRate * kEfficiency) * (n > 2 ? 1 + kAcknowledgements : 1);
      const SimTime stay = to_sim_time(Seconds(wire + (block > 65536 - 64 ? kRendezvous.value : 0)));
      const SimTime reduced = to_sim_time(Seconds(kMessage.value + kLinks + block / kReduceRate));
      const SimTime passed = to_sim_time(Seconds(kMessage.value + kLinks));
      const std::int64_t expected =
          to_sim_time(kStartup).ps + (n - 1) * (stay.ps + reduced.ps) + (n - 1) * (stay.ps + passed.ps);
      // each of the six roundings may differ by one, where the sums were taken in another order
      CHECK(std::abs(time_of(hosts(n), CollectiveKind::all_reduce, Bytes(bytes)).ps - expected) <= 4 * n);
    }
  }
}

// Where n is no power of two, the ranks that are left over give their data to a neighbour first: one exchange
// more. They get the sum back while the others do their last exchange, unless all that their neighbour
// exchanges with begin late too, as with 7 ranks.
TEST_CASE("fewer elements than ranks take one exchange for each doubling") {
  struct RingCase {
    int ranks, exchanges;
    bool back;
  };
  for (const RingCase& c :
       {RingCase{2, 1, false}, RingCase{3, 2, false}, RingCase{4, 2, false}, RingCase{5, 3, false},
        RingCase{7, 3, true}, RingCase{8, 3, false}, RingCase{12, 4, false}}) {
    CAPTURE(c.ranks);
    ClusterSpec cluster = hosts(c.ranks);
    cluster.node.nic_bandwidth = cluster.node.pcie_bandwidth = BytesPerSecond(1e15);  // latencies alone count
    const double hop = kMessage.value + kLinks;
    const double expected = kStartup.value + c.exchanges * (hop + 4 / kReduceRate) + (c.back ? hop : 0);
    CHECK(to_seconds(time_of(cluster, CollectiveKind::all_reduce, Bytes(4))).value ==
          Approx(expected).epsilon(1e-6));
  }
}

TEST_CASE("a slow link holds up every step of the ring, but no step twice") {
  const int n = 6;
  const std::int64_t bytes = 6LL << 16;
  ClusterSpec cluster = hosts(n);
  cluster.degraded.push_back({"node2/nic0", "leaf0", 0.5, {}});
  // The slow host sends 2 (n-1) blocks one after the other, which is the least; the most is a ring of slow
  // links alone.
  const double block = 65536, wire = block / (kRate * kEfficiency);
  const double healthy = to_seconds(time_of(hosts(n), CollectiveKind::all_reduce, Bytes(bytes))).value;
  const double slow = to_seconds(time_of(cluster, CollectiveKind::all_reduce, Bytes(bytes))).value;
  CHECK(slow >= 2 * (n - 1) * 2 * wire);
  CHECK(slow <= healthy + 2 * (n - 1) * (wire + kRendezvous.value));
}

TEST_CASE("with MPI both engines agree on a training step") {
  const Topology topology = build_topology(hosts(5));
  const Model model = builtin_model("resnet18");
  TrainingSpec training;
  training.collective = mpi();
  VariabilitySpec variability;
  variability.per_operation = {DistributionKind::lognormal, 0.2, {}};
  std::vector<SimTime> ends[2];
  for (const EngineChoice engine : {EngineChoice::event, EngineChoice::vector}) {
    CollectivePlanner planner = collective_planner(topology, {.collective = training.collective});
    const TrainingJob job = ddp_job(model, gpu_preset("V100-16GB"), training, variability, planner);
    const RunSpec run{.iterations = 3, .seed = 5, .engine = engine};
    ends[engine == EngineChoice::vector ? 1 : 0] = simulate(job, run).iteration_end;
  }
  REQUIRE(ends[0].size() == 4);
  CHECK(ends[0] == ends[1]);
}

TEST_CASE("MPI's planner refuses what it does not simulate") {
  CHECK_THROWS_AS(time_of(hosts(2), CollectiveKind::all_to_all, Bytes(64)), InputError);
  CHECK_THROWS_AS(time_of(hosts(2), CollectiveKind::reduce, Bytes(64)), InputError);
  CHECK(time_of(hosts(1), CollectiveKind::all_reduce, Bytes(64)) == SimTime{});
}

}  // namespace
}  // namespace paceline
