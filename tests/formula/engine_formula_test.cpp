// Does a simulated simple case equal its closed form, to the picosecond? The derivations stand beside the
// checks.
#include <catch2/catch.hpp>
#include <numeric>

#include "../engines/random_job.h"
#include "scenarios/predict.h"
#include "sim/collective/ring_time.h"
#include "sim/engine/simulate.h"
#include "tests/ddp_job.h"
#include "tests/meetings.h"
#include "tests/ring_by_steps.h"
#include "tests/trace_of_first.h"

namespace paceline {
namespace {

// One collective on a ring after one kernel, and nothing else; no host costs.
TrainingJob collective_job(const std::vector<HopCost>& hops, CollectiveKind kind, Bytes bytes,
                           SimTime kernel = {}, std::int64_t chunks = 1) {
  CollectivePlanner planner = ring_planner(hops, chunks);
  TrainingJob job;
  job.plans = {planner.plan(kind, bytes)};
  job.communicator = planner.communicator();
  job.main().steady.collectives = {0};
  job.main().steady.ops = {{OpKind::kernel, 0, kernel, {}, "kernel"},
                           {OpKind::collective, 0, {}, {}, "collective"},
                           {OpKind::wait, 0, {}, {}, "wait"}};
  job.main().warm_up = job.main().steady;
  return job;
}

RunSpec one_iteration() {
  RunSpec run;
  run.iterations = 1;
  return run;
}

TEST_CASE("an equal ring takes 2 (N-1) steps of occupancy and latency") {
  // All ranks begin together; every step waits for the predecessor's chunk of the step before, which arrives
  // one occupancy and one latency after that step began. So step s begins at s (t + l), and the last of 2
  // (N-1) steps has arrived at 2 (N-1) (t + l), where t = ceil(2^20 / N) bytes / rate.
  for (std::size_t n = 2; n <= 33; ++n) {
    const HopCost hop{BytesPerSecond(20e9), SimTime{700'001}, {}};
    const auto bytes = static_cast<double>(((1 << 20) + static_cast<int>(n) - 1) / static_cast<int>(n));
    const SimTime t{std::llrint(bytes / 20e9 * 1e12)};
    const TrainingJob job =
        collective_job(std::vector<HopCost>(n, hop), CollectiveKind::all_reduce, Bytes(1 << 20));
    const SimTime expected = 2 * (static_cast<std::int64_t>(n) - 1) * (t + hop.latency);
    CHECK(run_event_engine(job, one_iteration()).iteration_end[0] == expected);
    CHECK(run_vector_engine(job, one_iteration()).iteration_end[0] == expected);
  }
}

TEST_CASE("the event engine takes every rank of a ring through its 2 (N-1) steps") {
  // Against the recursion start(r, s) = max(start(r, s-1) + stay(r), start(r-1, s-1) + move(r-1)), evaluated
  // step by step; ranks begin at different times because their GPUs differ.
  Dice dice(11);
  for (int i = 0; i < 200; ++i) {
    const auto n = static_cast<std::size_t>(dice.between(2, 40));
    std::vector<HopCost> hops;
    for (std::size_t r = 0; r < n; ++r) {
      hops.push_back({BytesPerSecond(dice.real(1e9, 5e10)), SimTime{dice.between(0, 5'000'000)}, {}});
    }
    TrainingJob job = collective_job(hops, CollectiveKind::all_reduce, Bytes(dice.between(1, 50'000'000)),
                                     SimTime{dice.between(0, 400'000'000)});
    for (std::size_t r = 0; r < n; ++r) {
      job.variability.slow_gpus.push_back({{static_cast<std::int64_t>(r)}, 0, dice.real(1, 9)});
    }
    const Result result =
        run_event_engine(job, one_iteration(), trace_of_first(static_cast<std::uint32_t>(n), 1));
    std::vector<SimTime> begin, stay, move, end(n);
    for (std::size_t r = 0; r < n; ++r) {
      begin.push_back(result.trace[r].ops[1].start);
      stay.push_back(stay_of(job.plans[0].loops[0].chunk, hops[r]));
      move.push_back(stay.back() + hops[r].latency);
    }
    ring_end_by_steps({stay, move}, 2 * (static_cast<std::int64_t>(n) - 1), begin, end);
    for (std::size_t r = 0; r < n; ++r) {
      CHECK(result.trace[r].ops[1].end == end[r]);
    }
  }
}

TEST_CASE("a broadcast is a pipelined chain from the root") {
  // M chunks over N-1 equal hops: the first has arrived at the last rank after (N-1) (t + l), the others
  // follow t apart: (N-1) (t + l) + (M-1) t. The root has sent its M chunks after M t and is done.
  const std::size_t n = 6;
  const HopCost hop{BytesPerSecond(10e9), SimTime{2'000'000}, {}};
  const TrainingJob job =
      collective_job(std::vector<HopCost>(n, hop), CollectiveKind::broadcast, Bytes(9'600'000), {}, 6);
  const SimTime t = stay_of(Bytes(1'600'000), hop);
  const Result result =
      run_event_engine(job, one_iteration(), trace_of_first(static_cast<std::uint32_t>(n), 1));
  CHECK(result.trace[0].ops[1].end == 6 * t);
  CHECK(result.iteration_end[0] == 5 * (t + hop.latency) + 5 * t);
}

TEST_CASE("doubling every bandwidth halves the transfers") {
  Dice dice(5);
  for (int i = 0; i < 20; ++i) {
    const std::size_t n = static_cast<std::size_t>(dice.between(2, 20));
    std::vector<HopCost> slow, fast;
    for (std::size_t r = 0; r < n; ++r) {
      const double rate = 1e12 / static_cast<double>(dice.between(1, 8));  // whole picoseconds per byte
      slow.push_back({BytesPerSecond(rate / 2), {}, {}});
      fast.push_back({BytesPerSecond(rate), {}, {}});
    }
    const Bytes bytes(dice.between(1, 1'000'000));
    const Result a =
        run_event_engine(collective_job(slow, CollectiveKind::all_reduce, bytes), one_iteration());
    const Result b =
        run_event_engine(collective_job(fast, CollectiveKind::all_reduce, bytes), one_iteration());
    CHECK(a.iteration_end[0] == 2 * b.iteration_end[0]);
  }
}

TEST_CASE("permuting the ranks permutes the result") {
  Dice dice(8);
  for (int i = 0; i < 50; ++i) {
    const RandomJob original = random_job(static_cast<std::uint64_t>(1000 + i), 16);
    RandomJob moved = original;
    const std::size_t n = original.job.ranks();
    // Rotate names: rank r becomes (r + shift) % n. Without draws nothing else distinguishes ranks but the
    // slow ones, which move along.
    const auto shift = static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(n) - 1));
    const auto renamed = [&](std::size_t r) { return (r + shift) % n; };
    RandomJob still = original;
    for (RandomJob* job : {&still, &moved}) {
      job->job.variability = {};
      job->job.variability.slow_gpus = {{{0}, 0, 1.7}};
      job->job.input.reset();
      for (Program* program : {&job->job.main().warm_up, &job->job.main().steady}) {
        std::erase_if(program->ops, [](const Op& op) { return op.kind == OpKind::take_batch; });
      }
    }
    moved.job.variability.slow_gpus[0].ranks[0] = static_cast<std::int64_t>(renamed(0));
    GraphList graphs;
    for (std::size_t g = 0; g < moved.job.communicator.graphs.size(); ++g) {
      CollectiveGraph graph = moved.job.communicator.graphs[g];
      for (ThreadBlock& thread_block : graph.thread_blocks) {
        thread_block.rank = thread_block.rank == ThreadBlock::kSwitch
                                ? thread_block.rank
                                : static_cast<std::uint32_t>(renamed(thread_block.rank));
      }
      graphs.push_back(std::move(graph));
    }
    moved.job.communicator.graphs = std::move(graphs);
    const Result a = run_vector_engine(still.job, original.run),
                 b = run_vector_engine(moved.job, original.run);
    CHECK(a.iteration_end == b.iteration_end);
    for (std::size_t r = 0; r < n; ++r) {
      CHECK(a.breakdown[r].compute == b.breakdown[renamed(r)].compute);
      CHECK(a.breakdown[r].straggler_wait == b.breakdown[renamed(r)].straggler_wait);
      CHECK(a.breakdown[r].exposed_communication == b.breakdown[renamed(r)].exposed_communication);
    }
  }
}

TEST_CASE("compute under communication is slowed by the ratio, at the ceiling") {
  // One kernel K1 launches the collective, the next runs beside it. The collective lasts from d1 to d1 + c on
  // both ranks. While it runs, K2 does q units per picosecond of its d2 p; if it does not end in c, the rest
  // runs at p: end = d1 + c + ceil((d2 p - c q) / p).
  const HopCost hop{BytesPerSecond(1e12), SimTime{1'000}, {}};
  const std::int64_t c = 2 * (4'096 + 1'000), d1 = 777, d2 = 20'001, p = 121, q = 100;
  TrainingJob job = collective_job({hop, hop}, CollectiveKind::all_reduce, Bytes(2 * 4'096), SimTime{d1});
  job.slowdown = {p, q};
  for (Program* program : {&job.main().warm_up, &job.main().steady}) {
    program->ops.insert(program->ops.begin() + 2, {OpKind::kernel, 0, SimTime{d2}, {}, "beside"});
  }
  const std::int64_t end = d1 + c + (d2 * p - c * q + p - 1) / p;
  CHECK(run_event_engine(job, one_iteration()).iteration_end[0].ps == end);
  CHECK(run_vector_engine(job, one_iteration()).iteration_end[0].ps == end);
}

TEST_CASE("a loader slower than the GPU sets the step") {
  // The batch time is 30 us, the kernel takes 10: in the steady state an iteration takes 30, of which the
  // stream waits 20.
  TrainingJob job;
  job.input = InputPipeline{SimTime{30'000'000}, 2, {}};
  job.main().steady.ops = {{OpKind::take_batch, 0, {}, {}, "batch"},
                           {OpKind::kernel, 0, SimTime{10'000'000}, {}, "kernel"}};
  job.main().warm_up = job.main().steady;
  RunSpec run;
  run.iterations = 10;
  for (const Result& result : {run_event_engine(job, run), run_vector_engine(job, run)}) {
    CHECK(result.iteration_end[5] - result.iteration_end[4] == SimTime{30'000'000});
    CHECK(result.breakdown[0].compute == SimTime{100'000'000});
    CHECK(result.breakdown[0].input_wait == SimTime{200'000'000});
  }
}

TEST_CASE("the throughput of few steps is at most what loaders make") {
  // Eight loaders make 1,500 samples/s each, a batch of 15 in 10 ms; a GPU needs 9 ms for it and 0.3 ms for
  // DDP. While the warm-up lasts two batches are prefetched, so the first steps take 9.3 ms; forever it is
  // 10. One GPU has no such warm-up.
  for (const int iterations : {1, 2, 5, 40}) {
    const std::string text = R"({"cluster": {"node": "dgx-a100", "nodes": 1}, "model": "resnet50",
        "training": {"batch_per_gpu": 15, "measured": "1666.6666666666667 samples/s",
                     "input": {"rate": "1500 samples/s", "prefetch": 2}}, "run": {"iterations": )" +
                             std::to_string(iterations) + "}}";
    const Report report = predict(parse_scenario(text, "few.json")).report;
    INFO(iterations << " steps");
    CHECK(report.throughput == Approx(8 * 1500).epsilon(1e-12));
    CHECK(report.scaling_efficiency == Approx(1).epsilon(1e-12));
    CHECK(report.counted_throughput == Approx(8 * 15 / report.step.mean.value).epsilon(1e-12));
    CHECK(report.counted_throughput > report.throughput * (1 + 0.05 / iterations));
  }
}

TEST_CASE("launches slower than kernels make the step host-bound") {
  // Three kernels of 1 us, each 5 us to launch: the host is the bottleneck, 15 us an iteration, 3 of them
  // compute.
  TrainingJob job;
  job.main().steady.ops =
      std::vector<Op>(3, {OpKind::kernel, 0, SimTime{1'000'000}, SimTime{5'000'000}, "kernel"});
  job.main().warm_up = job.main().steady;
  const Result result = run_event_engine(job, one_iteration());
  CHECK(result.iteration_end[1] - result.iteration_end[0] == SimTime{15'000'000});
  CHECK(result.breakdown[0].other == SimTime{12'000'000});
}

TEST_CASE("a bucket is ready when its gradients exist, however late the host launches it") {
  // The kernel ends after 1 ms; the host has issued the all-reduce after 5, and begins a step only when the
  // GPU has ended the one before. So in every step it is ready at 1 ms and launched at 5.
  const HopCost hop{BytesPerSecond(1e12), SimTime{1'000}, {}};
  TrainingJob job =
      collective_job({hop, hop}, CollectiveKind::all_reduce, Bytes(4'096), SimTime{1'000'000'000});
  job.host_runs_ahead = 0;
  for (Program* program : {&job.main().warm_up, &job.main().steady}) {
    program->ops[1].host_cost = SimTime{5'000'000'000};
  }
  RunSpec run;
  run.iterations = 3;
  for (const Result& result : {run_event_engine(job, run), run_vector_engine(job, run)}) {
    CHECK(result.timing[0].ready == SimTime{3 * 1'000'000'000LL});
    CHECK(result.timing[0].launch == SimTime{3 * 5'000'000'000LL});
  }
}

TEST_CASE("casts before and after a collective keep its queue busy, and its ranks apart") {
  // Kernel k (on rank 1 twice as long), then two collectives: p, l after the last rank has come so far, c; beside
  // them a kernel that communication slows by 3 / 2. So all leave the first at 2 k + p + l, and end it c later.
  // Rank 0 is busy from k on. Alone: no l.
  const SimTime k{70'000'000}, p{11'000'000}, c{7'000'000}, l{2'000'000};
  for (const std::uint32_t ranks : {1U, 2U}) {
    TrainingJob job;
    add_meetings(job, ranks, l);
    job.slowdown = {3, 2};
    const Op kernel{.kind = OpKind::kernel, .duration = k}, first_wait{.kind = OpKind::wait, .index = 0};
    Op collective{.kind = OpKind::collective, .index = 0, .prepare = p, .conclude = c}, second = collective;
    second.index = 1;
    job.main().steady = {{kernel, collective, second, kernel, first_wait, {.kind = OpKind::wait, .index = 1}},
                         {0, 0}};
    job.main().warm_up = job.main().steady;
    if (ranks == 2) {
      job.variability.slow_gpus = {{{1}, 0, 2}};
    }
    const SimTime exchange = ranks == 1 ? SimTime{} : l, last = ranks == 1 ? k : 2 * k;
    const SimTime first = last + p + exchange + c, both = first + p + exchange + c;
    const auto slowed = [&](SimTime start, SimTime length) {  // while communication lasts
      const SimTime by_then{(both - start).ps * 2 / 3};
      return length <= by_then ? start + SimTime{length.ps * 3 / 2} : both + (length - by_then);
    };
    const TraceRequest trace = trace_of_first(1, 1);
    for (const Result& result :
         {run_event_engine(job, one_iteration(), trace), run_vector_engine(job, one_iteration(), trace)}) {
      const std::vector<OpSpan>& ops = result.trace.at(0).ops;
      CHECK(ops[1].start == k);
      CHECK(ops[1].end == first);
      CHECK(ops[2].start == first);
      CHECK(ops[2].end == both);
      CHECK(ops[3].end == slowed(k, k));
      CHECK(result.iteration_end[0] == std::max(both, slowed(last, last)));
    }
  }
}

TEST_CASE("an anchored GPU takes batch / rate to the picosecond") {
  Dice dice(3);
  for (int i = 0; i < 200; ++i) {
    const Model model = random_model(dice);
    TrainingSpec training;
    training.batch_per_gpu = dice.between(1, 256);
    training.host.runs_ahead = static_cast<int>(dice.between(0, 2));
    training.accumulation = i % 4 == 0 ? static_cast<int>(dice.between(2, 64)) : 1;
    const auto samples = static_cast<double>(training.batch_per_gpu * training.accumulation);
    const SamplesPerSecond rate(samples / (dice.real(0.02, 2) * training.accumulation));
    training.measured = {{rate, 0, 0, false}};
    if (i % 3 == 0) {  // forward runs twice
      training.strategy = StrategyKind::fsdp;
      training.fsdp.units.layers.assign(1, static_cast<std::int64_t>(model.layers.size()));
      training.activation_checkpointing = ActivationCheckpointing::full;
    }
    const TrainingJob job = reference_job(model, gpu_preset("H100"), training, {});
    const auto again = std::ranges::count_if(job.main().steady.ops,
                                             [](const Op& op) { return op.label.starts_with("recompute"); });
    CHECK(again == (i % 3 == 0 ? std::ssize(model.layers) * training.accumulation : 0));
    RunSpec run;
    run.iterations = 5;
    const Result result = simulate(job, run);
    const SimTime wanted = to_sim_time(Seconds(samples / rate.value));
    CHECK(result.iteration_end[5] - result.iteration_end[4] == wanted);
  }
}

TEST_CASE("a measured rate beyond what launches allow is refused") {
  Dice dice(3);
  const Model model = random_model(dice);
  TrainingSpec training;
  training.batch_per_gpu = 1;
  training.measured = {{SamplesPerSecond(3e4), 0, 0, false}};
  CHECK_THROWS_WITH(reference_job(model, gpu_preset("H100"), training, {}),
                    Catch::Contains("/training/measured") &&
                        Catch::Contains("its kernel launches and optimizer, which alone take"));
}

TEST_CASE("GPUs that the job does not use change nothing") {
  const auto step = [](int gpus_in_node) {
    ClusterSpec cluster;
    cluster.node = node_preset("dgx-h100");
    cluster.node.nics = gpus_in_node;
    cluster.node.pcie_switches = gpus_in_node;
    cluster.node.gpus = gpus_in_node;
    cluster.gpus_per_node = 4;
    cluster.nodes = 2;
    const TrainingSpec training;
    Dice dice(4);
    const Topology topology = build_topology(cluster);
    CollectivePlanner planner = nccl_planner(topology, training.collective, {});
    const TrainingJob job = ddp_job(random_model(dice), gpu_preset("H100"), training, {}, planner);
    return run_vector_engine(job, one_iteration()).fingerprint;
  };
  CHECK(step(4) == step(8));
}

}  // namespace
}  // namespace paceline
