// Shared links in the event engine: the flow network must change nothing where nothing competes, and share
// where something does.
#include <catch2/catch.hpp>

#include "random_job.h"
#include "sim/engine/simulate.h"

namespace paceline {
namespace {

ClusterSpec cluster(const char* node, int nodes) {
  ClusterSpec spec;
  spec.node = node_preset(node);
  spec.nodes = nodes;
  spec.fabric.kind = FabricKind::leaf_spine;
  spec.fabric.nodes_per_leaf = 2;
  spec.fabric.oversubscription = 2;
  spec.fabric.placement = Placement::striped;
  return spec;
}

// Sends every hop's flows through the flow network over all links of their routes, at the links' full
// capacities.
Communicator everything_shared(const Topology& topology, Communicator wires) {
  for (std::size_t l = 0; l < topology.links(); ++l) {
    wires.shared_capacity.push_back(topology.link(LinkId(l)).bandwidth);
  }
  for (std::uint32_t c = 0; c < wires.channels.size(); ++c) {
    const std::vector<Rank>& order = wires.channels[c].order;
    for (std::uint32_t p = 0; p < order.size(); ++p) {
      const Route route = topology.route(order[p], order[(p + 1) % order.size()], static_cast<int>(c));
      wires.shared_hops.push_back({c, p, {route.begin(), route.end()}});
    }
  }
  return wires;
}

RunSpec two_iterations() {
  RunSpec run;
  run.iterations = 2;
  return run;
}

TEST_CASE("max-min sharing never binds among the hops of one communicator") {
  // A hop's rate is its links' bandwidth over the hops that cross them, so that even if all are live at once
  // they fit; this is what lets the vector engine ignore the links. Here the event engine checks it with
  // every flow in the flow network.
  Dice dice(21);
  for (const char* node : {"dgx-a100", "dgx1-v100", "pcie-a100"}) {
    for (int nodes = 1; nodes <= 4; nodes += 3) {
      const Topology topology = build_topology(cluster(node, nodes));
      const TrainingSpec training;
      const Communicator wires = make_communicator(topology, training.collective, {});
      VariabilitySpec jitter;
      jitter.per_operation = {DistributionKind::lognormal, 0.3, {}};
      const Model model = random_model(dice);
      const TrainingJob free = build_ddp_job(model, gpu_preset("A100-80GB"), training, jitter, wires);
      const TrainingJob shared =
          build_ddp_job(model, gpu_preset("A100-80GB"), training, jitter, everything_shared(topology, wires));
      INFO(node << " x " << nodes);
      CHECK(run_event_engine(shared, two_iterations()).fingerprint ==
            run_vector_engine(free, two_iterations()).fingerprint);
    }
  }
}

TEST_CASE("background traffic takes its fair share of a NIC") {
  // Two nodes with one GPU and one 100 Gb/s NIC each; the ring's two hops use the NICs' two directions. A
  // background flow of 100 Gb/s from node 0 to node 1 halves the hop in its direction, so each of the two
  // steps of the all-reduce takes twice its occupancy there: rank 0 sends chunk 0 in 2t, rank 1 in t; step 1
  // of rank 1 waits for rank 0's chunk. All in all 4t + 2l on the slow side (2t for each of rank 0's two
  // chunks, the second beginning when its first has left, as rank 1's arrived long ago), and the last chunk
  // arrives at 4t + l.
  ClusterSpec spec;
  spec.node = node_preset("dgx-h100");
  spec.node.gpus = spec.node.nics = spec.node.pcie_switches = spec.node.sockets = 1;
  spec.node.wiring = NvlinkWiring::none;
  spec.node.nic_bandwidth = BytesPerSecond(12.5e9);
  spec.nodes = 2;
  const Topology topology = build_topology(spec);
  const std::vector<BackgroundFlow> background{{0, 1, BytesPerSecond(12.5e9)}};
  TrainingJob job;
  job.communicator = make_communicator(topology, {}, background);
  CHECK(job.communicator.shared_hops.size() == 1);
  job.plans = {plan_all_reduce(Bytes(25'000'000), 2, 1)};
  job.steady.collectives = {0};
  job.steady.ops = {{OpKind::collective, 0, {}, {}, "all_reduce"}, {OpKind::wait, 0, {}, {}, "wait"}};
  job.warm_up = job.steady;
  const SimTime t = occupancy(job.plans[0].chunk, {BytesPerSecond(12.5e9), {}});
  const SimTime latency = job.communicator.classes[0].latency;
  CHECK(t == SimTime{1'000'000'000});
  CHECK(run_event_engine(job, two_iterations()).iteration_end[0] == 4 * t + latency);

  RunSpec run = two_iterations();
  CHECK(simulate(job, run).engine == EngineKind::event);
  run.engine = EngineChoice::vector;
  CHECK_THROWS_WITH(simulate(job, run), Catch::Contains("background traffic"));
}

TEST_CASE("background traffic that meets no ring leaves the vector engine exact") {
  ClusterSpec spec = cluster("dgx1-v100", 2);
  const Topology topology = build_topology(spec);
  // GPUs 0 and 5 are not neighbours: the way leads over an NVLink that rings use; a flow on no ring's link
  // needs a direction that none takes, which the presets' rings don't leave. So compare with no traffic at
  // all.
  CHECK(make_communicator(topology, {}, {}).background.empty());
  CHECK_FALSE(make_communicator(topology, {}, std::vector<BackgroundFlow>{{0, 1, BytesPerSecond(1e9)}})
                  .background.empty());
}

TEST_CASE("more background traffic never makes a step faster") {
  const Topology topology = build_topology(cluster("dgx-a100", 4));
  Dice dice(9);
  const Model model = random_model(dice);
  SimTime previous;
  std::vector<BackgroundFlow> background;
  for (int flows = 0; flows < 5; ++flows) {
    const TrainingSpec training;
    const TrainingJob job = build_ddp_job(model, gpu_preset("A100-80GB"), training, {},
                                          make_communicator(topology, training.collective, background));
    const Result result = run_event_engine(job, two_iterations());
    CHECK(result.iteration_end.back() >= previous);
    previous = result.iteration_end.back();
    background.push_back({flows, 8 + flows, BytesPerSecond(20e9)});
  }
}

}  // namespace
}  // namespace paceline
