// Events per second of the event engine on one ring all-reduce.
#include <benchmark/benchmark.h>

#include "../engines/test_planner.h"
#include "sim/engine/event_engine.h"

namespace paceline {
namespace {

// One all-reduce of 256 MiB on a single ring, and nothing else.
TrainingJob ring_job(std::size_t ranks) {
  CollectivePlanner planner =
      ring_planner(std::vector<HopCost>(ranks, {BytesPerSecond(46e9), SimTime{5'000'000}, {}}));
  TrainingJob job;
  job.plans = {planner.plan(CollectiveKind::all_reduce, Bytes(256 << 20))};
  job.communicator = planner.communicator();
  job.main().steady.collectives = {0};
  job.main().steady.ops = {{OpKind::collective, 0, {}, {}, "all_reduce"}, {OpKind::wait, 0, {}, {}, "wait"}};
  job.main().warm_up = job.main().steady;
  return job;
}

void event_engine_ring(benchmark::State& state) {
  const TrainingJob job = ring_job(static_cast<std::size_t>(state.range(0)));
  RunSpec run;
  run.iterations = 1;
  std::uint64_t events = 0;
  for (auto _ : state) {
    state.PauseTiming();
    EventEngine engine(job, run, {}, AlikeSteps::repeated, CollectiveEnds::by_steps);
    state.ResumeTiming();
    engine.run();
    state.PauseTiming();
    events += engine.finish().events;
    state.ResumeTiming();
  }
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}
BENCHMARK(event_engine_ring)->Arg(64)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace paceline
