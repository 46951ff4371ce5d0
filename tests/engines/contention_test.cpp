// Shared links in the event engine: the flow network must change nothing where nothing competes, and share
// where something does.
#include <catch2/catch.hpp>

#include "random_job.h"
#include "sim/collective/pricing.h"
#include "sim/engine/simulate.h"
#include "tests/ddp_job.h"

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

// On each channel a switch that reduces serves another head first.
void take_turns(CollectiveGraph& graph) {
  for (ThreadBlock& thread_block : graph.thread_blocks) {
    if (thread_block.rank != ThreadBlock::kSwitch) {
      continue;
    }
    Script turned = graph.scripts[thread_block.script];
    const auto heads = static_cast<std::uint32_t>(turned.steps.size());
    for (Step& step : turned.steps) {
      Ports& head = step.receive.count == 1 ? step.receive : step.send;
      head.first = static_cast<std::uint16_t>((head.first + thread_block.channel) % heads);
    }
    thread_block.script = static_cast<std::uint32_t>(graph.scripts.size());
    graph.scripts.push_back(std::move(turned));
  }
}

// Sends every FIFO's flows through the flow network over all links of their routes, at the links' full
// capacities.
void share_everything(const Topology& topology, Communicator& communicator, bool in_turn = false) {
  for (std::size_t l = 0; l < topology.links(); ++l) {
    communicator.shared_capacity.push_back(topology.link(LinkId(l)).bandwidth);
  }
  GraphList shared;
  for (std::size_t g = 0; g < communicator.graphs.size(); ++g) {
    CollectiveGraph graph = communicator.graphs[g];
    for (std::uint32_t f = 0; f < graph.fifos.size(); ++f) {
      const Route route = route_of(graph, graph.fifos[f], topology, topology.kinds());
      if (route.size > 0) {
        graph.shared.push_back({f, {route.begin(), route.end()}});
      }
    }
    if (in_turn) {
      take_turns(graph);
    }
    shared.push_back(std::move(graph));
  }
  communicator.graphs = std::move(shared);
}

RunSpec two_iterations() {
  RunSpec run;
  run.iterations = 2;
  return run;
}

TEST_CASE("max-min sharing never binds among the hops of a ring") {
  // A hop's rate is its share of its links' bandwidth, so that even if all are live at once they fit; this is
  // what lets the vector engine ignore the links. Here the event engine checks it with every flow in the flow
  // network.
  Dice dice(21);
  for (const char* node : {"dgx-a100", "dgx1-v100", "pcie-a100"}) {
    for (int nodes = 1; nodes <= (kSanitized ? 1 : 4); nodes += 3) {
      const Topology topology = build_topology(cluster(node, nodes));
      TrainingSpec training;
      VariabilitySpec jitter;
      jitter.per_operation = {DistributionKind::lognormal, 0.3, {}};
      const Model model = random_model(dice);
      training.collective.algorithm = "ring";
      training.collective.protocol = "simple";
      training.ddp.broadcast_buffers = false;  // a chain, which fills and drains
      training.collective.costs = {{"simple.slice_overhead", 0}};
      CollectivePlanner planner = nccl_planner(topology, training.collective, {});
      const TrainingJob free = ddp_job(model, gpu_preset("A100-80GB"), training, jitter, planner);
      TrainingJob shared = free;
      share_everything(topology, shared.communicator);
      INFO(node << " x " << nodes);
      CHECK(run_event_engine(shared, two_iterations()).fingerprint ==
            run_vector_engine(free, two_iterations()).fingerprint);
    }
  }
}

// One collective that costs nothing but bytes over links.
TrainingJob bytes_alone(const Topology& topology, const char* algorithm, Bytes bytes, int channels) {
  CollectiveSpec spec;
  spec.algorithm = algorithm;
  spec.protocol = "simple";
  spec.min_channels = spec.max_channels = channels;
  spec.costs = {{"simple.startup", 0},         {"simple.nvlink.latency", 0},
                {"simple.network.latency", 0}, {"simple.pcie.latency", 0},
                {"simple.slice_overhead", 0},  {"nvls.startup", 0},
                {"nvls.latency", 0},           {"nvls.slice_overhead", 0},
                {"nvls.efficiency", 1},        {"nvls.tree_efficiency", 1},
                {"network.efficiency", 1},     {"network.slice_overhead", 0},
                {"network.fifo_startup", 0},   {"network.channel_overhead", 0},
                {"network.channel_rate", 0},   {"tree.simple.efficiency", 1e6},
                {"launch.latency", 0},         {"block.copy_rate", 1e15}};
  CollectivePlanner planner = nccl_planner(topology, spec, {});
  TrainingJob job;
  job.plans = {planner.plan(CollectiveKind::all_reduce, bytes)};
  job.communicator = planner.communicator();
  for (HopCost& hop : job.plans[0].hops) {
    hop.latency = hop.hidden = {};
  }
  job.main().steady.collectives = {0};
  job.main().steady.ops = {{OpKind::collective, 0, {}, {}, "all_reduce"}, {OpKind::wait, 0, {}, {}, "wait"}};
  job.main().warm_up = job.main().steady;
  return job;
}

double seconds_of(const TrainingJob& job, bool shared) {
  RunSpec run;
  run.iterations = 1;
  const Result result = shared ? run_event_engine(job, run) : run_vector_engine(job, run);
  return static_cast<double>(result.iteration_end[0].ps) * 1e-12;
}

TEST_CASE("trees fill, share and drain as max-min sharing of their links has it") {
  // The oracle: every FIFO may take a whole link, and the flow network shares the links anew whenever one begins
  // or ends.
  const auto ratio = [](const ClusterSpec& cluster, const char* algorithm, Bytes bytes, int channels,
                        bool in_turn = false) {
    const Topology topology = build_topology(cluster);
    const TrainingJob paced = bytes_alone(topology, algorithm, bytes, channels);
    TrainingJob shared = paced;
    CollectivePlan& plan = shared.plans[0];
    for (std::size_t h = 0; h < plan.hops.size(); ++h) {
      plan.hops[h].rate = shared.communicator.graphs[plan.graph].hops[h].alone;
    }
    plan.paced.clear();
    share_everything(topology, shared.communicator, in_turn);
    return seconds_of(paced, false) / seconds_of(shared, true);
  };
  constexpr std::int64_t kMiB = 1 << 20;
  ClusterSpec one_gpu;
  one_gpu.node = node_preset("dgx-h100");
  one_gpu.node.gpus = one_gpu.node.nics = one_gpu.node.pcie_switches = one_gpu.node.sockets = 1;
  one_gpu.node.wiring = NvlinkWiring::none;
  one_gpu.node.nic_bandwidth = BytesPerSecond(10e9);
  for (const int nodes : {2, 4, 8, 16}) {
    one_gpu.nodes = nodes;
    for (const std::int64_t mebibytes : {1, 4, 8, 64, 1024}) {
      if (mebibytes * nodes <= (kSanitized ? 512 : 16'384)) {
        CAPTURE(nodes, mebibytes);
        const double tree = ratio(one_gpu, "tree", Bytes(mebibytes * kMiB), 2);
        CHECK(tree == Approx(1).margin(0.05));
      }
    }
  }
  // Heads take their blocks from the switch side by side. Its script has them one after the other: in the same turn on
  // every channel all crowd one GPU's link, each channel in its own turn no NIC is crowded. The truth lies between.
  ClusterSpec nvls;
  nvls.node = node_preset("dgx-h100");
  for (const int nodes : {2, 4, 8}) {
    nvls.nodes = nodes;
    for (const std::int64_t mebibytes : {1, 4, 16, 64}) {
      if (mebibytes * nodes <= (kSanitized ? 8 : 256)) {
        CAPTURE(nodes, mebibytes);
        const Bytes bytes(mebibytes * kMiB);
        const double crowded = ratio(nvls, "nvls_tree", bytes, 8);
        CHECK(crowded < 1);
        CHECK(ratio(nvls, "nvls_tree", bytes, 8, true) > 1);
        if (nodes > 2 && mebibytes >= 16) {
          CHECK(crowded > 0.95);
        }
      }
    }
  }
}

TEST_CASE("background traffic takes its fair share of a NIC") {
  // Two nodes with one GPU and one 100 Gb/s NIC each; the ring's two hops use the NICs' two directions. A
  // background flow of 100 Gb/s from node 0 to node 1 halves the hop in its direction, so each of the two
  // steps of the all-reduce takes twice its occupancy there: rank 0 sends chunk 0 in 2t, rank 1 in t; step 1
  // of rank 1 waits for rank 0's chunk. All in all 4t + 2l on the slow side (2t for each of rank 0's two
  // chunks, the second beginning when its first has left, as rank 1's arrived long ago), and the last chunk
  // arrives at 4t + l, after which rank 1 copies it.
  ClusterSpec spec;
  spec.node = node_preset("dgx-h100");
  spec.node.gpus = spec.node.nics = spec.node.pcie_switches = spec.node.sockets = 1;
  spec.node.wiring = NvlinkWiring::none;
  spec.node.nic_bandwidth = BytesPerSecond(12.5e9);
  spec.nodes = 2;
  const Topology topology = build_topology(spec);
  const std::vector<BackgroundFlow> background{{0, 1, BytesPerSecond(12.5e9)}};
  CollectiveSpec collective;
  collective.algorithm = "ring";
  collective.protocol = "simple";
  collective.min_channels = collective.max_channels = 1;
  CollectivePlanner planner = nccl_planner(topology, collective, background);
  TrainingJob job;
  job.plans = {planner.plan(CollectiveKind::all_reduce, Bytes(25'000'000))};
  job.communicator = planner.communicator();
  REQUIRE(job.communicator.graphs[0].shared.size() == 1);
  REQUIRE(job.communicator.graphs[0].channels == 1);
  CollectivePlan& plan = job.plans[0];
  plan.loops = {{1, Bytes(12'500'000)}};
  plan.startup = {};
  for (HopCost& hop : plan.hops) {
    hop.rate = BytesPerSecond(12.5e9);
  }
  job.main().steady.collectives = {0};
  job.main().steady.ops = {{OpKind::collective, 0, {}, {}, "all_reduce"}, {OpKind::wait, 0, {}, {}, "wait"}};
  job.main().warm_up = job.main().steady;
  const SimTime t{1'000'000'000};
  const SimTime latency = plan.hops[0].latency, copy = to_sim_time(plan.loops[0].chunk / plan.copy_rate);
  CHECK(run_event_engine(job, two_iterations()).iteration_end[0] == 4 * t + latency + copy);

  RunSpec run = two_iterations();
  CHECK(simulate(job, run).engine == EngineKind::event);
  run.engine = EngineChoice::vector;
  CHECK_THROWS_WITH(simulate(job, run), Catch::Contains("other traffic"));
}

TEST_CASE("background traffic never makes a step faster than none") {
  // A flow is capped at its hop's rate, so every transfer takes at least as long; times are maxima of sums.
  const Topology topology = build_topology(cluster("dgx-a100", 4));
  Dice dice(9);
  const Model model = random_model(dice);
  const auto last_end = [&](const std::vector<BackgroundFlow>& background) {
    const TrainingSpec training;
    CollectivePlanner planner = nccl_planner(topology, training.collective, background);
    const TrainingJob job = ddp_job(model, gpu_preset("A100-80GB"), training, {}, planner);
    return run_event_engine(job, two_iterations()).iteration_end.back();
  };
  const SimTime alone = last_end({});
  std::vector<BackgroundFlow> background;
  for (int flows = 0; flows < 4; ++flows) {
    background.push_back({flows, 8 + flows, BytesPerSecond(20e9)});
    CHECK(last_end(background) >= alone);
  }
}

TEST_CASE("the nodes of other jobs carry traffic, but no ranks") {
  ClusterSpec spec = cluster("dgx-a100", 8);
  spec.job_nodes = 4;
  const Topology shared = build_topology(spec);
  CHECK(shared.ranks() == 32);
  const auto last_end = [&](const std::vector<BackgroundFlow>& background) {
    CollectivePlanner planner = nccl_planner(shared, {}, background);
    TrainingJob job;
    job.plans = {planner.plan(CollectiveKind::all_reduce, Bytes(64 << 20))};
    job.communicator = planner.communicator();
    job.main().steady.collectives = {0};
    job.main().steady.ops = {{OpKind::collective, 0, {}, {}, "all_reduce"},
                             {OpKind::wait, 0, {}, {}, "wait"}};
    job.main().warm_up = job.main().steady;
    return run_event_engine(job, two_iterations()).iteration_end.back();
  };
  // Between the leaves both jobs use the same cables (striped, 2:1 oversubscribed).
  std::vector<BackgroundFlow> neighbour;
  for (int node = 4; node < 8; ++node) {
    for (int nic = 0; nic < 8; ++nic) {
      neighbour.push_back({8 * node + nic, 8 * (4 + (node + 1) % 4) + nic, BytesPerSecond(25e9), nic});
    }
  }
  CHECK(last_end(neighbour) > last_end({}));
}

}  // namespace
}  // namespace paceline
