// The event engine's loop allocates nothing: counted, not believed.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "random_job.h"
#include "sim/engine/event_engine.h"
#include "sim/network/flow_network.h"
#include "tests/ddp_job.h"

namespace {
std::atomic<std::int64_t> allocations{0};
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace paceline {
namespace {

TEST_CASE("the event loop allocates nothing") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const RandomJob random = random_job(seed, 32);
    EventEngine engine(random.job, random.run, {}, AlikeSteps::repeated, CollectiveEnds::by_steps);
    const std::int64_t before = allocations;
    engine.run();
    const std::int64_t made = allocations - before;
    INFO("seed " << seed);
    CHECK(made == 0);
  }
}

TEST_CASE(
    "the event loop allocates nothing with shared links after the first iterations have found their sizes") {
  ClusterSpec spec;
  spec.node = node_preset("dgx-a100");
  spec.nodes = 2;
  const Topology topology = build_topology(spec);
  const std::vector<BackgroundFlow> background{{0, 9, BytesPerSecond(5e9)}, {3, 12, BytesPerSecond(9e9)}};
  Dice dice(6);
  const TrainingSpec training;
  CollectivePlanner planner = nccl_planner(topology, training.collective, background);
  const TrainingJob job = ddp_job(random_model(dice), gpu_preset("A100-80GB"), training, {}, planner);
  const auto allocations_in = [&](int iterations) {
    RunSpec run;
    run.iterations = iterations;
    EventEngine engine(job, run);
    const std::int64_t before = allocations;
    engine.run();
    return allocations - before;
  };
  CHECK(allocations_in(20) == allocations_in(2));
}

TEST_CASE("many flows into one port allocate nothing once as many have been there") {
  FlowNetwork network({BytesPerSecond(25e9), BytesPerSecond(30e9)}, 1);
  const std::vector<LinkId> port{LinkId(0), LinkId(1)};
  std::vector<FlowId> flows(64);
  std::vector<std::uint64_t> ended;
  ended.reserve(flows.size());
  Dice dice(1);
  SimTime now;
  std::size_t crowds = 0;
  const auto start = [&](std::uint64_t tag) {
    const BytesPerSecond cap(dice.maybe(0.5) ? 25e9 : dice.real(1e8, 1e9));
    flows[tag] = network.start(port, cap, Bytes(dice.between(1, 10'000'000)), tag, now, Clock::shared);
  };
  // All start at once, each that ends is followed by another, at last all are stopped and the crowd is gone.
  const auto fill_and_empty = [&] {
    dice = Dice(1);
    for (std::uint64_t tag = 0; tag < flows.size(); ++tag) {
      start(tag);
    }
    network.share(now);
    crowds += network.crowds();
    for (int end = 0; end < 500; ++end) {
      now = *network.next();
      ended.clear();
      network.take_ended(now, ended);
      for (const std::uint64_t tag : ended) {
        start(tag);
      }
      network.share(now);
    }
    for (const FlowId flow : flows) {
      network.stop(flow, now);
    }
    network.share(now);
  };
  fill_and_empty();
  fill_and_empty();
  const std::int64_t before = allocations;
  for (int again = 0; again < 10; ++again) {
    fill_and_empty();
  }
  CHECK(allocations == before);
  CHECK(crowds == 12);
  CHECK(network.crowds() == 0);
}

TEST_CASE("many flows into several ports allocate nothing once as many have been there") {
  // Workers' links hold nobody back while enough flows wait at each port, and else do.
  constexpr std::size_t kServers = 3, kWorkers = 12;
  FlowNetwork network(std::vector<BytesPerSecond>(kServers + kWorkers, BytesPerSecond(25e9)), 1);
  std::vector<FlowId> flows(kServers * kWorkers);
  std::vector<std::uint64_t> ended;
  ended.reserve(flows.size());
  Dice dice(1);
  SimTime now;
  std::size_t with_crowds = 0, without = 0;
  const auto start = [&](std::uint64_t tag) {
    const LinkId links[] = {LinkId(kServers + tag / kServers), LinkId(tag % kServers)};
    const BytesPerSecond cap(dice.maybe(0.8) ? 25e9 : dice.real(1e9, 4e9));
    flows[tag] = network.start(links, cap, Bytes(dice.between(1, 10'000'000)), tag, now, Clock::shared);
  };
  const auto share = [&] {
    network.share(now);
    ++(network.crowds() > 0 ? with_crowds : without);
  };
  const auto fill_and_empty = [&] {
    dice = Dice(1);
    for (std::uint64_t tag = 0; tag < flows.size(); ++tag) {
      start(tag);
      share();
    }
    for (int end = 0; end < 300; ++end) {
      now = *network.next();
      ended.clear();
      network.take_ended(now, ended);
      for (const std::uint64_t tag : ended) {
        start(tag);
      }
      share();
    }
    for (const FlowId flow : flows) {
      network.stop(flow, now);
      share();
    }
  };
  // Tables are reused for others than before: a few rounds until each has been as large as any.
  for (int warm_up = 0; warm_up < 10; ++warm_up) {
    fill_and_empty();
  }
  const std::int64_t before = allocations;
  for (int again = 0; again < 10; ++again) {
    fill_and_empty();
  }
  CHECK(allocations == before);
  CHECK(with_crowds > 20 * 300);
  CHECK(without > 20 * 10);
  CHECK(network.crowds() == 0);
}

}  // namespace
}  // namespace paceline
