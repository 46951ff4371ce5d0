// Asynchronous parameter servers at scale: 100 iterations of 100 MB on W workers, each with a NIC of its own, and ten
// servers; lognormal jitter on every kernel. (0: W; 1: milliseconds of a worker's kernels. With few the servers are what
// limits, with many nobody waits.)
#include <benchmark/benchmark.h>

#include "sim/engine/simulate.h"
#include "sim/strategy/parameter_server.h"

namespace paceline {
namespace {

TrainingJob served_job(std::uint32_t workers, std::int64_t milliseconds) {
  constexpr std::uint32_t kServers = 10;
  constexpr BytesPerSecond kNic(12.5e9);
  const SimTime each{milliseconds * 500'000'000};
  Workload work;
  work.model.layers = {{.name = "layer", .parameters = {25'000'000}}};
  work.layers = {{each, each, 1, 1}};
  work.variability.per_operation = {DistributionKind::lognormal, 0.1, {}};
  ParameterServerSpec spec;
  spec.servers.count = kServers;
  spec.consistency.kind = Consistency::Kind::asynchronous;
  spec.partition = Bytes(10'000'000);
  spec.overlap = ServerOverlap::none;
  TrainingJob job;
  job.communicator.ranks = workers;
  job.variability = work.variability;
  add_parameter_server_programs(spec, {{work}}, {workers, 1}, job);
  job.communicator.shared_capacity.assign(2 * job.member_count(), kNic);
  for (std::uint32_t from = 0; from < job.member_count(); ++from) {
    for (std::uint32_t to = 0; to < job.member_count(); ++to) {
      if ((from < workers) != (to < workers)) {
        job.routes.push_back({from, to, SimTime{3'000'000}, kNic, {LinkId(2 * from), LinkId(2 * to + 1)}});
      }
    }
  }
  return job;
}

void asynchronous_servers(benchmark::State& state) {
  const TrainingJob job = served_job(static_cast<std::uint32_t>(state.range(0)), state.range(1));
  RunSpec run;
  run.iterations = 100;
  std::uint64_t events = 0, pushes = 0;
  for (auto _ : state) {
    const Result result = simulate(job, run);
    events += result.events;
    pushes += result.served.first.pushes + result.served.later.pushes;
  }
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
  state.counters["pushes/s"] = benchmark::Counter(static_cast<double>(pushes), benchmark::Counter::kIsRate);
}
BENCHMARK(asynchronous_servers)
    ->Args({1000, 34})
    ->Args({1000, 3400})
    ->Args({10'000, 34})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace
}  // namespace paceline
