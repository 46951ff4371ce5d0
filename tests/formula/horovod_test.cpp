// Horovod: its fusion rule by hand and against a second implementation, and its steps against closed forms and a
// recursion written from the rules. All-reduces take a time that is known, whoever takes part.
#include "sim/strategy/horovod.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "sim/collective/fusion.h"
#include "sim/engine/simulate.h"
#include "sim/strategy/build_job.h"
#include "tests/dice.h"
#include "tests/error_of.h"

namespace paceline {
namespace {

using Groups = std::vector<std::vector<std::uint32_t>>;
constexpr std::uint32_t kHalf = 1, kSingle = 0;

Groups fused(const std::vector<FusedTensor>& tensors, std::int64_t threshold) {
  return fusions(tensors, Bytes(threshold));
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

constexpr std::int64_t kPsPerByte = 1000;  // of an all-reduce

SimTime reduction(Bytes bytes) { return SimTime{kPsPerByte * bytes.value}; }

CollectivePlanner known_planner(std::uint32_t nodes, std::uint32_t gpus_per_node = 1) {
  Communicator start;
  start.ranks = nodes * gpus_per_node;
  CollectiveGraph nothing;
  nothing.ranks = start.ranks;
  start.graphs.push_back(std::move(nothing));
  return {std::move(start), {nodes, gpus_per_node}, [](Communicator&, const CollectiveRequest& request) {
            CollectivePlan plan;
            plan.kind = request.kind;
            plan.bytes = request.bytes;
            plan.startup = reduction(request.bytes);
            return plan;
          }};
}

struct Case {
  std::vector<std::int64_t> elements;  // of each layer's tensor, in the model's order
  SimTime forward{}, backward{};       // of each layer
  std::int64_t launch_us = 0, collective_us = 0;
  HorovodSpec horovod{};
};

Workload workload_of(const Case& c) {
  Workload work;
  work.training.strategy = StrategyKind::horovod;
  work.training.horovod = c.horovod;
  work.training.host = {Seconds(1e-6 * static_cast<double>(c.launch_us)),
                        Seconds(1e-6 * static_cast<double>(c.collective_us)), 1};
  work.training.batch_per_gpu = 1;
  work.costs.gpu.memory_bandwidth = BytesPerSecond(1e12);
  for (const std::int64_t elements : c.elements) {
    Layer layer;
    layer.name = "layer " + std::to_string(work.model.layers.size());
    layer.parameters = {elements};
    work.model.layers.push_back(layer);
    work.layers.push_back({c.forward, c.backward, 1, 1});
  }
  return work;
}

TrainingJob job_of(const Case& c, std::uint32_t ranks = 2) {
  CollectivePlanner planner = known_planner(ranks);
  return build_job(c.horovod, workload_of(c), planner);
}

Result run(const TrainingJob& job, int iterations = 4) {
  RunSpec spec;
  spec.iterations = iterations;
  return simulate(job, spec);
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
  const Bytes threshold = fusion_buffer(c.horovod, 1);
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
        now += issue + (group.size() > 1 ? 2 * launch : SimTime{});
        const SimTime copies =
            group.size() > 1 ? 2 * to_sim_time(memory_time(workload_of(c).costs, 2 * bytes)) : SimTime{};
        stream = std::max({stream, now, ready}) + copies + reduction(bytes);
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

TEST_CASE("Horovod as the recursion has it, on jobs at random") {
  Dice dice(11);
  const std::string versions[] = {"0.9", "0.15", "0.16", "0.19", "0.20", "0.21", "0.22", "0.23", "0.28"};
  for (std::uint64_t i = 0; i < rounds(2000); ++i) {
    Case c;
    c.elements.resize(1 + dice.below(12));
    for (std::int64_t& each : c.elements) {
      each = dice.between(1, 3000);
    }
    c.forward = SimTime{dice.between(1, 3'000'000) * 101};
    c.backward = SimTime{dice.between(1, 6'000'000) * 103};
    c.launch_us = dice.between(1, 40);
    c.collective_us = dice.between(0, 60);
    c.horovod.version = dice.one_of(versions);
    // Never at one moment with a host, whose times are whole microseconds at first.
    c.horovod.cycle_time = Seconds(1e-9 * (static_cast<double>(dice.between(10, 3000)) * 1000 + 0.137));
    c.horovod.negotiation = Seconds(1e-9 * (static_cast<double>(dice.between(0, 300)) * 1000 + 0.211));
    c.horovod.fusion_threshold = Bytes(dice.between(0, 30'000));
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
