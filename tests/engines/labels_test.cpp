// Labels are for people: does any number hang on one?
#include <catch2/catch.hpp>

#include "random_job.h"
#include "same_result.h"
#include "sim/report/critical_path.h"
#include "sim/report/overlap.h"

namespace paceline {
namespace {

void rename_labels(TrainingJob& job) {
  for (Program* program : {&job.main().warm_up, &job.main().steady}) {
    for (std::size_t i = 0; i < program->ops.size(); ++i) {
      program->ops[i].label = "operation " + std::to_string(program->ops.size() - i);
    }
  }
}

TEST_CASE("with every label renamed every number stays") {
  for (std::uint64_t seed = 1; seed <= rounds(200); ++seed) {
    INFO("seed " << seed);
    RandomJob random = random_job(seed, 12), renamed = random_job(seed, 12);
    rename_labels(renamed.job);
    CHECK(bucket_collectives(random.job.main().steady) == bucket_collectives(renamed.job.main().steady));
    for (const EngineChoice engine : {EngineChoice::vector, EngineChoice::event}) {
      random.run.engine = renamed.run.engine = engine;
      const Result result = simulate(random.job, random.run);
      check_same_result(result, simulate(renamed.job, renamed.run));
      const TraceRequest request = ranks_on_path(random.job, result, 1);
      const Result traced = simulate(random.job, random.run, request),
                   traced_renamed = simulate(renamed.job, renamed.run, request);
      const std::vector<PathSegment> path = critical_path(random.job, traced, 1).segments,
                                     path_renamed = critical_path(renamed.job, traced_renamed, 1).segments;
      REQUIRE(path.size() == path_renamed.size());
      for (std::size_t i = 0; i < path.size(); ++i) {
        CHECK(path[i].kind == path_renamed[i].kind);
        CHECK(path[i].rank == path_renamed[i].rank);
        CHECK(path[i].start == path_renamed[i].start);
        CHECK(path[i].end == path_renamed[i].end);
        if (path[i].kind == PathKind::compute) {
          CHECK(path[i].what == path_renamed[i].what);
        }
      }
      const std::vector<CommunicationOverlap> overlap = communication_overlap(random.job, traced.trace),
                                              overlap_renamed =
                                                  communication_overlap(renamed.job, traced_renamed.trace);
      REQUIRE(overlap.size() == overlap_renamed.size());
      for (std::size_t i = 0; i < overlap.size(); ++i) {
        CHECK(overlap[i].communication == overlap_renamed[i].communication);
        CHECK(overlap[i].overlapped == overlap_renamed[i].overlapped);
      }
    }
  }
}

}  // namespace
}  // namespace paceline
