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

// Four ranks that compute and meet, send to all and hear from all.
TrainingJob sound_job() {
  TrainingJob job;
  add_meetings(job, 4, SimTime{2'000'000});
  const std::vector<Op> ops{kKernel,
                            {.kind = OpKind::collective},
                            {.kind = OpKind::wait},
                            {.kind = OpKind::send, .index = 0, .to = 0},
                            {.kind = OpKind::gate, .index = 0, .quorum = 4}};
  job.main() = {{ops, {0}}, {ops, {0}}};
  job.families = {{{{0, 1, 2, 3}}, {0, 0, 0, 0}}};
  for (std::uint32_t from = 0; from < 4; ++from) {
    for (std::uint32_t to = 0; to < 4; ++to) {
      if (from != to) {
        job.routes.push_back({from, to, SimTime{1'000}, BytesPerSecond(1e9)});
      }
    }
  }
  return job;
}

// The same without meetings, and with a server that is sent what it serves.
TrainingJob served_job() {
  TrainingJob job = sound_job();
  const std::vector<Op> ops{
      kKernel, {.kind = OpKind::send, .index = 0, .to = 0}, {.kind = OpKind::gate, .index = 0}};
  job.main() = {{ops, {}}, {ops, {}}};
  job.members.resize(5);
  job.families = {{{{4}}, {0, 0, 0, 0}}};
  job.routes.clear();
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    job.routes.push_back({rank, 4, SimTime{1'000}, BytesPerSecond(1e9)});
  }
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    job.routes.push_back({4, rank, SimTime{1'000}, BytesPerSecond(1e9)});
  }
  job.serving.shards = {{.server = 4}};
  job.serving.workers = job.serving.quorum = 4;
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
  const auto beside = [](const Op& kernel, bool joined) {
    return [=](TrainingJob& job) {
      for (Program* program : {&job.main().warm_up, &job.main().steady}) {
        program->ops.push_back(kernel);
        if (joined) {
          const auto last = static_cast<std::uint32_t>(program->ops.size() - 1);
          program->ops.push_back({.kind = OpKind::join, .after_op = last});
        }
      }
    };
  };
  const std::vector<Break> breaks{
      {"operations of the compute stream", [](TrainingJob& job) { job.main().warm_up = {}; }},
      {"its ranks among its members", [](TrainingJob& job) { job.members.resize(3); }},
      {"roles that it has",
       [](TrainingJob& job) {
         job.members.resize(4);
         job.members[0].role = 7;
       }},
      {"in all iterations", op(1,
                               [](Op& it) {
                                 it.after = After::op;
                                 it.after_op = 0;
                                 it.every = 1;
                               })},
      {"numbered in the order", op(1, [](Op& it) { it.index = 1; })},
      {"collectives that were issued before", op(2, [](Op& it) { it.index = 1; })},
      {"iterations that have their collective", op(1, [](Op& it) { it.every = 2; })},
      {"families that it has", op(3, [](Op& it) { it.to = 9; })},
      {"have the group", [](TrainingJob& job) { job.families[0].group_of[2] = kNoIndex; }},
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
      {"last kernel of every other stream", beside({.after = After::op, .after_op = 0, .stream = 1}, false)},
      {"after an operation, or nothing", beside({.stream = 1}, true)},
      {"after operations of a stream", beside({.after = After::op, .after_op = 99, .stream = 1}, true)},
      {"after it in their iteration", beside({.after = After::nothing, .stream = 1}, true)},
      {"joins are of kernels", op(2,
                                  [](Op& it) {
                                    it.kind = OpKind::join;
                                    it.after_op = 0;
                                  })},
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

TEST_CASE("a job with servers that no engine can run is told why") {
  RunSpec run;
  run.iterations = 3;
  CHECK(error_of([&] { simulate(served_job(), run); }).empty());
  const auto broken = [&](const auto& make) {
    TrainingJob job = served_job();
    make(job);
    return error_of([&] { simulate(job, run); });
  };
  const auto says = [](const std::string& what) { return Catch::Contains(what); };
  CHECK_THAT(broken([](TrainingJob& job) { job.serving.shards[0].server = 3; }),
             says("by servers that it has"));
  CHECK_THAT(broken([](TrainingJob& job) { job.serving.shards[0].server = 5; }),
             says("by servers that it has"));
  CHECK_THAT(broken([](TrainingJob& job) { job.serving.quorum = 5; }), says("some of its workers"));
  CHECK_THAT(broken([](TrainingJob& job) { job.serving.quorum = 0; }), says("some of its workers"));
  CHECK_THAT(broken([](TrainingJob& job) { job.main().steady.ops[1].index = 1; }), says("what they serve"));
  CHECK_THAT(broken([](TrainingJob& job) { job.routes.pop_back(); }),
             says("a route from member 4 to member 3"));
  CHECK_THAT(broken([](TrainingJob& job) {
               const TrainingJob meeting = sound_job();
               job.plans = meeting.plans;
               job.main() = meeting.main();
             }),
             says("without collectives"));
  CHECK_THAT(broken([](TrainingJob& job) { job.main().steady.ops[2].index = 7; }),
             says("all wait for each other"));
}

TEST_CASE("a run that would go on beyond the clock's range is told so, before it starts or when it does") {
  TrainingJob job = served_job();
  job.variability.slow_gpus = {{{2}, 0, 1000}};
  for (Program* program : {&job.main().warm_up, &job.main().steady}) {
    program->ops.front().duration = to_sim_time(Seconds(300));
  }
  const auto says = [](const std::string& what) {
    return Catch::Contains("clock's range, found one that " + what);
  };
  CHECK_THAT(error_of([&] { simulate(job, {}); }), says("could take"));
  CHECK_THAT(error_of([&] { run_event_engine(job, {}); }), says("went on beyond it"));
}

TEST_CASE("both engines take runs up to the same length") {
  const auto days = [](double d, EngineChoice engine) {  // 21 iterations
    const std::vector<Op> ops{{.kind = OpKind::kernel, .duration = to_sim_time(Seconds(d / 21 * 86400))},
                              {.kind = OpKind::collective},
                              {.kind = OpKind::wait}};
    TrainingJob job;
    add_meetings(job, 4, SimTime{2'000'000});
    job.main() = {{ops, {0}}, {ops, {0}}};
    return simulate(job, {.iterations = 20, .engine = engine});
  };
  CHECK(kLongestRunDays == 53);
  const Result event = days(53, EngineChoice::event), vector = days(53, EngineChoice::vector);
  CHECK(event.iteration_end == vector.iteration_end);
  CHECK(event.iteration_end.back() > to_sim_time(Seconds(53 * 86400.0)));
  for (const double d : {53.5, 60.0, 105.0, 120.0}) {
    const std::string error = error_of([&] { days(d, EngineChoice::event); });
    CHECK_THAT(error, Catch::Contains("within 53 days"));
    CHECK(error == error_of([&] { days(d, EngineChoice::vector); }));
  }
}

}  // namespace
}  // namespace paceline
