// Is a rank blamed for what it did later than its peers, and for that alone?
#include <catch2/catch.hpp>
#include <string>

#include "random_job.h"
#include "scenarios/machines.h"
#include "scenarios/scenario.h"
#include "sim/collective/nccl.h"
#include "sim/engine/simulate.h"
#include "sim/strategy/run_length.h"
#include "tests/ddp_job.h"
#include "tests/dice.h"

namespace paceline {
namespace {

std::vector<Result> on_both_engines(const TrainingJob& job, int iterations) {
  RunSpec run;
  run.iterations = iterations;
  return {run_event_engine(job, run), run_vector_engine(job, run)};
}

void check_nobody_blamed(const Result& result) {
  for (const Breakdown& b : result.breakdown) {
    CHECK(b.straggler_wait == SimTime{});
  }
  for (const CollectiveWaits& waits : result.waits) {
    CHECK((waits.straggler == 0));
  }
  for (std::size_t r = 0; r < result.waited_for.size(); ++r) {
    CHECK((result.waited_for[r] == 0));
    CHECK(result.blame[r].count == 0);
    CHECK(result.blame[r].total == SimTime{});
    CHECK(result.as_late_as[r] == Rank(r));
  }
}

TEST_CASE("equal GPUs without jitter wait for no straggler, whatever the collectives do") {
  // Random trees, rings, chains and switches over random hops, hosts that are too slow, kernels slowed by
  // communication, loaders that are too slow.
  for (std::uint64_t seed = 1; seed <= rounds(300); ++seed) {
    RandomJob random = random_job(seed, 24);
    random.job.variability = {};
    if (random.job.input) {
      random.job.input->jitter = {};
    }
    INFO("seed " << seed);
    for (const Result& result : on_both_engines(random.job, random.run.iterations)) {
      check_nobody_blamed(result);
    }
  }
}

TEST_CASE("equal GPUs on NCCL's rings, trees and switches blame nobody") {
  Dice dice(4);
  for (const char* node : {"dgx-h100", "dgx-a100", "dgx1-v100", "pcie-a100"}) {
    for (const int nodes : {1, 2, 3, 5}) {
      for (const char* algorithm : {"", "ring", "tree"}) {
        ClusterSpec cluster;
        cluster.node = node_preset(node);
        cluster.nodes = nodes;
        const Topology topology = build_topology(cluster);
        TrainingSpec training;
        training.collective.algorithm = algorithm;
        training.ddp.bucket_cap = Bytes(4 << 20);
        CollectivePlanner planner = nccl_planner(topology, training.collective, {});
        const TrainingJob job = ddp_job(random_model(dice), gpu_preset("A100-80GB"), training, {}, planner);
        INFO(nodes << " x " << node << ' ' << algorithm);
        RunSpec run;
        run.iterations = 2;
        check_nobody_blamed(run_vector_engine(job, run));
      }
    }
  }
}

// What equal GPUs do differently is no straggling: who broadcasts, sums, passes round a ring or ends a chain. But
// data_parallel's update is GPU 0's alone, and unequal inputs are unequal work: those two are waited for (docs/model.md).
const char* const kOnOneNode[] = {
    R"("strategy": "mirrored", "mirrored": {"cross_device_ops": "nccl"})",
    R"("strategy": "mirrored", "mirrored": {"cross_device_ops": "nccl", "num_packs": 3})",
    R"("strategy": "mirrored", "mirrored": {"cross_device_ops": "reduction_to_one_device"})",
    R"("strategy": "mirrored", "mirrored": {"cross_device_ops": "copy_to_devices"})",
    R"("strategy": "mirrored", "mirrored": {"cross_device_ops": "hierarchical_copy"})",
    R"("strategy": "mirrored", "mirrored": {"cross_device_ops": "hierarchical_copy", "num_packs": 0})"};
const char* const kOnNodes[] = {
    R"("strategy": "fsdp", "fsdp": {"shard_group": "node"})",
    R"("strategy": "mirrored", "mirrored": {"cross_device_ops": "nccl_then_ring"})",
    R"("strategy": "horovod", "horovod": {"hierarchical": true})",
    R"("strategy": "horovod", "horovod": {"torus": true, "version": "0.28"})",
    R"("strategy": "local_sgd", "local_sgd": {"period": 3, "group": "node"})"};
const char* const kAnywhere[] = {
    R"("ddp": {"bucket_cap": "4 MiB", "find_unused_parameters": true})",
    R"("ddp": {"reduction": "apex_ddp"})",
    R"("ddp": {"reduction": "apex_ddp_delayed"})",
    R"("ddp": {"reduction": "horovod_0.21"})",
    R"("ddp": {"reduction": "mxnet_horovod_group"})",
    R"("ddp": {"reduction": "after_backward"}, "accumulation": 2)",
    R"("compression": "fp16")",
    R"("compression": "quantize_tensor", "ddp": {"bucket_cap": "4 MiB"})",
    R"("compression": "top_k")",
    R"("compression": "powersgd", "ddp": {"bucket_cap": "4 MiB"})",
    R"("compression": {"kind": "powersgd", "synchronize": false})",
    R"("ddp": {"join": {"batches": [3, 3, 3, 3, 3, 3, 3, 3]}})",
    R"("strategy": "fsdp", "clip_norm": true)",
    R"("strategy": "fsdp", "fsdp": {"reshard_after_forward": false}, "activation_checkpointing": "full")",
    R"("strategy": "zero", "zero": {"stage": 1})",
    R"("strategy": "zero", "zero": {"reduce_scatter": true, "overlap_gather": true}, "ddp": {"reduction": "megatron"})",
    R"("strategy": "zero", "zero": {"stage": 2})",
    R"("strategy": "zero", "zero": {"stage": 3})",
    R"("strategy": "mirrored", "mirrored": {"cross_device_ops": "multi_worker", "bytes_per_pack": "4 MB"})",
    R"("strategy": "mirrored", "mirrored": {"cross_device_ops": "multi_worker"}, "collective": {"library": "tensorflow"})",
    R"("strategy": "horovod", "horovod": {"version": "0.15"})",
    R"("strategy": "horovod", "horovod": {"version": "0.19"})",
    R"("strategy": "horovod")",
    R"("strategy": "local_sgd", "local_sgd": {"period": 3})",
    R"("strategy": "local_sgd", "local_sgd": {"period": 2, "warm_up": 5})",
    R"("strategy": "parameter_server", "parameter_server": {"servers": {"count": 2}})",
    R"("strategy": "parameter_server", "parameter_server": {"consistency": "async"})",
    R"("collective": {"library": "gloo"})",
    R"("collective": {"library": "mpi"}, "slowdown_while_communicating": "1.21")"};

Result of_equal_gpus(int nodes, const std::string& training) {
  const std::string text = R"({"cluster": {"node": "dgx1-v100", "nodes": )" + std::to_string(nodes) +
                           R"(, "gpus_per_node": )" + std::to_string(8 / nodes) +
                           R"(}, "model": "resnet18", "run": {"iterations": 2},
                               "training": {"batch_per_gpu": 32, )" +
                           training + "}}";
  CAPTURE(text);
  const Scenario scenario = parse_scenario(text, "equal.json");
  Machines machines;
  return simulate(machines.build(scenario).job, with_length(scenario.run, scenario.training));
}

TEST_CASE("equal GPUs without jitter blame nobody, whatever the strategy", "[release]") {
  for (const char* host : {"0 us", "60 us"}) {  // behind the GPUs, too
    const std::string launches = R"(, "host": {"kernel_launch": ")" + std::string(host) + R"("})";
    const auto check = [&](int nodes, const char* training) {
      INFO(nodes << " nodes, " << training << launches);
      check_nobody_blamed(of_equal_gpus(nodes, training + launches));
    };
    for (const char* training : kAnywhere) {
      check(1, training);
      check(2, training);
    }
    for (const char* training : kOnOneNode) {
      check(1, training);
    }
    for (const char* training : kOnNodes) {
      check(2, training);
      check(4, training);
    }
  }
}

TEST_CASE("who alone updates, or has more batches, is waited for", "[release]") {
  const auto only = [](const Result& result, std::size_t rank) {
    for (std::size_t r = 0; r < result.waited_for.size(); ++r) {
      CHECK((result.waited_for[r] > 0) == (r == rank));
    }
  };
  only(of_equal_gpus(1, R"("strategy": "data_parallel")"), 0);
  only(of_equal_gpus(2, R"("ddp": {"join": {"batches": [2, 2, 2, 2, 2, 5, 2, 2]}})"), 5);
}

constexpr std::int64_t kMillisecond = 1'000'000'000;

// Hops that take 1 ms for `bytes` and have no latency.
std::vector<HopCost> hops(std::size_t ranks, Bytes bytes) {
  return std::vector<HopCost>(ranks, {BytesPerSecond(static_cast<double>(bytes.value) * 1e3), {}, {}});
}

// A kernel of 10 ms; an all-reduce of 2 (N-1) steps of 1 ms, waited for; an optimizer of 1 ms.
TrainingJob step_of(std::size_t ranks, std::vector<SlowGpus> slow) {
  const Bytes chunk(1'000'000);
  CollectivePlanner planner = ring_planner(hops(ranks, chunk));
  TrainingJob job;
  job.plans = {
      planner.plan(CollectiveKind::all_reduce, Bytes(chunk.value * static_cast<std::int64_t>(ranks)))};
  job.communicator = planner.communicator();
  job.main().steady.collectives = {0};
  job.main().steady.ops = {{OpKind::kernel, 0, SimTime{10 * kMillisecond}, {}, "kernel"},
                           {OpKind::collective, 0, {}, {}, "all_reduce"},
                           {OpKind::wait, 0, {}, {}, "wait"},
                           {OpKind::kernel, 0, SimTime{kMillisecond}, {}, "optimizer"}};
  job.main().warm_up = job.main().steady;
  job.variability.slow_gpus = std::move(slow);
  return job;
}

TEST_CASE("a known late rank is waited for by just its lateness") {
  // Rank 2 is half as slow again. Since its last wait it runs optimizer and kernel in 16.5 ms, the others in
  // 11, so each of them waits 5.5 ms for it, and after the last step 0.5 ms for its optimizer.
  constexpr int kSteps = 4;
  for (const Result& result : on_both_engines(step_of(4, {{{2}, 0, 1.5}}), kSteps)) {
    const std::int64_t late = 55 * kMillisecond / 10;
    CHECK(result.blame[2].count == kSteps);
    CHECK(result.blame[2].total.ps == kSteps * late);
    CHECK((result.waited_for[2] == 3 * (kSteps * late + kMillisecond / 2)));
    for (const std::size_t other : {0, 1, 3}) {
      CHECK((result.waited_for[other] == 0));
      CHECK(result.blame[other].count == 0);
      CHECK(result.as_late_as[other] == Rank(other));
    }
    CHECK(result.breakdown[2].straggler_wait == SimTime{});
  }
}

TEST_CASE("what a broadcast's chain keeps apart is communication, what a rank adds to it is straggling") {
  // Four chunks of 1 ms go down a chain from rank 0, which is done after 4 ms; rank 1 after 5, ranks 2 and 3
  // after 6. Then a kernel of 10 ms, and an all-reduce. With equal GPUs ranks 0 and 1 wait 2 and 1 ms until
  // the others launch. If rank 1 takes 6 ms more it launches last, at 21 ms: rank 0 waits 7 ms, of which 6
  // are rank 1's doing; ranks 2 and 3 wait 5 ms, all of it its doing.
  const Bytes chunk(1'000'000);
  for (const bool slow : {false, true}) {
    Communicator start;
    start.ranks = 4;
    CollectivePlanner broadcast = ring_planner(hops(4, chunk), 4), reduce = ring_planner(hops(4, chunk));
    TrainingJob job;
    job.plans = {broadcast.plan(CollectiveKind::broadcast, Bytes(4 * chunk.value)),
                 reduce.plan(CollectiveKind::all_reduce, Bytes(4 * chunk.value))};
    job.communicator = broadcast.communicator();
    job.communicator.graphs.push_back(CollectiveGraph(reduce.communicator().graphs[0]));
    job.plans[1].graph = 1;
    job.main().steady.collectives = {0, 1};
    job.main().steady.ops = {{OpKind::collective, 0, {}, {}, "broadcast"},
                             {OpKind::wait, 0, {}, {}, "wait"},
                             {OpKind::kernel, 0, SimTime{10 * kMillisecond}, {}, "kernel"},
                             {OpKind::collective, 1, {}, {}, "all_reduce"},
                             {OpKind::wait, 1, {}, {}, "wait"}};
    job.main().warm_up.collectives = {1};  // which all end together
    job.main().warm_up.ops = {{OpKind::collective, 0, {}, {}, "all_reduce"},
                              {OpKind::wait, 0, {}, {}, "wait"}};
    if (slow) {
      job.variability.slow_gpus = {{{1}, 0, 1.6}};
    }
    for (const Result& result : on_both_engines(job, 1)) {
      INFO((slow ? "rank 1 slow" : "equal"));
      if (!slow) {
        check_nobody_blamed(result);
        continue;
      }
      CHECK(result.last_to_launch[1] == Rank(1));
      CHECK((result.waits[1].straggler == (6 + 5 + 5) * kMillisecond));
      CHECK((result.waited_for[1] == result.waits[1].straggler));
      CHECK(result.blame[1].count == 1);
      CHECK(result.blame[1].total.ps == 5 * kMillisecond);  // ranks 2 and 3 are second last
    }
  }
}

TEST_CASE("of ranks that are equally late the first is charged and all are named") {
  for (const Result& result : on_both_engines(step_of(6, {{{1, 3, 4}, 0, 1.5}}), 3)) {
    CHECK((result.waited_for[1] > 0));
    CHECK(result.blame[1].count == 3);
    CHECK(result.blame[1].total == SimTime{});  // the second last was as late
    CHECK(result.as_late_as[3] == Rank(1));
    CHECK(result.as_late_as[4] == Rank(1));
    for (const std::size_t healthy : {0, 2, 5}) {
      CHECK(result.as_late_as[healthy] == Rank(healthy));
      CHECK((result.waited_for[healthy] == 0));
    }
  }
}

TEST_CASE("after a step, too, a rank waits for what the last one did later") {
  // The host may not run ahead, so a step begins when the rank has ended the one before; what the others
  // do meanwhile counts until the last one has ended. Rank 1's optimizer takes 1 ms more.
  TrainingJob job = step_of(2, {{{1}, 0, 2}});
  job.host_runs_ahead = 0;
  for (Program* program : {&job.main().warm_up, &job.main().steady}) {
    program->ops.front().host_cost = SimTime{5 * kMillisecond};
  }
  for (const Result& result : on_both_engines(job, 1)) {
    // 1 ms of its 5 ms until the first kernel is issued, at the step's begin and again after the last step;
    // and at the all-reduce rank 1 is 11 ms late.
    CHECK((result.waits[0].straggler == 11 * kMillisecond));
    CHECK((result.waited_for[1] == (11 + 1) * kMillisecond));
    CHECK(result.breakdown[0].straggler_wait.ps == 12 * kMillisecond);
  }
}

}  // namespace
}  // namespace paceline
