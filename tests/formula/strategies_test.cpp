// Strategies as jobs made by hand, each against its closed form. Four ranks, or two stages of two; F, B and U
// are forward, backward and update, C a collective from the last rank's launch to its end, L a message.
//
// A collective that takes C for all, whoever comes last: every rank tells everybody, which takes C
// (tests/meetings.h).
#include <catch2/catch.hpp>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/simulate.h"
#include "tests/meetings.h"

namespace paceline {
namespace {

constexpr SimTime F{100'000}, B{200'000}, U{10'000}, C{60'000}, L{20'000};

constexpr SimTime half(SimTime t) { return {t.ps / 2}; }

Op kernel(SimTime duration) { return {.kind = OpKind::kernel, .duration = duration}; }
Op collective(std::uint32_t number) { return {.kind = OpKind::collective, .index = number}; }
Op wait(std::uint32_t number) { return {.kind = OpKind::wait, .index = number}; }
Op send(std::uint32_t channel, std::uint32_t family) {
  return {.kind = OpKind::send, .index = channel, .to = family};
}
Op gate(std::uint32_t channel, std::uint32_t quorum) {
  return {.kind = OpKind::gate, .index = channel, .quorum = quorum};
}

// Nothing but these operations: no cost on the host, any number of iterations ahead.
Program program(std::vector<Op> ops, std::vector<std::uint32_t> collectives = {}) {
  return {std::move(ops), std::move(collectives)};
}
Thread every_iteration(const Program& program) { return {program, program}; }

// The ranks alone, in one group; `slow` has factor 2.
TrainingJob ranks_of(std::uint32_t ranks, Thread thread, SimTime meeting = C) {
  TrainingJob job;
  job.roles.front().threads = {std::move(thread)};
  job.host_runs_ahead = 3;
  add_meetings(job, ranks, meeting);
  return job;
}
void make_slow(TrainingJob& job, std::int64_t rank) { job.variability.slow_gpus = {{{rank}, 0, 2}}; }

// Mean of the last steps of a rank, in its steady state.
SimTime step_of(const TrainingJob& job, std::uint32_t rank = 0, std::uint32_t period = 1) {
  constexpr std::uint32_t kIterations = 60;
  RunSpec run;
  run.iterations = kIterations;
  run.engine = EngineChoice::event;
  const Result result = simulate(job, run, {{Rank(rank)}, kIterations - period, period + 1});
  const auto end_of = [&](std::size_t i) {
    SimTime end;
    for (const OpSpan& span : result.trace[i].ops) {
      end = std::max(end, span.end);
    }
    return end;
  };
  REQUIRE(result.trace.size() == period + 1);
  const SimTime all = end_of(period) - end_of(0);
  return SimTime{all.ps / period};
}

// Two buckets: the first collective runs beside half of the backward pass.
std::vector<Op> ddp_ops(std::uint32_t every = 1, std::uint32_t lag = 0) {
  std::vector<Op> ops{kernel(F),     kernel(half(B)), collective(0), kernel(half(B)),
                      collective(1), wait(0),         wait(1),       kernel(U)};
  for (Op& op : ops) {
    if (op.kind != OpKind::kernel) {
      op.every = every;
      op.lag = op.kind == OpKind::wait ? lag : 0;
    }
  }
  return ops;
}

// C <= B / 2: the first is over when the second may begin, which nothing hides.
TEST_CASE("DDP: forward, backward, the last bucket, update") {
  TrainingJob job = ranks_of(4, every_iteration(program(ddp_ops(), {0, 0})));
  CHECK(step_of(job) == F + B + C + U);
  make_slow(job, 3);
  CHECK(step_of(job) == 2 * (F + B) + C + 2 * U);
}

TEST_CASE("gradients one step late: a collective has a step's time, which is longer") {
  TrainingJob job = ranks_of(4, every_iteration(program(ddp_ops(1, 1), {0, 0})));
  CHECK(step_of(job) == F + B + U);
}

TEST_CASE("local SGD: every fourth step ends with a collective") {
  TrainingJob job = ranks_of(4, every_iteration(program(ddp_ops(4), {0, 0})));
  CHECK(4 * step_of(job, 0, 4) == 4 * (F + B + U) + C);
}

// Two layers. The all-gathers (AG) of both passes follow one another on queue 0 from the last update on, the
// reduce-scatters (RS) run on queue 1 as gradients come. What takes H = C / 2 is hidden where 2 H <= F + 2 H ...:
// AG1 to AG3 end at 2 H, 3 H, 4 H, before forward 1, backward 1, backward 0 begin at H + F / 2, H + F, H + F + B / 2.
TEST_CASE("FSDP: the first gather and the last reduce-scatter show") {
  constexpr SimTime H{C.ps / 2};
  const auto on_queue = [](std::uint32_t number, std::uint32_t queue, After after) {
    Op made = collective(number);
    made.queue = queue;
    made.after = after;
    return made;
  };
  const std::vector<Op> ops{on_queue(0, 0, After::compute),
                            on_queue(1, 0, After::nothing),
                            on_queue(2, 0, After::nothing),
                            on_queue(3, 0, After::nothing),
                            wait(0),
                            kernel(half(F)),
                            wait(1),
                            kernel(half(F)),
                            wait(2),
                            kernel(half(B)),
                            on_queue(4, 1, After::compute),
                            wait(3),
                            kernel(half(B)),
                            on_queue(5, 1, After::compute),
                            wait(4),
                            wait(5),
                            kernel(U)};
  const TrainingJob job = ranks_of(4, every_iteration(program(ops, {0, 0, 0, 0, 1, 1})), H);
  CHECK(step_of(job) == H + F + B + H + U);
}

// Stage 0 sends its micro-batches' activations on channels 0 and 3, stage 1 their gradients on 1 and 2. Each
// stage's two ranks share their gradients: family 0, a group per stage. Family 1: the other stage's rank.
//   stage 1: gets the first at F + L, is done with both at F + L + 2 (F + B); then its last message, stage 0's
//   last backward, the collective and the update.
TEST_CASE("a pipeline of two stages, two micro-batches, each stage on two ranks") {
  TrainingJob job;
  job.host_runs_ahead = 3;
  add_meetings(job, 4, C, {{0, 2}, {1, 3}});
  const Thread first =
      every_iteration(program({kernel(F), send(0, 1), kernel(F), send(3, 1), gate(1, 1), kernel(B),
                               gate(2, 1), kernel(B), collective(0), wait(0), kernel(U)},
                              {0}));
  const Thread second =
      every_iteration(program({gate(0, 1), kernel(F), kernel(B), send(1, 1), gate(3, 1), kernel(F), kernel(B),
                               send(2, 1), collective(0), wait(0), kernel(U)},
                              {0}));
  job.roles = {{"stage 0", {first}}, {"stage 1", {second}}};
  job.members = {{0, {}}, {1, {}}, {0, {}}, {1, {}}};
  job.families.push_back({{{1}, {0}, {3}, {2}}, {0, 1, 2, 3}});
  for (const auto& [from, to] :
       std::initializer_list<std::pair<std::uint32_t, std::uint32_t>>{{0, 1}, {1, 0}, {2, 3}, {3, 2}}) {
    job.routes.push_back({from, to, L, BytesPerSecond(1e9)});
  }
  CHECK(step_of(job) == F + L + 2 * (F + B) + L + B + C + U);
}

}  // namespace
}  // namespace paceline
