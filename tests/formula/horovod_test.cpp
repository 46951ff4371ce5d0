// Horovod: its fusion rule by hand and against a second implementation, and its steps against closed forms and a
// recursion written from the rules. All-reduces take a time that is known, whoever takes part.
#include "sim/strategy/horovod.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "horovod_case.h"
#include "sim/collective/fusion.h"
#include "tests/dice.h"
#include "tests/error_of.h"
#include "topology/topology.h"

namespace paceline {
namespace {

using namespace horovod_case;
using horovod_case::time_of;  // beside that of others
using Groups = std::vector<std::vector<std::uint32_t>>;
constexpr std::uint32_t kHalf = 1, kSingle = 0;

Groups fused(const std::vector<FusedTensor>& tensors, std::int64_t threshold) {
  return fusions(tensors, Bytes(threshold));
}

// Compression.fp16 gives gradients that are fp16 as they are.
TEST_CASE("fp16 costs nothing where gradients have that format") {
  const auto kernels_of = [](Precision gradients, bool fp16) {
    Case c{.elements = {3, 5}};
    c.horovod.fp16 = fp16;
    Workload work = workload_of(c);
    work.training.gradients = gradients;
    CollectivePlanner planner = known_planner(2);
    const TrainingJob job = build_job(work.training.horovod, work, planner);
    return std::ranges::count(job.main().steady.ops, OpKind::kernel, &Op::kind);
  };
  CHECK(kernels_of(Precision::fp16, true) == kernels_of(Precision::fp16, false));
  CHECK(kernels_of(Precision::bf16, true) == kernels_of(Precision::bf16, false) + 3);  // two casts, and back
}

// The rule once more, with the lists that Horovod has: what is skipped goes back to the front.
Groups by_lists(const std::vector<FusedTensor>& tensors, std::int64_t threshold) {
  std::deque<std::uint32_t> waiting;
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    waiting.push_back(i);
  }
  const auto size = [&](std::uint32_t i) {
    return tensors[i].bytes.value + (16 - tensors[i].bytes.value % 16) % 16;
  };
  Groups all;
  while (!waiting.empty()) {
    std::vector<std::uint32_t> group{waiting.front()};
    waiting.pop_front();
    std::int64_t held = size(group[0]), skipped = 0;
    std::vector<std::uint32_t> back;
    for (bool looking = true; looking && !waiting.empty();) {
      const std::uint32_t next = waiting.front();
      if (tensors[next].type == tensors[group[0]].type && held + size(next) <= threshold) {
        held += size(next);
        group.push_back(next);
        waiting.pop_front();
      } else {
        skipped += size(next);
        looking = held + skipped <= threshold;
        if (looking) {
          back.push_back(next);
          waiting.pop_front();
        }
      }
    }
    waiting.insert(waiting.begin(), back.begin(), back.end());
    all.push_back(group);
  }
  return all;
}

Result run(const TrainingJob& job, int iterations = 4) {
  RunSpec spec;
  spec.iterations = iterations;
  return simulate(job, spec);
}

// What is on the stream between two copies, before a host reduces, there, and after; and how many launches it takes.
struct StageTimes {
  SimTime before, on_hosts, after;
  int launches_before = 0, launches_after = 0;
};
StageTimes stages(const Case& c, Bytes bytes, bool several) {
  constexpr std::int64_t kElement = 4, kAtom = 64;
  const std::int64_t gpus = c.gpus;
  std::int64_t elements = bytes.value / kElement;
  while (several && elements % (kAtom * gpus) != 0) {
    ++elements;
  }
  const Bytes rest(elements % gpus * kElement), all(elements * kElement - rest.value);
  const Bytes mine(all.value / gpus + rest.value);
  StageTimes made;
  const auto add = [](SimTime& sum, int& launches, CollectiveKind kind, Bytes size) {
    sum += time_of(kind, size);
    launches += size.value > 0 ? 1 : 0;
  };
  add(made.before, made.launches_before, CollectiveKind::reduce_scatter, all);
  add(made.before, made.launches_before, CollectiveKind::reduce, rest);
  if (c.horovod.torus) {
    add(made.before, made.launches_before, CollectiveKind::all_reduce, mine);
  } else {
    made.on_hosts = to_sim_time(mine / kCopies.to_host) + to_sim_time(mine / kCopies.to_gpu) +
                    2 * kCopies.latency + kOnHosts * reduction(mine);
  }
  add(made.after, made.launches_after, CollectiveKind::all_gather, all);
  add(made.after, made.launches_after, CollectiveKind::broadcast, rest);
  return made;
}

// What ranks that are all alike do, from the rules: ends of iterations, and how many tensors each fusion has.
struct Expected {
  std::vector<SimTime> ends;
  std::vector<std::vector<std::size_t>> fused;
};
Expected recursion(const Case& c, int iterations) {
  const HorovodRules rules = horovod_rules(c.horovod.version);
  const TrainingJob job = job_of(c);
  const SimTime optimizer = job.main().steady.ops.back().duration;
  const SimTime update_issue = job.main().steady.ops.back().host_cost;
  const SimTime launch{c.launch_us * 1'000'000}, issue{c.collective_us * 1'000'000};
  const SimTime cycle = to_sim_time(c.horovod.cycle_time.value_or(rules.cycle));
  const SimTime agree = to_sim_time(c.horovod.negotiation);
  const Bytes threshold = fusion_buffer(c.horovod, c.gpus);
  const std::size_t layers = c.elements.size();
  Expected made;
  SimTime host, gpu, began;
  for (int i = 0; i <= iterations; ++i) {
    for (std::size_t l = 0; l < layers; ++l) {
      host += launch;
      gpu = std::max(gpu, host) + c.forward;
    }
    std::vector<SimTime> queued, exists;
    for (std::size_t l = 0; l < layers; ++l) {
      host += launch;
      gpu = std::max(gpu, host) + c.backward;
      queued.push_back(host);
      exists.push_back(gpu);
    }
    made.fused.emplace_back();
    SimTime stream;
    for (std::size_t done = 0; done < layers;) {
      const std::size_t seen =
          static_cast<std::size_t>(std::ranges::count_if(queued, [&](SimTime at) { return at <= began; }));
      SimTime now = began + agree * (i == 0 || !rules.cache ? 2 : 1);
      std::vector<FusedTensor> tensors;
      for (std::size_t t = done; t < seen; ++t) {
        tensors.push_back({Bytes(4 * c.elements[layers - 1 - t]), kSingle});
      }
      for (const std::vector<std::uint32_t>& group : by_lists(tensors, threshold.value)) {
        Bytes bytes;
        for (const std::uint32_t t : group) {
          bytes = bytes + tensors[t].bytes;
        }
        const SimTime ready = exists[done + group.back()];
        if (rules.waits_for_data) {
          now = std::max(now, ready);
        }
        const bool several = group.size() > 1;
        const SimTime copy = several ? to_sim_time(memory_time(workload_of(c).costs, 2 * bytes)) : SimTime{};
        const SimTime copy_launch = several ? launch : SimTime{};
        const StageTimes in = stages(c, bytes, several);
        if (c.horovod.hierarchical) {
          now += in.launches_before * issue + copy_launch;
          now = std::max({stream, now, ready}) + copy + in.before + in.on_hosts;
          now += in.launches_after * issue + copy_launch;
          stream = now + in.after + copy;
        } else if (c.horovod.torus) {
          now += (in.launches_before + in.launches_after) * issue + 2 * copy_launch;
          stream = std::max({stream, now, ready}) + 2 * copy + in.before + in.after;
        } else {
          now += issue + 2 * copy_launch;
          stream = std::max({stream, now, ready}) + 2 * copy + reduction(bytes);
        }
        made.fused.back().push_back(group.size());
      }
      done = std::max(done, seen);
      began = std::max(began + cycle, now);
    }
    gpu = std::max(gpu, stream);
    if (!c.horovod.async_completion) {
      const SimTime poll{rules.polls ? 1'000'000'000 : 1};
      const SimTime wait = std::max(SimTime{}, gpu - host);
      host += SimTime{(wait.ps + poll.ps - 1) / poll.ps * poll.ps};
    }
    host += update_issue;
    gpu = std::max(gpu, host) + optimizer;
    made.ends.push_back(gpu);
  }
  return made;
}

std::vector<std::vector<std::size_t>> fused_in(const Result& result) {
  std::vector<std::vector<std::size_t>> all;
  for (const std::vector<DecidedCollective>& iteration : result.decisions.iterations) {
    all.emplace_back();
    for (const DecidedCollective& each : iteration) {
      all.back().push_back(each.tensors.size());
    }
  }
  return all;
}

}  // namespace

TEST_CASE("fusion: by hand") {
  struct Row {
    std::vector<FusedTensor> tensors;
    std::int64_t threshold;
    Groups expected;
  };
  const auto all = [](std::initializer_list<std::int64_t> bytes) {
    std::vector<FusedTensor> made;
    for (const std::int64_t each : bytes) {
      made.push_back({Bytes(each), kSingle});
    }
    return made;
  };
  const auto mixed = [](std::initializer_list<std::int64_t> bytes) {  // negative: of the other type
    std::vector<FusedTensor> made;
    for (const std::int64_t each : bytes) {
      made.push_back({Bytes(std::abs(each)), each < 0 ? kHalf : kSingle});
    }
    return made;
  };
  const Row rows[] = {
      {{}, 64, {}},
      {all({16}), 64, {{0}}},
      {all({16}), 0, {{0}}},
      {all({16, 16}), 0, {{0}, {1}}},
      {all({16, 16}), 31, {{0}, {1}}},
      {all({16, 16}), 32, {{0, 1}}},  // exactly
      {all({1, 1}), 31, {{0}, {1}}},  // each is padded to 16
      {all({1, 1}), 32, {{0, 1}}},
      {all({17, 15}), 47, {{0}, {1}}},
      {all({17, 15}), 48, {{0, 1}}},
      {all({100}), 64, {{0}}},  // larger than the threshold
      {all({100, 16}), 64, {{0}, {1}}},
      {all({16, 100}), 64, {{0}, {1}}},
      {all({16, 100, 16}), 64, {{0}, {1}, {2}}},  // nothing beyond what doesn't fit
      {all({16, 48, 16}), 64, {{0, 1}, {2}}},
      {all({32, 48, 16}), 64, {{0}, {1, 2}}},
      {all({16, 16, 16, 16, 16}), 64, {{0, 1, 2, 3}, {4}}},
      {all({16, 16, 16, 16, 16}), 80, {{0, 1, 2, 3, 4}}},
      {all({16, 16, 16, 16, 16}), 48, {{0, 1, 2}, {3, 4}}},
      {all({64, 64, 64}), 64, {{0}, {1}, {2}}},
      {all({64, 64, 64}), 128, {{0, 1}, {2}}},
      {mixed({16, -16, 16}), 64, {{0, 2}, {1}}},    // past the other type
      {mixed({16, -16, 16}), 32, {{0, 2}, {1}}},    // 16 and the 16 passed: just fits
      {mixed({16, -17, 16}), 32, {{0}, {1}, {2}}},  // it doesn't
      {mixed({16, -16, -16, 16}), 48, {{0, 3}, {1, 2}}},
      {mixed({16, -16, -16, 16}), 47, {{0}, {1, 2}, {3}}},
      {mixed({16, -16, 16, -16}), 64, {{0, 2}, {1, 3}}},
      {mixed({-16, 16, -16, 16}), 64, {{0, 2}, {1, 3}}},
      {mixed({16, -100, 16}), 64, {{0}, {1}, {2}}},
      {mixed({16, -16, 100, 16}), 64, {{0}, {1}, {2}, {3}}},  // 16 + 16 + 112 passed: too much
      {mixed({16, -16, 32, 16}), 64, {{0, 2, 3}, {1}}},
      {mixed({16, -16, 64, 16}), 64, {{0}, {1}, {2}, {3}}},
  };
  for (const auto& [tensors, threshold, expected] : rows) {
    CAPTURE(threshold, tensors.size());
    CHECK(fused(tensors, threshold) == expected);
    CHECK(by_lists(tensors, threshold) == expected);
  }
  CHECK(usable_threshold(Bytes(1), 8).value == 4096);
  CHECK(usable_threshold(Bytes(4096), 8).value == 4096);
  CHECK(usable_threshold(Bytes(4097), 8).value == 8192);
  CHECK(usable_threshold(Bytes(64 << 20), 3).value == 67109376);
  CHECK(usable_threshold(Bytes(0), 4).value == 0);
}

TEST_CASE("fusion: as with Horovod's lists, on 10,000 queues at random") {
  Dice dice(7);
  for (std::uint64_t i = 0; i < rounds(10'000); ++i) {
    std::vector<FusedTensor> tensors(dice.below(30));
    for (FusedTensor& each : tensors) {
      each = {Bytes(dice.between(1, dice.maybe(0.2) ? 4000 : 200)), dice.maybe(0.3) ? kHalf : kSingle};
    }
    const std::int64_t threshold = dice.between(0, 2000);
    CAPTURE(i, threshold);
    REQUIRE(fused(tensors, threshold) == by_lists(tensors, threshold));
  }
}

// L equal layers, launches of c, kernels d >> c. The host has issued all of them after 2 L c, long before the GPU has
// computed any but a few, and queues gradient l (from the last layer on) at (L + l) c. A cycle that begins at b takes
// all with (L + l) c <= b.
TEST_CASE("Horovod in closed form: a host that runs ahead fuses nearly all, and hides nearly nothing") {
  constexpr std::int64_t kLayers = 10;
  Case c{std::vector<std::int64_t>(kLayers, 1000), SimTime{1'000'000'000}, SimTime{2'000'000'000}, 10, 20};
  c.horovod.version = "0.28";
  c.horovod.negotiation = Seconds(200e-6);
  const SimTime us{1'000'000}, ms{1'000'000'000};
  const SimTime backward_ends =
      10 * us + kLayers * 3 * ms;  // of iteration 0: the first launch, then all kernels
  const Bytes whole(4000 * kLayers);
  const SimTime copies = 2 * to_sim_time(memory_time(workload_of(c).costs, 2 * whole));
  SECTION("one cycle takes all") {
    c.horovod.cycle_time = Seconds(1e-3);  // the cycle at 1 ms finds all that were queued until 200 us
    const Result result = run(job_of(c));
    const TrainingJob job = job_of(c);
    const Op& update = job.main().steady.ops.back();
    CHECK(fused_in(result).front() == std::vector<std::size_t>{10});
    CHECK(result.iteration_end[0] ==
          backward_ends + copies + reduction(whole) + update.host_cost + update.duration);
    // Nothing overlaps: each step is compute, copies, reduction, and the host's way from the end of the wait on.
    for (std::size_t i = 1; i < result.iteration_end.size(); ++i) {
      CHECK(result.iteration_end[i] - result.iteration_end[i - 1] ==
            recursion(c, 4).ends[i] - recursion(c, 4).ends[i - 1]);
    }
  }
  SECTION("a cycle in the middle of the host's way makes two") {
    c.horovod.cycle_time =
        Seconds(155e-6);  // shorter than the negotiation of 400 us: the next begins when it ends
    const Result result = run(job_of(c), 1);
    // At 0 nothing; at 400 us all ten.
    CHECK(fused_in(result).front() == std::vector<std::size_t>{10});
    c.horovod.negotiation =
        Seconds(0);  // cycles at 0, at 155 us: queued at 110 to 150 us; at 310 us the rest
    const Result two = run(job_of(c), 1);
    CHECK(fused_in(two).front() == std::vector<std::size_t>{5, 5});
    // The first is done long before backward ends; the second runs after it.
    const SimTime late = 2 * to_sim_time(memory_time(workload_of(c).costs, 2 * Bytes(20'000)));
    const TrainingJob job = job_of(c);
    const Op& update = job.main().steady.ops.back();
    CHECK(two.iteration_end[0] ==
          backward_ends + late + reduction(Bytes(20'000)) + update.host_cost + update.duration);
    CHECK(two.decisions.iterations[0][0].decided == SimTime{155'000'000});
    CHECK(two.decisions.iterations[0][0].queued == SimTime{150'000'000});
  }
  SECTION("the threshold makes more of them") {
    c.horovod.cycle_time = Seconds(1e-3);
    c.horovod.fusion_threshold = Bytes(3 * 4000 + 500);  // rounded up to 12,800: three of 4,000
    const Result result = run(job_of(c));
    CHECK(fused_in(result).front() == std::vector<std::size_t>{3, 3, 3, 1});
    CHECK(result.iteration_end == recursion(c, 4).ends);
  }
}

TEST_CASE(
    "Horovod in closed form: gradients go in the first cycle after they are queued where hosts are slow") {
  // c >> d: each gradient is there as soon as it is queued. Cycles of T, so a gradient waits T / 2 on average.
  Case c{std::vector<std::int64_t>(200, 250), SimTime{1000}, SimTime{1000}, 997, 0};
  c.horovod.cycle_time = Seconds(0.7031e-3);
  c.horovod.negotiation = Seconds(100e-6);
  const Result result = run(job_of(c), 1);
  double waited = 0;
  std::size_t tensors = 0;
  for (const DecidedCollective& each : result.decisions.iterations[1]) {
    REQUIRE(each.tensors.size() == 1);
    const SimTime began = each.decided - SimTime{100'000'000};
    REQUIRE(began - each.queued < SimTime{703'100'000});
    REQUIRE(began >= each.queued);
    waited += static_cast<double>((began - each.queued).ps) * 1e-12;
    ++tensors;
  }
  CHECK(tensors == 200);
  CHECK(waited / static_cast<double>(tensors) == Approx(0.7031e-3 / 2).epsilon(0.02));
}

// As before, all in one fusion of 40,000 B, that four GPUs of a node share: 10,240 elements, 10,240 B for each.
TEST_CASE("Horovod in closed form: stages, one after the other") {
  Case c{std::vector<std::int64_t>(10, 1000), SimTime{1'000'000'000}, SimTime{2'000'000'000}, 10, 20};
  c.nodes = 2;
  c.gpus = 4;
  c.horovod.cycle_time = Seconds(1e-3);
  const SimTime us{1'000'000}, ms{1'000'000'000};
  const SimTime backward_ends = 10 * us + 10 * 3 * ms;
  const SimTime copies = 2 * to_sim_time(memory_time(workload_of(c).costs, 2 * Bytes(40'000)));
  const SimTime in_nodes{(410 + 370) * 40'960};
  SECTION("torus") {
    c.horovod.torus = true;
    const TrainingJob job = job_of(c);
    const Op& update = job.main().steady.ops.back();
    CHECK(run(job).iteration_end[0] ==
          backward_ends + copies + in_nodes + SimTime{1000 * 10'240} + update.host_cost + update.duration);
  }
  SECTION("hierarchical: the gather and the copy out are launched when hosts have reduced") {
    c.horovod.hierarchical = true;
    const TrainingJob job = job_of(c);
    const Op& update = job.main().steady.ops.back();
    const SimTime there_and_back{1250 * 10'240 + 2000 * 10'240 + 2 * 3'000'000};
    CHECK(run(job).iteration_end[0] == backward_ends + copies + in_nodes + there_and_back +
                                           SimTime{5 * 1000 * 10'240} + 20 * us + 10 * us + update.host_cost +
                                           update.duration);
  }
  SECTION(
      "one tensor isn't lengthened: the last GPU has what is left over, which the node reduces and "
      "broadcasts") {
    c.horovod.hierarchical = true;
    c.elements = {1003};
    const TrainingJob job = job_of(c);
    const Op& update = job.main().steady.ops.back();
    const SimTime rest{(730 + 690) * 12}, mine{(1250 + 2000 + 5 * 1000) * 1012 + 2 * 3'000'000};
    CHECK(run(job).iteration_end[0] == 10 * us + 3 * ms + SimTime{(410 + 370) * 4000} + rest + mine +
                                           2 * 20 * us + update.host_cost + update.duration);
  }
  SECTION("the background thread begins no cycle while hosts reduce") {
    c.horovod.hierarchical = true;
    c.elements.assign(3, 100'000);  // each alone: 400,000 B and 1.6 ms of hosts' all-reduce and copies
    c.horovod.fusion_threshold = Bytes(0);
    c.forward = c.backward = SimTime{1};
    const Result result = run(job_of(c), 1);
    CHECK(result.iteration_end == recursion(c, 1).ends);
    const auto& made = result.decisions.iterations[0];
    REQUIRE(made.size() == 3);
    CHECK(made[1].start > made[0].end - SimTime{370 * 400'000} - 20 * us);
  }
}

TEST_CASE("what each GPU of a node has of a fusion") {
  CHECK(node_parts(Bytes(4 * 1003), 4, false, 4) == NodeParts{Bytes(1000), Bytes(12)});
  CHECK(node_parts(Bytes(4 * 1003), 4, true, 4) == NodeParts{Bytes(1024), Bytes(0)});
  CHECK(node_parts(Bytes(12), 4, false, 4) == NodeParts{Bytes(0), Bytes(12)});
  CHECK(node_parts(Bytes(2 * 64 * 8), 2, true, 8) == NodeParts{Bytes(128), Bytes(0)});
  CHECK(node_parts(Bytes(2 * 64 * 8 + 2), 2, true, 8) == NodeParts{Bytes(256), Bytes(0)});
  CHECK(node_parts(Bytes(400), 4, false, 1) == NodeParts{Bytes(400), Bytes(0)});
}

// Eight GPUs, two on each PCIe switch, two switches on each CPU. What all copy at once passes a switch's link to its CPU
// two by two, and a CPU's memory, three times, four by four.
TEST_CASE("what GPUs copy to their hosts shares PCIe and memory") {
  ClusterUse use;
  use.cluster.node = node_preset("pcie-a100");
  use.cluster.node.pcie_bandwidth = BytesPerSecond(12e9);
  use.cluster.gpus_per_node = static_cast<int>(use.cluster.node.gpus);
  use.cluster.nodes = 2;
  REQUIRE(use.cluster.node.gpus == 8);
  const Topology topology = build_topology(use.cluster);
  REQUIRE(topology.node().count(DeviceKind::cpu) == 2);
  REQUIRE(topology.node().count(DeviceKind::pcie_switch) == 4);
  Case c{{1000}, SimTime{1000}, SimTime{1000}, 1, 1};
  c.horovod.hierarchical = true;
  for (const auto& [memory, rate] : {std::pair{100e9, 6e9}, {60e9, 5e9}}) {
    c.horovod.memory_bandwidth = BytesPerSecond(memory);
    CollectivePlanner planner = collective_planner(topology, use);
    TrainingJob job = build_job(c.horovod, workload_of(c), planner);
    place_hosts(topology, use, c.horovod, job);
    REQUIRE(job.negotiation->copies.size() == 16);
    REQUIRE(job.negotiation->hosts);
    for (std::size_t r = 0; r < 16; ++r) {
      CAPTURE(r);
      const HostCopy& copy = job.negotiation->copies[r];
      CHECK(copy.to_host.value == Approx(rate));
      CHECK(copy.to_gpu.value == Approx(rate));
      CHECK(topology.device_name(copy.host) ==
            "node" + std::to_string(r / 8) + "/cpu" + std::to_string(r % 8 / 4));
      CHECK(copy.latency == SimTime{600'000});
    }
  }
}

TEST_CASE("Horovod's stages are refused where it has none") {
  Case c{{1000}, SimTime{1000}, SimTime{1000}, 1, 1};
  c.gpus = 2;
  const auto error = [&] { return error_of([&] { job_of(c); }); };
  c.horovod.hierarchical = true;
  c.horovod.version = "0.14";
  CHECK(error() ==
        "/training/horovod/hierarchical: expected a version of Horovod from 0.15 on, which has it so, found "
        "\"0.14\"");
  c.horovod.version = "0.15.2";
  CHECK(error().empty());
  c.nodes = 1;
  CHECK(error() ==
        "/training/horovod/hierarchical: expected several nodes, found one, where Horovod leaves it out: set "
        "it to false");
  c.horovod.torus = true;
  CHECK(error() == "/training/horovod/torus: expected either hierarchical or torus, found both");
  c.horovod.hierarchical = false;
  c.nodes = 2;
  CHECK(error() ==
        "/training/horovod/torus: expected a version of Horovod from 0.26 on, which has it so, found "
        "\"0.15.2\"");
  c.horovod.version = "0.26";
  CHECK(error().empty());
}

TEST_CASE("Horovod as the recursion has it, on jobs at random") {
  Dice dice(11);
  for (std::uint64_t i = 0; i < rounds(2000); ++i) {
    const Case c = random_case(dice);
    CAPTURE(i, c.horovod.version, c.elements.size());
    const Result result = run(job_of(c), 3);
    const Expected expected = recursion(c, 3);
    REQUIRE(fused_in(result) == expected.fused);
    for (std::size_t k = 0; k < expected.ends.size(); ++k) {
      CAPTURE(k);
      REQUIRE(result.iteration_end[k].ps == expected.ends[k].ps);
    }
  }
}

// Rank 1 computes x longer before its second gradient exists. These all-reduces wait for nobody: what holds up the
// others is the negotiation alone.
TEST_CASE("Horovod: a rank that is late by x delays all ranks' fusions from there on by x, and no earlier") {
  Case c{{1000, 2000, 3000}, SimTime{40'000'000}, SimTime{300'000'000}, 1, 0};
  c.horovod.cycle_time = Seconds(10.37e-6);
  c.horovod.negotiation = Seconds(1e-6);
  c.horovod.fusion_threshold = Bytes(0);
  c.horovod.version = "0.22";  // the background thread waits for data, so it asks late
  TrainingJob late = job_of(c, 3);
  late.roles.push_back(late.roles.front());
  late.members = {{0, {}}, {1, {}}, {0, {}}};
  const SimTime x{77'000'000'000};
  for (Program* program : {&late.roles[1].threads.front().warm_up, &late.roles[1].threads.front().steady}) {
    const std::uint32_t op = late.negotiation->tensors[1].after_op;
    program->ops[op].duration += x;
  }
  const Result with = run(late, 1), without = run(job_of(c, 3), 1);
  const auto& of = with.decisions.iterations[0];
  const auto& base = without.decisions.iterations[0];
  REQUIRE(of.size() == 3);
  CHECK(of[0].start == base[0].start);
  CHECK(of[0].end == base[0].end);
  CHECK(of[1].start == base[1].start + x);
  CHECK(of[2].end == base[2].end + x);
  CHECK(with.iteration_end[0] == without.iteration_end[0] + x);
}

TEST_CASE("Horovod's versions") {
  CHECK(horovod_rules("0.9").cache == false);
  CHECK(horovod_rules("0.15.2").polls);
  CHECK(horovod_rules("0.19.5").polls);
  CHECK(horovod_rules("0.21.0rc1").threshold.value == 128 << 20);
  CHECK_FALSE(horovod_rules("0.20").polls);
  CHECK(horovod_rules("0.20.3").threshold.value == 64 << 20);
  CHECK(horovod_rules("0.21").threshold.value == 128 << 20);
  CHECK(horovod_rules("0.22.1").waits_for_data);
  CHECK_FALSE(horovod_rules("0.28").waits_for_data);
  for (const std::string wrong : {"0.8", "0.29", "1.0", "0.", "", "0.2x", "zero"}) {
    CHECK(error_of([&] { horovod_rules(wrong); }) ==
          "expected a version of Horovod from 0.9 to 0.28, found \"" + wrong + '"');
  }
}

}  // namespace paceline
