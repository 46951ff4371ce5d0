// Collectives of different queues on the same links: do they share them by hand-made figures, and is a job whose
// queues have links of their own left as it is?
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "same_result.h"
#include "scenarios/machines.h"
#include "scenarios/scenario.h"
#include "sim/collective/host_collectives.h"
#include "sim/engine/event_engine.h"
#include "sim/engine/simulate.h"
#include "sim/strategy/contention.h"
#include "sim/strategy/message_routes.h"
#include "tests/dice.h"
#include "tests/trace_of_first.h"

namespace paceline {
namespace {

constexpr BytesPerSecond kNicRate(12.5e9);

// Nodes of one GPU and one NIC.
ClusterSpec lone_gpus(int nodes) {
  ClusterSpec spec;
  spec.node = node_preset("dgx-h100");
  spec.node.gpus = spec.node.nics = spec.node.pcie_switches = spec.node.sockets = 1;
  spec.node.wiring = NvlinkWiring::none;
  spec.node.nic_bandwidth = kNicRate;
  spec.nodes = nodes;
  return spec;
}

struct OnQueue {
  std::uint32_t queue = 0;
  GroupShape groups;
  CollectiveKind kind = CollectiveKind::all_gather;
  Bytes bytes;
  SimTime before{};  // of a kernel that it comes after
};

// A kernel and a collective for each part, then the waits for them.
TrainingJob queued(CollectivePlanner& planner, const std::vector<OnQueue>& parts) {
  TrainingJob job;
  Program program;
  std::vector<GroupShape> families;
  for (const auto& [queue, groups, kind, bytes, before] : parts) {
    const auto number = static_cast<std::uint32_t>(program.collectives.size());
    CollectivePlan plan = planner.plan({kind, bytes, groups});
    if (groups != kAllRanks) {
      plan.family = static_cast<std::uint32_t>(std::ranges::find(families, groups) - families.begin());
      if (plan.family == families.size()) {
        families.push_back(groups);
        job.families.push_back(family_of(groups, planner.layout()));
      }
    }
    job.plans.push_back(plan);
    program.collectives.push_back(number);
    program.ops.push_back({.kind = OpKind::kernel, .duration = before});
    program.ops.push_back({.kind = OpKind::collective, .index = number, .queue = queue});
  }
  for (std::uint32_t i = 0; i < parts.size(); ++i) {
    program.ops.push_back({.kind = OpKind::wait, .index = i});
  }
  job.communicator = for_plans(planner.communicator(), job.plans);
  job.main() = {program, program};
  return job;
}

// One loop of a chunk over FIFOs of the NIC's rate; latencies stay.
void bare(CollectivePlan& plan, Bytes chunk) {
  plan.loops = {{1, chunk, {}}};
  plan.startup = {};
  plan.copy_shown = 1;
  for (HopCost& hop : plan.hops) {
    hop = {kNicRate, hop.latency, {}, {}};
  }
}

CollectiveSpec one_ring() {
  CollectiveSpec spec;
  spec.algorithm = "ring";
  spec.protocol = "simple";
  spec.min_channels = spec.max_channels = 1;
  return spec;
}

Result run_on(const TrainingJob& job, EngineChoice engine, int iterations = 2) {
  RunSpec run;
  run.iterations = iterations;
  run.engine = engine;
  return simulate(job, run, trace_of_first(static_cast<std::uint32_t>(job.ranks()), 1));
}

std::size_t shared_fifos(const TrainingJob& job) {
  std::size_t all = 0;
  for (std::size_t g = 0; g < job.communicator.graphs.size(); ++g) {
    all += job.communicator.graphs[g].shared.size();
  }
  return all;
}

// Whether these are the same graphs, not copies of them.
bool same_graphs(const TrainingJob& a, const TrainingJob& b) {
  for (std::size_t g = 0; g < a.communicator.graphs.size(); ++g) {
    if (&a.communicator.graphs[g] != &b.communicator.graphs[g]) {
      return false;
    }
  }
  return a.communicator.graphs.size() == b.communicator.graphs.size();
}

// Four nodes: shards are gathered by ranks 0 1 and 2 3, and reduced by ranks 0 2 and 1 3. In groups of two every rank
// sends one block, over its only NIC: c bytes of the gathering, d of the reduction, which starts s later. While both
// send, each has half of the NIC, B / 2. With c / B > s the gathering has c - s B left then, and has sent it at
// s + 2 (c / B - s); the reduction, if it has more, takes the NIC alone from there: both are through at (c + d) / B.
// The last byte arrives a latency later, and the receiver copies the block.
TEST_CASE("two families on two queues have half of a NIC each while both are live") {
  const Topology topology = build_topology(lone_gpus(4));
  constexpr SimTime kMicrosecond{1'000'000};
  for (const std::int64_t s : {0, 30, 60}) {
    CollectivePlanner planner = nccl_planner(topology, one_ring(), {});
    TrainingJob job =
        queued(planner, {{0, {2, 1}, CollectiveKind::all_gather, Bytes(2'500'000)},
                         {1, {2, 2}, CollectiveKind::reduce_scatter, Bytes(7'500'000), s * kMicrosecond}});
    bare(job.plans[0], Bytes(1'250'000));  // c / B = 100 us
    bare(job.plans[1], Bytes(3'750'000));  // d / B = 300 us
    const auto tail = [&](std::size_t p) {
      const CollectivePlan& plan = job.plans[p];
      return plan.hops[0].latency + to_sim_time(plan.loops[0].chunk / plan.copy_rate);
    };
    const auto ends = [&](EngineChoice engine, SimTime gathered, SimTime reduced) {
      CAPTURE(s);
      const Result result = run_on(job, engine);
      REQUIRE(result.trace.size() == 4);
      for (const TracedIteration& rank : result.trace) {
        CHECK(rank.ops[1].end == gathered + tail(0));
        CHECK(rank.ops[3].end == reduced + tail(1));
      }
    };
    ends(EngineChoice::vector, 100 * kMicrosecond, (s + 300) * kMicrosecond);  // as if each were alone
    share_links(topology, job);
    CHECK(job.communicator.graphs[0].shared.size() == 4);
    CHECK(job.communicator.graphs[1].shared.size() == 4);
    ends(EngineChoice::automatic, (s + 2 * (100 - s)) * kMicrosecond, 400 * kMicrosecond);
    CHECK(why_not_vector(job) ==
          "collectives of different queues share the links of 8 of their hops, so their rates change as the "
          "run goes");
    CHECK_THROWS_WITH(run_on(job, EngineChoice::vector), Catch::Contains("different queues"));
  }
}

TEST_CASE("hybrid sharding by node: NVLink for one queue, NICs for the other, nothing shared") {
  for (const char* node : {"dgx-h100", "dgx-a100", "dgx1-v100"}) {
    INFO(node);
    ClusterSpec spec;
    spec.node = node_preset(node);
    spec.nodes = 2;
    const Topology topology = build_topology(spec);
    CollectivePlanner planner = nccl_planner(topology, {}, {});
    const GroupShape in = gpus_of_each_node(planner.layout()),
                     across = same_gpu_of_every_node(planner.layout());
    const SimTime kernel{300'000'000};
    TrainingJob job = queued(planner, {{0, in, CollectiveKind::all_gather, Bytes(40 << 20), kernel},
                                       {0, in, CollectiveKind::reduce_scatter, Bytes(40 << 20), kernel},
                                       {1, across, CollectiveKind::all_reduce, Bytes(5 << 20), {}},
                                       {0, in, CollectiveKind::all_gather, Bytes(1 << 20), kernel}});
    job.variability.per_operation = {DistributionKind::lognormal, 0.2, {}};
    const TrainingJob before = job;
    share_links(topology, job);
    CHECK(same_graphs(job, before));
    CHECK(shared_fifos(job) == 0);
    CHECK(job.communicator.shared_links.empty());
    CHECK(job.communicator.shared_capacity.empty());
    const Result event = run_on(job, EngineChoice::event), chosen = run_on(job, EngineChoice::automatic);
    CHECK(chosen.engine == EngineKind::vector);
    CHECK(chosen.engine_reason == "no link is shared by competing flows, so it is exact");
    check_same_result(event, chosen);
  }
}

// A flow is capped at its plan's rate, and times are maxima of sums. Where a collective of one queue is over before
// the other queue's begins, the flow network must change nothing.
TEST_CASE("competing queues are never faster than alone, and as fast where they take turns") {
  Dice dice(14);
  constexpr CollectiveKind kKinds[] = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                       CollectiveKind::all_reduce};
  std::uint64_t slower = 0;
  for (std::uint64_t round = 0; round < rounds(40); ++round) {
    ClusterSpec spec;
    spec.node = node_preset(dice.maybe(0.5) ? "dgx-h100" : "dgx-a100");
    spec.nodes = 4;
    spec.gpus_per_node = dice.maybe(0.5) ? 2 : 4;
    const Topology topology = build_topology(spec);
    const auto gpus = static_cast<std::uint32_t>(spec.gpus_per_node);
    CollectiveSpec collective;
    collective.max_channels = static_cast<int>(dice.between(1, 2));
    const bool mpi = dice.maybe(0.3);
    collective.algorithm = mpi ? "" : "ring";  // rates of trees are those of ranks that keep step
    CollectivePlanner planner =
        mpi ? host_planner(topology, collective, {}) : nccl_planner(topology, collective, {});
    const bool in_turn = dice.maybe(0.5);
    std::vector<OnQueue> parts;
    for (int i = 0; i < 3; ++i) {
      const std::uint32_t queue = i % 2;
      parts.push_back({queue, queue == 0 ? GroupShape{2 * gpus, 1} : GroupShape{2, 2 * gpus},
                       dice.one_of(kKinds), Bytes(dice.between(1, 4'000'000)),
                       SimTime{in_turn ? 1'000'000'000'000 : dice.between(0, 100'000'000)}});
    }
    const TrainingJob alone = queued(planner, parts);
    TrainingJob job = alone;
    share_links(topology, job);
    INFO("round " << round);
    CHECK(shared_fifos(job) > 0);
    CHECK_FALSE(why_not_vector(alone));
    const Result free = run_on(alone, EngineChoice::vector), event = run_on(job, EngineChoice::automatic);
    CHECK(event.engine == EngineKind::event);
    RunSpec run;
    run.iterations = 2;
    EventEngine by_steps(job, run, {}, AlikeSteps::simulated, CollectiveEnds::by_steps);
    by_steps.run();
    CHECK(by_steps.finish().fingerprint == event.fingerprint);
    for (std::size_t i = 0; i < free.iteration_end.size(); ++i) {
      CHECK(event.iteration_end[i] >= free.iteration_end[i]);
    }
    if (in_turn) {
      CHECK(event.fingerprint == free.fingerprint);
    }
    slower += event.iteration_end > free.iteration_end ? 1 : 0;
  }
  CHECK(slower >= rounds(40) / 8);
}

TEST_CASE("with one queue a job stays as it is, beside others' traffic too") {
  const Topology topology = build_topology(lone_gpus(4));
  for (const bool traffic : {false, true}) {
    const std::vector<BackgroundFlow> background{{0, 1, kNicRate}};
    CollectivePlanner planner = nccl_planner(
        topology, one_ring(), traffic ? std::span(background) : std::span<const BackgroundFlow>{});
    const std::vector<OnQueue> parts{{0, {2, 1}, CollectiveKind::all_gather, Bytes(1'000'000)},
                                     {0, {2, 2}, CollectiveKind::all_reduce, Bytes(1'000'000)}};
    TrainingJob job = queued(planner, parts);
    const TrainingJob before = job;
    share_links(topology, job);
    CHECK(same_graphs(job, before));
    CHECK(shared_fifos(job) == (traffic ? 3 : 0));  // 0 to 1; 0 to 2 and 3 to 1 leave and arrive there
    CHECK(job.communicator.shared_links == before.communicator.shared_links);
    // A second queue adds its links to those of the traffic, which keep their numbers.
    std::vector<OnQueue> more = parts;
    more[1].queue = 1;
    TrainingJob both = queued(planner, more);
    share_links(topology, both);
    CHECK(shared_fifos(both) == 8);
    CHECK(both.communicator.background.size() == (traffic ? 1 : 0));
    const std::vector<LinkId>& links = both.communicator.shared_links;
    CHECK(std::ranges::equal(before.communicator.shared_links,
                             std::span(links).first(before.communicator.shared_links.size())));
    REQUIRE(links.size() == both.communicator.shared_capacity.size());
    for (std::size_t i = 0; i < links.size(); ++i) {
      CHECK(both.communicator.shared_capacity[i] == topology.link(links[i]).bandwidth);
    }
    const std::string why = why_not_vector(both).value();
    CHECK(why.starts_with(traffic ? "other traffic crosses 3 hops" : "collectives of different queues"));
  }
}

TEST_CASE("graphs that two roles run on one queue each are competed for unless both run the same ones") {
  const Topology topology = build_topology(lone_gpus(4));
  CollectivePlanner planner = nccl_planner(topology, one_ring(), {});
  TrainingJob job = queued(planner, {{0, {2, 1}, CollectiveKind::all_gather, Bytes(1'000'000)},
                                     {0, {2, 2}, CollectiveKind::all_reduce, Bytes(1'000'000)}});
  job.roles.push_back({"other rank", {job.main()}});
  share_links(topology, job);
  CHECK(shared_fifos(job) == 0);
  const auto only = [](Thread& thread, std::uint32_t plan) {
    const Program program{{{.kind = OpKind::collective}, {.kind = OpKind::wait}}, {plan}};
    thread = {program, program};
  };
  only(job.roles[0].threads.front(), 0);
  only(job.roles[1].threads.front(), 1);
  share_links(topology, job);
  CHECK(shared_fifos(job) == 8);
}

// Two nodes gather blocks of c bytes, and each sends m = c bytes to a host of a third: their NICs send both at half
// rate, and the host's takes a message from each, at half its rate. So all have left at 2 c / B.
TEST_CASE("messages and collectives share a NIC") {
  ClusterSpec spec = lone_gpus(3);
  spec.job_nodes = 2;
  const Topology topology = build_topology(spec);
  CollectivePlanner planner = nccl_planner(topology, one_ring(), {});
  TrainingJob job = queued(planner, {{0, kAllRanks, CollectiveKind::all_gather, Bytes(2'500'000)}});
  bare(job.plans[0], Bytes(1'250'000));
  job.families = {{{{2}}, {0, 0, 0}}};
  for (Program* program : {&job.main().warm_up, &job.main().steady}) {
    program->ops.insert(program->ops.begin() + 2,
                        {.kind = OpKind::send, .index = 0, .to = 0, .bytes = Bytes(1'250'000)});
  }
  job.members = {{0, topology.device_named("node0/gpu0")},
                 {0, topology.device_named("node1/gpu0")},
                 {0, topology.device_named("node2/cpu0")}};
  const std::vector<MessagePair> pairs{{0, 2}, {1, 2}};
  add_message_routes(topology, pairs, job);
  const std::vector<LinkId> of_messages = job.communicator.shared_links;
  const auto gathered = [&] { return run_on(job, EngineChoice::automatic).trace.front().ops[1].end; };
  const SimTime alone = gathered();
  share_links(topology, job);
  CHECK(job.communicator.shared_links == of_messages);
  CHECK(shared_fifos(job) == 2);
  CHECK(gathered() == alone + SimTime{100'000'000});
}

TEST_CASE("of the strategies those compete whose groups of different queues leave their nodes together") {
  const auto why = [](const std::string& training) {
    const std::string cluster = R"("cluster": {"node": "dgx-h100", "nodes": 4}, "model": "gpt2_small")";
    const Scenario scenario = parse_scenario(
        "{" + cluster + R"(, "training": {"batch_per_gpu": 1, )" + training + "}}", "scenario");
    return why_not_vector(Machines().build(scenario).job).value_or("");
  };
  CHECK(why(R"("strategy": "ddp")").empty());
  CHECK(why(R"("strategy": "zero")").empty());
  CHECK(why(R"("strategy": "fsdp")").empty());
  CHECK(why(R"("strategy": "fsdp", "fsdp": {"shard_group": "node"})").empty());
  const std::string competing = "collectives of different queues share the links of";
  CHECK(why(R"("strategy": "fsdp", "fsdp": {"shard_group": 16})").starts_with(competing));
  CHECK(why(R"("strategy": "fsdp", "fsdp": {"reshard_after_forward": 8})").starts_with(competing));
}

}  // namespace
}  // namespace paceline
