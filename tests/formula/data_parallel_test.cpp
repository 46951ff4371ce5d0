// torch.nn.DataParallel against closed forms. Memory moves a byte in a picosecond, a link in 1,000; a collective of S
// bytes takes kMeeting + S. Where n GPUs compute F and B with hosts that cost nothing, the first one waits for nobody:
//   step = inputs + replicate + F + gather + loss + scatter + B + reduce + update
// each of which is written out below from the rules of docs/model.md.
#include "sim/strategy/data_parallel.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/machines.h"
#include "scenarios/predict.h"
#include "scenarios/scenario.h"
#include "scenarios/trace.h"
#include "sim/engine/simulate.h"
#include "sim/report/link_traffic.h"
#include "sim/report/messages.h"
#include "sim/report/overlap.h"
#include "sim/report/report.h"
#include "sim/strategy/build_job.h"
#include "sim/strategy/memory.h"
#include "tests/dice.h"
#include "tests/meetings.h"
#include "tests/trace_of_first.h"

namespace paceline {
namespace {

constexpr std::int64_t kByteOnLink = 1000, kMebi = 1 << 20;
constexpr SimTime kHop{3'000}, kMeeting{2'000'000};

struct OneNode {
  std::int64_t gpus = 4;
  std::vector<std::int64_t> tensors{100};  // elements of each layer's tensor; 0: none
  SimTime forward{5'000'000}, backward{9'000'000};
  int launches = 1;                                // of a layer's kernel, forward and backward
  std::int64_t outputs = 0, input = 0;             // elements that a sample gives out, bytes that it is
  std::int64_t launch = 0, collective_launch = 0;  // ps
  int runs_ahead = 1, accumulation = 1;
  DataParallelTransfers transfers = DataParallelTransfers::nccl;
  VariabilitySpec variability{};
  std::optional<InputSpec> loader{};
};

constexpr std::int64_t kSamples = 2, kElementBytes = 4;  // samples; of an element

Workload process_work(const OneNode& node) {
  Workload work;
  work.variability = node.variability;
  TrainingSpec& training = work.training;
  training.strategy = StrategyKind::data_parallel;
  training.data_parallel.transfers = node.transfers;
  training.batch_per_gpu = kSamples;
  training.accumulation = node.accumulation;
  training.input = node.loader;
  training.host = {Seconds(static_cast<double>(node.launch) * 1e-12),
                   Seconds(static_cast<double>(node.collective_launch) * 1e-12), node.runs_ahead};
  training.roofline.memory_efficiency = 1;
  work.costs.roofline = training.roofline;
  work.costs.gpu.memory_bandwidth = BytesPerSecond(1e12);
  for (const std::int64_t elements : node.tensors) {
    Layer layer;
    layer.name = "layer " + std::to_string(work.model.layers.size());
    if (elements > 0) {
      layer.parameters = {elements};
    }
    layer.output_elements = node.outputs;
    work.model.layers.push_back(layer);
    work.layers.push_back({node.forward, node.backward, node.launches, node.launches});
  }
  work.model.input_bytes = Bytes(node.input);
  return work;
}

TrainingJob process_job(const OneNode& node) {
  CollectivePlanner planner = meeting_planner(
      {1, static_cast<std::uint32_t>(node.gpus)},
      [](const CollectiveRequest& request) { return kMeeting + SimTime{request.bytes.value}; });
  TrainingJob job = build_job(DataParallelSpec{node.transfers}, process_work(node), planner);
  for (std::uint32_t from = 0; from < job.member_count(); ++from) {
    for (std::uint32_t to = 0; to < job.ranks(); ++to) {
      if (from != to) {
        job.routes.push_back({from, to, kHop, BytesPerSecond(1e12 / kByteOnLink), {}});
      }
    }
  }
  return job;
}

std::vector<SimTime> process_steps(const TrainingJob& job, int iterations = 5) {
  RunSpec run;
  run.iterations = iterations;
  const Result result = simulate(job, run);
  std::vector<SimTime> steps;
  for (std::size_t i = 1; i < result.iteration_end.size(); ++i) {
    steps.push_back(result.iteration_end[i] - result.iteration_end[i - 1]);
  }
  return steps;
}

void each_step_is(const TrainingJob& job, SimTime step) {
  for (const SimTime each : process_steps(job)) {
    CHECK(each.ps == step.ps);
  }
}

// Copies with the first GPU of so many bytes each, one for each other GPU.
SimTime in_turn(std::int64_t gpus, std::int64_t bytes) {
  return (gpus - 1) * (2 * kHop + SimTime{kByteOnLink * bytes});
}
SimTime met(std::int64_t bytes) { return kMeeting + SimTime{bytes}; }
SimTime in_memory(std::int64_t bytes) { return SimTime{bytes}; }

// What lies between the last forward kernel and the first backward kernel.
SimTime around_the_loss(const OneNode& node) {
  const std::int64_t each = node.outputs * kSamples * kElementBytes;
  return in_memory(2 * each) + in_turn(node.gpus, each) + in_memory(2 * node.gpus * each) +
         in_turn(node.gpus, each);
}

// Three tensors of 6 MiB. Broadcast: two are 10 MiB or more, which closes a chunk; then one. Reduced: a second one would
// exceed 10 MiB, so each by itself.
constexpr std::int64_t kTensor = 6 * kMebi;
OneNode three_tensors(DataParallelTransfers transfers) {
  return {.gpus = 4,
          .tensors = {kTensor / kElementBytes, kTensor / kElementBytes, kTensor / kElementBytes},
          .outputs = 250,
          .input = 7'000,
          .transfers = transfers};
}

TEST_CASE("DataParallel: a step is its stages one after the other, with NCCL") {
  const OneNode node = three_tensors(DataParallelTransfers::nccl);
  const SimTime inputs = kHop + SimTime{kByteOnLink * node.input * kSamples};
  const SimTime replicate = in_memory(2 * 2 * kTensor) + met(2 * kTensor) + met(kTensor);
  const SimTime reduce = 3 * met(kTensor);
  const SimTime update = in_memory(5 * 3 * kTensor);  // SGD with momentum
  each_step_is(process_job(node), inputs + replicate + 3 * node.forward + around_the_loss(node) +
                                      3 * node.backward + reduce + update);
}

TEST_CASE("DataParallel: a step is its stages one after the other, with copies") {
  const OneNode node = three_tensors(DataParallelTransfers::copies);
  const SimTime inputs = kHop + SimTime{kByteOnLink * node.input * kSamples};
  const SimTime replicate = in_memory(2 * 2 * kTensor) + in_turn(4, 2 * kTensor) + in_turn(4, kTensor);
  const SimTime reduce = 3 * in_turn(4, kTensor) + 3 * 3 * in_memory(3 * kTensor);
  const SimTime update = in_memory(5 * 3 * kTensor);
  each_step_is(process_job(node), inputs + replicate + 3 * node.forward + around_the_loss(node) +
                                      3 * node.backward + reduce + update);
}

TEST_CASE("DataParallel: every pass of an accumulated step exchanges all") {
  OneNode node = three_tensors(DataParallelTransfers::nccl);
  const SimTime update = in_memory(5 * 3 * kTensor), added = 3 * in_memory(3 * kTensor);
  const SimTime once = process_steps(process_job(node)).back() - update;
  node.accumulation = 3;
  each_step_is(process_job(node), 3 * once + 2 * added + update);
}

TEST_CASE("DataParallel: no communication runs beside computing") {
  for (const auto transfers : {DataParallelTransfers::nccl, DataParallelTransfers::copies}) {
    const OneNode node = three_tensors(transfers);
    const TrainingJob job = process_job(node);
    RunSpec run;
    run.iterations = 3;
    const Result result = simulate(job, run, trace_of_first(4, 4));
    for (const CommunicationOverlap& each : communication_overlap(job, result.trace)) {
      CHECK(each.overlapped.ps == 0);
    }
    for (const Breakdown& b : result.breakdown) {  // all of a step is accounted for
      const SimTime sum =
          b.compute + b.exposed_communication + b.straggler_wait + b.input_wait + b.other + b.server_wait;
      CHECK(sum.ps == (result.iteration_end.back() - result.iteration_end.front()).ps);
    }
  }
}

TEST_CASE("DataParallel: a slow GPU makes both passes longer, for all") {
  for (const std::int64_t slow : {0, 3}) {
    OneNode node;
    const SimTime alike = process_steps(process_job(node)).back();
    node.variability.slow_gpus = {{{slow}, 0, 2}};
    const SimTime update = slow == 0 ? in_memory(5 * 100 * kElementBytes) : SimTime{};
    // While the others wait for the last one, two outputs have been copied (two latencies each) and it has been told that
    // its turn has come; its own gradients come a latency before the first GPU knows that they have.
    const SimTime hidden = slow == 0 ? SimTime{} : (2 * 2 + 1 + 1) * kHop;
    each_step_is(process_job(node), alike + node.forward + node.backward + update - hidden);
  }
}

// The last GPU's last launch is the last of K n turns of the interpreter's lock.
TEST_CASE("DataParallel: with launches longer than kernels the forward pass takes K n c + d") {
  for (const std::int64_t gpus : {2, 4, 8}) {
    for (const std::int64_t kernels : {1, 10, 161}) {
      constexpr std::int64_t kLaunch = 10'000'000;
      OneNode node{.gpus = gpus, .forward = SimTime{kLaunch - 1}, .launch = kLaunch, .runs_ahead = 0};
      node.tensors.assign(static_cast<std::size_t>(kernels), 0);
      node.tensors.front() = 100;  // one tensor: broadcast as it is, before anything is launched
      const TrainingJob job = process_job(node);
      RunSpec run;
      run.iterations = 2;
      const Result result = simulate(job, run, {{Rank(gpus - 1)}, 2, 1});
      SimTime ended;
      const Program& program = job.program(Rank(gpus - 1), 2);
      for (std::size_t i = 0; i < program.ops.size(); ++i) {
        if (program.ops[i].purpose.phase == Phase::forward && program.ops[i].kind == OpKind::kernel) {
          ended = std::max(ended, result.trace.front().ops[i].end);
        }
      }
      CHECK((ended - result.iteration_end[1]).ps == kernels * gpus * kLaunch + node.forward.ps);
    }
  }
}

// The lock, turn by turn: each turn one thread, in rank order, launches what its next layer still needs.
TEST_CASE("DataParallel: forward passes of any layers are those of threads that take turns") {
  Dice dice(21);
  for (std::uint64_t round = 0; round < rounds(200); ++round) {
    OneNode node{.gpus = dice.between(2, 8), .launch = dice.between(1, 20) * 1'000'000, .runs_ahead = 0};
    node.tensors.assign(dice.below(9) + 1, 0);
    node.tensors.front() = 100;
    Workload work = process_work(node);
    for (LayerSpan& layer : work.layers) {
      layer.forward = SimTime{dice.between(0, 100) * 1'000'000};
      layer.forward_launches = static_cast<int>(dice.between(1, 4));
    }
    CollectivePlanner planner = meeting_planner({1, static_cast<std::uint32_t>(node.gpus)},
                                                [](const CollectiveRequest&) { return SimTime{1}; });
    TrainingJob job = build_job(DataParallelSpec{}, work, planner);
    job.routes = process_job(node).routes;
    RunSpec run;
    run.iterations = 1;
    const auto ranks = static_cast<std::uint32_t>(node.gpus);
    const Result result = simulate(job, run, trace_of_first(ranks, 2));

    struct OfGpu {
      std::size_t layer = 0;
      int launched = 0;
      std::int64_t free = 1;  // when the broadcast has ended
    };
    std::vector<OfGpu> gpus(ranks);
    std::int64_t now = 0;
    for (bool left = true; left;) {
      left = false;
      for (OfGpu& gpu : gpus) {
        if (gpu.layer < work.layers.size()) {
          now += node.launch;
          if (++gpu.launched == work.layers[gpu.layer].forward_launches) {
            gpu.free = std::max(gpu.free, now) + work.layers[gpu.layer].forward.ps;
            gpu.launched = 0;
            ++gpu.layer;
          }
          left = left || gpu.layer < work.layers.size();
        }
      }
    }
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const auto traced = std::ranges::find_if(result.trace, [&](const TracedIteration& each) {
        return each.rank == Rank(r) && each.iteration == 1;
      });
      const Program& program = job.program(Rank(r), 1);
      SimTime ended;
      for (std::size_t i = 0; i < program.ops.size(); ++i) {
        if (program.ops[i].label.starts_with("forward")) {
          ended = std::max(ended, traced->ops[i].end);
        }
      }
      CHECK((ended - result.iteration_end[0]).ps == gpus[r].free);
    }
  }
}

// Everything that the one process launches, where nothing else takes time.
TEST_CASE("DataParallel: with an idle GPU a step is the process's launches") {
  constexpr std::int64_t kLaunch = 10'000'000, kCollective = 30'000'000, kGpus = 4, kLayers = 7,
                         kLaunches = 3;
  OneNode node{.gpus = kGpus,
               .forward = SimTime{1},
               .backward = SimTime{1},
               .launches = kLaunches,
               .outputs = 1,
               .input = 1,
               .launch = kLaunch,
               .collective_launch = kCollective};
  node.tensors.assign(kLayers, 1);
  const std::int64_t inputs = kGpus, replicate = 1, forward = kGpus * kLayers * kLaunches,
                     outputs = 1 + (kGpus - 1) + 1 + (kGpus - 1), backward = kLayers * kLaunches,
                     reduce = kGpus, update = 1;
  each_step_is(process_job(node),
               SimTime{kLaunch * (inputs + replicate + forward + outputs + backward + reduce + update) +
                       2 * kGpus * kCollective});
}

TEST_CASE("DataParallel: one loader feeds all GPUs") {
  OneNode node{.gpus = 8};
  node.loader = InputSpec{SamplesPerSecond(1000), 2, {}};
  each_step_is(process_job(node), SimTime{8 * kSamples * 1'000'000'000});
  node.loader->jitter = {DistributionKind::gamma, 0.3, {}};
  const TrainingJob job = process_job(node);
  RunSpec run;
  run.iterations = 4;
  const Result result = simulate(job, run, trace_of_first(8, 5));
  for (std::size_t i = 0; i < result.trace.size(); ++i) {  // each of whose batches is taken at once
    const TracedIteration& first =
        *std::ranges::find(result.trace, result.trace[i].iteration, &TracedIteration::iteration);
    CHECK(result.trace[i].ops.front().end == first.ops.front().end);
  }
}

// (n - 1) P each way with copies.
TEST_CASE("DataParallel: the first GPU sends and is sent what all others need") {
  const OneNode node = three_tensors(DataParallelTransfers::copies);
  const std::int64_t each = node.outputs * kSamples * kElementBytes;
  std::int64_t out = 0, in = 0;
  for_each_message(process_job(node), [&](const Op& op, std::uint32_t from, std::uint32_t to) {
    out += from == 0 ? op.bytes.value : 0;
    in += to == 0 && from < 4 ? op.bytes.value : 0;
  });
  CHECK(out == 3 * (3 * kTensor + each));
  CHECK(in == 3 * (3 * kTensor + each));
}

// NCCL's chain leads through all GPUs: P each way, beside outputs and their gradients.
TEST_CASE("DataParallel: along NCCL's chain the first GPU sends and is sent the parameters once") {
  const Scenario scenario = parse_scenario(
      R"({"cluster": "dgx-a100", "model": "vgg16", "training": {"batch_per_gpu": 32, "strategy": "data_parallel"}})",
      "chain.json");
  Machines machines;
  const auto [topology, job] = machines.build(scenario);
  const LinkTraffic traffic = link_traffic(*topology, job, {});
  double up = 0, down = 0;
  for (std::uint32_t l = 0; l < topology->links(); ++l) {
    const Link& link = topology->link(LinkId(l));
    const LinkClass kind = class_of(*topology, LinkId(l));
    up += kind == LinkClass::nvlink_up && link.from == topology->gpu_of(Rank(0)) ? traffic.bytes[l] : 0;
    down += kind == LinkClass::nvlink_down && link.to == topology->gpu_of(Rank(0)) ? traffic.bytes[l] : 0;
  }
  const auto expected =
      static_cast<double>(kElementBytes * (parameter_count(scenario.model) + 7 * 32 * 1000));
  CHECK(up == Approx(expected).epsilon(1e-9));
  CHECK(down == Approx(expected).epsilon(1e-9));
}

TEST_CASE("DataParallel: a trace has what belongs to no layer, too") {
  const Scenario scenario = parse_scenario(
      R"({"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 8, "strategy": "data_parallel"}})",
      "trace.json");
  const Prediction p = predict(scenario, trace_of_first(8, 2));
  const std::string trace = trace_json(p);
  for (const char* kernel :
       {"\"loss\"", "\"flatten\"", "\"forward fc\"", "\"optimizer\"", "Broadcast", "Reduce_Sum"}) {
    CHECK_THAT(trace, Catch::Contains(kernel));
  }
}

TEST_CASE("DataParallel: reduced chunks are closed before they exceed the limit") {
  using Counts = std::vector<std::size_t>;
  const auto of = [](std::vector<std::int64_t> sizes) {
    std::vector<Bytes> bytes;
    for (const std::int64_t size : sizes) {
      bytes.emplace_back(size);
    }
    return reduced_chunks(bytes, Bytes(10));
  };
  CHECK(of({}).empty());
  CHECK(of({3}) == Counts{1});
  CHECK(of({5, 5}) == Counts{2});               // exactly the limit
  CHECK(of({5, 6}) == Counts{1, 1});            // one more
  CHECK(of({20, 1, 9, 1}) == Counts{1, 2, 1});  // larger than it by itself
  CHECK(of({1, 20, 1}) == Counts{1, 1, 1});
  CHECK(of({0, 0, 20, 0}) == Counts{3, 1});  // an empty chunk is not closed
}

TEST_CASE("DataParallel: the first GPU also holds outputs, sums and the optimizer's state") {
  const OneNode node = three_tensors(DataParallelTransfers::nccl);
  const Workload work = process_work(node);
  const GpuMemory memory = memory_of(DataParallelSpec{}, work.model, work.training, {1, 4});
  const GpuMemory alone = memory_of(DataParallelSpec{}, work.model, work.training, {1, 1});
  CHECK(memory.model_states() == alone.model_states());
  CHECK(memory.optimizer == Bytes(3 * kTensor));
  CHECK(memory.buckets == Bytes(3 * kTensor));
  CHECK(memory.gathered == Bytes(2 * 4 * node.outputs * kSamples * kElementBytes));
  CHECK(memory.activations == alone.activations);
}

}  // namespace
}  // namespace paceline
