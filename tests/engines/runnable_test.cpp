// Jobs that no engine can run are told what is wrong with them.
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "sim/engine/simulate.h"
#include "tests/error_of.h"
#include "tests/meetings.h"

namespace paceline {
namespace {

const Op kKernel{.kind = OpKind::kernel, .duration = SimTime{1'000'000}};

// Four ranks that compute and meet, and a server that they send to and hear from.
TrainingJob sound_job() {
  TrainingJob job;
  add_meetings(job, 4, SimTime{2'000'000});
  const std::vector<Op> ops{kKernel,
                            {.kind = OpKind::collective},
                            {.kind = OpKind::wait},
                            {.kind = OpKind::send, .index = 0, .to = 0},
                            {.kind = OpKind::gate, .index = 1}};
  const std::vector<Op> serving{{.kind = OpKind::receive, .index = 0}, {.kind = OpKind::send, .index = 1}};
  job.main() = {{ops, {0}}, {ops, {0}}};
  job.roles.push_back({"server", {{{serving, {}}, {serving, {}}}}, true});
  job.members = {{0, {}}, {0, {}}, {0, {}}, {0, {}}, {1, {}}};
  job.families = {{{{4}}, {0, 0, 0, 0, 0}}};
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    job.routes.push_back({rank, 4, SimTime{1'000}, BytesPerSecond(1e9)});
  }
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    job.routes.push_back({4, rank, SimTime{1'000}, BytesPerSecond(1e9)});
  }
  return job;
}

TEST_CASE("a job that no engine can run is told why") {
  RunSpec run;
  run.iterations = 3;
  CHECK(error_of([&] { simulate(sound_job(), run); }).empty());
  struct Break {
    std::string says;
    std::function<void(TrainingJob&)> make;
  };
  const auto op = [](std::size_t i, auto change) {
    return [=](TrainingJob& job) {
      change(job.main().warm_up.ops[i]);
      change(job.main().steady.ops[i]);
    };
  };
  const std::vector<Break> breaks{
      {"operations of the compute stream", [](TrainingJob& job) { job.main().warm_up = {}; }},
      {"ranks come first", [](TrainingJob& job) { std::swap(job.members[0], job.members[4]); }},
      {"roles that it has", [](TrainingJob& job) { job.members[0].role = 7; }},
      {"in all iterations", op(1,
                               [](Op& it) {
                                 it.after = After::op;
                                 it.after_op = 0;
                                 it.every = 1;
                               })},
      {"numbered in the order", op(1, [](Op& it) { it.index = 1; })},
      {"collectives that were issued before", op(2, [](Op& it) { it.index = 1; })},
      {"iterations that have their collective", op(1, [](Op& it) { it.every = 2; })},
      {"only after one was taken", op(3, [](Op& it) { it.to = kPeer; })},
      {"families that it has", op(3, [](Op& it) { it.to = 9; })},
      {"have the group", [](TrainingJob& job) { job.families[0].group_of[2] = kNoIndex; }},
      {"waits for messages in every iteration",
       [](TrainingJob& job) { job.roles[1].threads[0].steady.ops = {kKernel}; }},
      {"on their first thread",
       [](TrainingJob& job) { job.roles[0].threads.push_back(job.roles[0].threads.front()); }},
      {"belongs to one queue",
       [](TrainingJob& job) {
         Program& program = job.main().steady;
         program.collectives.push_back(0);
         program.ops.push_back({.kind = OpKind::collective, .index = 1, .queue = 1});
       }},
      {"look back to collectives that the warm-up has",
       [](TrainingJob& job) {
         job.main().warm_up = {{kKernel}, {}};
         job.main().steady.ops[2].lag = 1;
       }},
      {"cross links", [](TrainingJob& job) { job.routes[0].links = {LinkId(0)}; }},
      {"of a loader", op(0, [](Op& it) { it.kind = OpKind::take_batch; })},
  };
  for (const Break& each : breaks) {
    INFO(each.says);
    TrainingJob job = sound_job();
    each.make(job);
    if (each.says == "in all iterations") {  // a collective that comes after one that is left out
      for (Program* program : {&job.main().warm_up, &job.main().steady}) {
        program->ops[0].every = 2;
      }
    }
    const std::string error = error_of([&] { simulate(job, run); });
    INFO(error);
    CHECK(error.find(each.says) != std::string::npos);
  }
}

TEST_CASE("who goes on alone for ever comes to the end of the clock") {
  TrainingJob job = sound_job();
  job.roles[1].threads.push_back({{{kKernel, {.kind = OpKind::gate, .index = 5, .gate = {0, false}}}, {}},
                                  {{{.kind = OpKind::kernel, .duration = SimTime{100'000'000'000'000'000}},
                                    {.kind = OpKind::gate, .index = 5, .gate = {0, false}}},
                                   {}}});
  job.main().steady.ops.back().gate.quorum = 2;  // nobody will open it
  CHECK_FALSE(error_of([&] { simulate(job, {}); }).empty());
}

}  // namespace
}  // namespace paceline
