// The event engine's loop allocates nothing: counted, not believed.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "random_job.h"
#include "sim/engine/event_engine.h"
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
    EventEngine engine(random.job, random.run);
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

}  // namespace
}  // namespace paceline
