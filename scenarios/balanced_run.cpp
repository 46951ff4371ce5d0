#include "scenarios/balanced_run.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/fingerprint.h"
#include "scenarios/gpu_memory.h"
#include "sim/strategy/balance.h"

namespace paceline {
namespace {

// The largest batch of each rank that its GPU's memory, or the limit, holds.
std::vector<std::int64_t> most_samples(const Scenario& s, std::int64_t total) {
  const std::int64_t per_node = gpus_of_node(s.cluster);
  std::vector<GpuKind> kinds = s.gpus;
  if (kinds.empty()) {
    kinds.push_back({nodes_of_job(s.cluster), s.gpu, {}});
  }
  std::vector<std::int64_t> most;
  for (const GpuKind& kind : kinds) {
    Scenario one = s;
    one.gpu = kind.gpu;
    one.gpus.clear();
    one.cluster.runs.clear();
    const Bytes limit = s.training.balance->limit.value > 0 ? s.training.balance->limit : kind.gpu.memory;
    std::int64_t low = 1, high = total + 1;  // the first fits, the last doesn't
    while (limit.value > 0 && high - low > 1) {
      one.training.batch_per_gpu = low + (high - low) / 2;
      (memory_of(one).total() <= limit ? low : high) = one.training.batch_per_gpu;
    }
    most.insert(most.end(), static_cast<std::size_t>(kind.nodes * per_node), limit.value > 0 ? low : total);
  }
  return most;
}

// A run that goes on. Its first iteration, which ends with all GPUs together, doesn't count.
void append(Result& run, const Result& more) {
  const SimTime shift = run.iteration_end.back() - more.iteration_end.front();
  for (std::size_t i = 1; i < more.iteration_end.size(); ++i) {
    run.iteration_end.push_back(more.iteration_end[i] + shift);
    run.last_to_end.push_back(more.last_to_end[i]);
  }
  for (std::size_t r = 0; r < run.breakdown.size(); ++r) {
    for (SimTime Breakdown::* part :
         {&Breakdown::compute, &Breakdown::exposed_communication, &Breakdown::straggler_wait,
          &Breakdown::server_wait, &Breakdown::input_wait, &Breakdown::other}) {
      run.breakdown[r].*part += more.breakdown[r].*part;
    }
    run.blame[r].count += more.blame[r].count;
    run.blame[r].total += more.blame[r].total;
    run.waited_for[r] += more.waited_for[r];
    run.as_late_as[r] = run.as_late_as[r] == Rank(r) ? more.as_late_as[r] : run.as_late_as[r];
  }
  for (std::size_t k = 0; k < run.timing.size(); ++k) {
    for (SimTime CollectiveTiming::* time :
         {&CollectiveTiming::ready, &CollectiveTiming::launch, &CollectiveTiming::end}) {
      run.timing[k].*time += more.timing[k].*time;
    }
    run.waits[k].straggler += more.waits[k].straggler;
    run.waits[k].exposed += more.waits[k].exposed;
  }
  run.last_to_launch.insert(run.last_to_launch.end(), more.last_to_launch.begin(), more.last_to_launch.end());
  run.fingerprint = mix64(run.fingerprint ^ more.fingerprint);
  run.events += more.events;
}

}  // namespace

BalancedRun run_balanced(Scenario scenario, Machines& machines, const StepProgress& progress) {
  const BalanceSpec balance = *scenario.training.balance;
  const std::int64_t total = gpus_of_job(scenario.cluster) * scenario.training.batch_per_gpu;
  const std::vector<std::int64_t> most = most_samples(scenario, total);
  if (const std::int64_t held = std::accumulate(most.begin(), most.end(), std::int64_t{0}); held < total) {
    const bool limited = balance.limit.value > 0;
    throw InputError(std::string("expected ") + (limited ? "a limit" : "GPUs") + " that hold" +
                         (limited ? "s " : " ") + std::to_string(total) +
                         " samples together, found room for " + std::to_string(held) +
                         (limited ? ""
                                  : "; fewer samples (batch_per_gpu), activations that are recomputed "
                                    "(activation_checkpointing) or a strategy that shards (fsdp) take less"),
                     limited ? "/training/balance/limit" : "/training/balance");
  }
  const int iterations = scenario.run.iterations;
  constexpr int kMostWindows = 10'000;
  if (iterations / balance.window > kMostWindows) {
    throw InputError("expected at most " + std::to_string(kMostWindows) + " windows, found " +
                         std::to_string(iterations / balance.window),
                     "/training/balance/window");
  }
  pin_rates(scenario);
  scenario.training.batches.assign(most.size(), scenario.training.batch_per_gpu);
  for (std::size_t r = 0; r < most.size(); ++r) {
    if (most[r] < scenario.training.batch_per_gpu) {  // some can't begin as all do
      scenario.training.batches = balanced_batches(std::vector<double>(most.size(), 1.0), most, total);
      break;
    }
  }
  std::optional<BalancedRun> all;
  for (int done = 0; done < iterations; done += balance.window) {
    scenario.run.iterations = std::min(balance.window, iterations - done);
    scenario.variability.first_iteration = static_cast<std::uint32_t>(done);
    auto [topology, job] = machines.build(scenario);
    const auto tell = [&](std::size_t steps, std::size_t) {  // a window's first step doesn't count
      progress(static_cast<std::size_t>(done) + steps - 1, static_cast<std::size_t>(iterations));
    };
    Result result = simulate(job, scenario.run, {}, progress ? StepProgress(tell) : StepProgress{});
    std::vector<double> speeds;
    for (std::size_t r = 0; r < most.size(); ++r) {
      speeds.push_back(static_cast<double>(scenario.training.batches[r]) /
                       std::max(to_seconds(result.breakdown[r].compute).value, 1e-12));
    }
    if (all) {
      append(all->result, result);
      all->job = std::move(job);
    } else {
      all = BalancedRun{topology, std::move(job), std::move(result), {}};
    }
    all->batches = scenario.training.batches;
    scenario.training.batches = balanced_batches(speeds, most, total);
  }
  return std::move(*all);
}

}  // namespace paceline
