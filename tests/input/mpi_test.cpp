// The library mpi, from a scenario and as `paceline collective` takes it.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "scenarios/collective_table.h"
#include "scenarios/scenario.h"

namespace paceline {
namespace {

using nlohmann::json;

TEST_CASE("a scenario's library is read, written and read again") {
  const std::string text = R"({"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 32,
    "collective": {"library": "mpi", "costs": {"mpi.network.latency": "30 us", "mpi.reduce_rate": "4 GB/s"}}}})";
  const Scenario scenario = parse_scenario(text, "x.json");
  CHECK(scenario.training.collective.library == CollectiveLibrary::mpi);
  const std::string written = to_json(scenario);
  CHECK(json::parse(written)["training"]["collective"]["library"] == "mpi");
  CHECK(to_json(parse_scenario(written, "y.json")) == written);
}

TEST_CASE("a table of MPI's collectives says so, and takes MPI's costs alone") {
  CollectiveTest test;
  test.kind = CollectiveKind::all_reduce;
  test.cluster_name = "dgx-a100";
  test.cluster = load_cluster("dgx-a100");
  test.cluster.nodes = 2;
  test.collective.library = collective_library_named("mpi");
  test.first = Bytes(4);
  test.last = Bytes(1 << 20);
  test.factor = 1 << 18;
  const CollectiveTestResult result = run_collective_test(test);
  REQUIRE(result.rows.size() == 2);
  const std::string table = nccl_tests_table(result);
  CHECK(table.find("OpenMPI") != std::string::npos);
  CHECK(table.find("recursive_doubling") != std::string::npos);
  const json written = json::parse(nccl_tests_json(result));
  CHECK(written["library"] == "mpi");
  CHECK(written["results"][1]["algorithm"] == "ring");
  test.collective.costs = {{"simple.network.latency", 1.0}};
  CHECK(nccl_tests_json(run_collective_test(test)) == nccl_tests_json(result));
  test.collective.costs = {{"mpi.network.latency", 1.0}};
  CHECK(nccl_tests_json(run_collective_test(test)) != nccl_tests_json(result));
  CHECK(collective_library_named("nccl") == CollectiveLibrary::nccl);
  CHECK_THROWS_WITH(collective_library_named("mpii"),
                    Catch::Contains("unknown library \"mpii\"; did you mean \"mpi\"?"));
}

}  // namespace
}  // namespace paceline
