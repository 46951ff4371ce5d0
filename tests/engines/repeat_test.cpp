// Is what an engine repeats what it would have simulated, to the picosecond?
#include <catch2/catch.hpp>

#include "random_job.h"
#include "same_result.h"
#include "sim/collective/equal_thread_blocks.h"
#include "sim/engine/event_engine.h"
#include "sim/engine/vector_engine.h"
#include "tests/dice.h"

namespace paceline {
namespace {

struct Ran {
  Result result;
  std::uint32_t repeated = 0;
};
Ran ran(const RandomJob& random, AlikeSteps alike, const TraceRequest& trace = {}) {
  EventEngine engine(random.job, random.run, trace, alike);
  engine.run();
  return {engine.finish(), engine.repeated()};
}

// Draws nothing from step to step; slow GPUs stay slow.
void calm(TrainingJob& job) {
  job.variability.per_iteration = job.variability.per_operation = job.variability.per_step = {};
  job.variability.transient.clear();
  if (job.input) {
    job.input->jitter = {};
  }
}

// Sends FIFOs over links that they share with each other and with other traffic; in half of the cases those of alike
// channels over the same ones.
void share_links(Dice& dice, Communicator& communicator) {
  const auto any_link = [&] {
    return LinkId(dice.between(0, static_cast<std::int64_t>(communicator.shared_capacity.size()) - 1));
  };
  for (std::int64_t links = dice.between(1, 6); links > 0; --links) {
    communicator.shared_capacity.emplace_back(dice.real(5e8, 5e10));
  }
  for (std::int64_t flows = dice.between(0, 3); flows > 0; --flows) {
    communicator.background.push_back({{any_link()}, BytesPerSecond(dice.real(1e8, 5e9))});
  }
  GraphList shared;
  const bool alike = dice.maybe(0.5);
  for (std::size_t g = 0; g < communicator.graphs.size(); ++g) {
    CollectiveGraph graph = communicator.graphs[g];
    const std::size_t places = alike ? graph.fifos.size() / graph.channels : graph.fifos.size();
    std::vector<std::vector<LinkId>> links(places);
    for (std::vector<LinkId>& of_place : links) {
      if (dice.maybe(0.4)) {
        of_place = {any_link(), any_link()};
      }
    }
    for (std::uint32_t f = 0; f < graph.fifos.size(); ++f) {
      if (!links[f % places].empty() && graph.fifos[f].wire != Wire::inside) {
        graph.shared.push_back({f, links[f % places]});
      }
    }
    shared.push_back(std::move(graph));
  }
  communicator.graphs = std::move(shared);
}

void check_same_trace(const Result& a, const Result& b) {
  REQUIRE(a.trace.size() == b.trace.size());
  for (std::size_t i = 0; i < a.trace.size(); ++i) {
    CHECK(a.trace[i].iteration == b.trace[i].iteration);
    CHECK(a.trace[i].rank == b.trace[i].rank);
    CHECK(a.trace[i].ops == b.trace[i].ops);
    CHECK(a.trace[i].issued == b.trace[i].issued);
  }
}

TEST_CASE("repeated iterations are those that are simulated, links shared or not") {
  int repeated = 0;
  for (std::uint64_t seed = 1; seed <= rounds(1500); ++seed) {
    RandomJob random = random_job(seed, seed % 10 == 0 ? 24 : 8);
    Dice dice(seed + 1'000'000);
    calm(random.job);
    random.run.iterations = static_cast<int>(dice.between(1, 9));
    if (dice.maybe(0.7)) {
      share_links(dice, random.job.communicator);
    }
    const TraceRequest trace{{Rank(0), Rank(2)}, 1, 7, 1'000};
    const Ran simulated = ran(random, AlikeSteps::simulated, trace),
              quick = ran(random, AlikeSteps::repeated, trace);
    INFO("seed " << seed << ", " << quick.repeated << " of " << random.run.iterations << " repeated");
    check_same_result(quick.result, simulated.result);
    check_rank_steps(quick.result);
    CHECK((quick.result.rank_steps == simulated.result.rank_steps));
    check_same_trace(quick.result, simulated.result);
    CHECK(simulated.repeated == 0);
    repeated += quick.repeated > 0 ? 1 : 0;
  }
  CHECK(repeated > static_cast<int>(rounds(1500) / 5));  // so many at least, or the test compares little
}

TEST_CASE("collectives end as they do step by step, links shared or not, whoever repeats what") {
  std::size_t merged = 0;
  int runs = 0, later = 0;  // that repeat an iteration later where ends come by times
  for (std::uint64_t seed = 1; seed <= rounds(600); ++seed) {
    RandomJob random = random_job(seed, seed % 10 == 0 ? 24 : 8);
    Dice dice(seed + 2'000'000);
    if (seed % 2 == 0) {
      calm(random.job);
      random.run.iterations = 7;
    }
    if (dice.maybe(0.5)) {
      share_links(dice, random.job.communicator);
    }
    INFO("seed " << seed);
    for (std::size_t g = 0; g < random.job.communicator.graphs.size(); ++g) {
      const CollectiveGraph& graph = random.job.communicator.graphs[g];
      const std::vector<SharedFifo> left = find_equal_channels(graph).graph.shared;
      merged += left.size() < graph.shared.size() ? 1 : 0;
      std::size_t fifos = 0;
      for (const SharedFifo& fifo : left) {
        fifos += fifo.alike;
      }
      CHECK(fifos == graph.shared.size());
    }
    const TraceRequest trace{{Rank(0), Rank(2)}, 1, 7, 1'000};
    for (const AlikeSteps alike : {AlikeSteps::repeated, AlikeSteps::simulated}) {
      EventEngine by_times(random.job, random.run, trace, alike),
          by_steps(random.job, random.run, trace, alike, CollectiveEnds::by_steps);
      by_times.run();
      by_steps.run();
      CHECK(by_times.repeated() + 1 >= by_steps.repeated());
      later += by_times.repeated() < by_steps.repeated() ? 1 : 0;
      ++runs;
      const Result quick = by_times.finish(), expected = by_steps.finish();
      check_same_result(quick, expected);
      check_same_trace(quick, expected);
    }
  }
  CHECK(merged > rounds(600) / 50);
  CHECK(later <= runs / 400);
}

// A long warm-up, in which more batches come than the steps to come find in time.
void run_out_of_batches(TrainingJob& job, const RunSpec& run, Dice& dice) {
  job.input->batch_time = {};
  const std::vector<SimTime> ends = run_event_engine(job, run).iteration_end;
  const SimTime step = ends.back() - ends[ends.size() - 2];
  job.input->batch_time = step + to_sim_time(dice.real(0, 0.7) * to_seconds(step));
  job.input->prefetch = static_cast<int>(dice.between(2, 5));
  for (Role& role : job.roles) {
    for (Op& op : role.threads.front().warm_up.ops) {
      op.duration = 8 * op.duration;
    }
  }
}

TEST_CASE("what the vector engine repeats is what the event engine simulates") {
  std::uint32_t repeated = 0, before_traces = 0, with_roles = 0, slowed = 0, with_input = 0;
  for (std::uint64_t seed = 1; seed <= rounds(1500); ++seed) {
    RandomJob random = random_job(seed, seed % 10 == 0 ? 24 : 8);
    Dice dice(seed + 3'000'000);
    calm(random.job);
    if (dice.maybe(0.2)) {
      add_kinds(random.job, dice);
    }
    random.run.iterations = static_cast<int>(dice.between(2, 12));
    if (random.job.input && dice.maybe(0.5)) {
      run_out_of_batches(random.job, random.run, dice);
    }
    const auto first_traced = static_cast<std::uint32_t>(dice.between(0, 6));
    const TraceRequest trace{{Rank(0), Rank(2)}, first_traced, 2, 1'000};
    VectorEngine engine(random.job, random.run.seed, trace);
    for (int i = 0; i <= random.run.iterations; ++i) {
      engine.run_iteration();
    }
    const std::uint32_t again = engine.repeated();
    const Result quick = engine.finish(), simulated = ran(random, AlikeSteps::simulated, trace).result;
    INFO("seed " << seed << ", " << again << " of " << random.run.iterations << " repeated");
    check_same_result(quick, simulated);
    check_rank_steps(quick);
    CHECK((quick.rank_steps == simulated.rank_steps));
    check_same_trace(quick, simulated);
    repeated += again > 0 ? 1 : 0;
    before_traces += again > 0 && first_traced > 3 ? 1 : 0;
    with_roles += again > 0 && random.job.roles.size() > 1 ? 1 : 0;
    slowed += again > 0 && random.job.slowdown.slows() ? 1 : 0;
    with_input += again > 0 && random.job.input ? 1 : 0;
  }
  INFO(repeated << ", traced late " << before_traces << ", of several roles " << with_roles << ", slowed "
                << slowed << ", with input " << with_input);
  CHECK(repeated > rounds(1500) / 5);
  for (const std::uint32_t each : {before_traces, with_roles, slowed, with_input}) {
    CHECK(each > rounds(1500) / 100);
  }
}

TEST_CASE("nothing is repeated where draws differ") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    RandomJob random = random_job(seed, 8);
    random.run.iterations = 6;
    random.job.variability.per_iteration = {DistributionKind::normal, 1e-3, {}};
    INFO("seed " << seed);
    CHECK(ran(random, AlikeSteps::repeated).repeated == 0);
  }
}

}  // namespace
}  // namespace paceline
