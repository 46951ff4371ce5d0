// nccl-tests -J, and the stream that JSON is read with.
#include <catch2/catch.hpp>

#include "scenarios/collective_table.h"
#include "scenarios/json_stream.h"
#include "scenarios/scenario.h"
#include "written_file.h"

using namespace paceline;
using Catch::Contains;

namespace {

const std::string kReport = R"({
  "version": "2.19.6", "start_time": "2026-01-02 03:04:05",
  "args": ["/opt/nccl-tests/build/reduce_scatter_perf", "-b", "8M", "-J", "out.json"],
  "env": ["NCCL_ALGO=Ring", "HOME=/root", "NCCL_NVLS_ENABLE=0"],
  "nccl_version": 22707,
  "config": {"nthreads": 1, "ngpus": 1, "warmup_iters": 1, "iters": 20},
  "devices": [{"rank": 0, "hostname": "a", "device": 0}, {"rank": 1, "hostname": "a", "device": 1},
              {"rank": 2, "hostname": "b", "device": 0}, {"rank": 3, "hostname": "b", "device": 1}],
  "results": [
    {"size": 8388608, "count": 524288, "type": "float", "redop": "sum", "root": -1,
     "out_of_place": {"time": 177.8, "alg_bw": 47.18, "bus_bw": 35.385, "nwrong": 0},
     "in_place": {"time": 175.0, "alg_bw": 47.9349, "bus_bw": 35.9512, "nwrong": 0}, "actual_iterations": 20},
    {"size": 16777216, "count": 1048576, "type": "float", "redop": "sum", "root": -1,
     "out_of_place": {"time": 300.0, "alg_bw": 55.92, "bus_bw": 41.94, "nwrong": 0}},
    {"size": 33554432, "out_of_place": {"time": 3.0, "alg_bw": 55.92, "bus_bw": 41.94}},
    {"size": 67108864}
  ],
  "out_of_bounds": 0, "average_bus_bandwidth": 40.1, "errors": []
})";

}  // namespace

TEST_CASE("nccl-tests' JSON") {
  const MeasuredData data = import_text(kReport, "out.json");
  INFO(remarks_of(data));
  REQUIRE(data.collectives.size() == 2);
  const CollectiveMeasurement& one = data.collectives[0];
  CHECK(one.kind == CollectiveKind::reduce_scatter);
  CHECK(one.ranks == 4);
  CHECK(one.nodes == 2);
  CHECK(one.nccl == "2.27");
  CHECK(one.algorithm == "RING");
  CHECK(one.nvls == "off");
  CHECK(one.time.value == 175e-6);
  CHECK(data.files.at(0).format == "nccl-tests JSON");
  CHECK(data.remarks.size() == 2);
  CHECK_THAT(remarks_of(data), Contains("15: a result whose size, time and bandwidths"));
}

TEST_CASE("nccl-tests' JSON: groups of ranks, grouped operations, CUDA graphs, values as they are") {
  std::string text = kReport;
  const auto put = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  for (const char* const rank : {"2", "3"}) {
    put("{\"rank\": " + std::string(rank), "{\"rank\": " + std::string(rank) + ", \"group\": 1");
  }
  put("\"iters\": 20", "\"aggregated_iterations\": 8, \"graph\": 3");
  put("NCCL_ALGO=Ring", "NCCL_ALGO=allgather:ring;tree");
  for (const auto& [from, to] : {std::pair{"35.385", "23.59"}, {"35.9512", "23.9675"}, {"41.94", "27.96"}}) {
    put(from, to);
  }
  const MeasuredData data = import_text(text, "out.json");
  INFO(remarks_of(data));
  REQUIRE(data.collectives.size() == 2);
  CHECK(data.collectives[0].ranks == 2);
  CHECK(data.collectives[0].nodes == 1);
  CHECK(data.collectives[0].algorithm == "ALLGATHER:RING;TREE");
  CHECK_THAT(remarks_of(data),
             Contains("2 groups of ranks") && Contains("agg iters: 8") && Contains("graph: 3"));
}

// As src/util.cu writes it: devices in "config", one for each process, numbers as "%lf", flags and roots as texts.
const std::string kWritten = R"({"version":2,"start_time":"2026-11-29 08:00:00",
"args":["\/opt\/all_reduce_perf","-b","8M","-g","2","-J","out.json"],"env":["HOME=\/root"],"nccl_version":22707,
"config":{"nthreads":1,"ngpus":2,"minimum_bytes":8388608,"maximum_bytes":8388608,"step_factor":2,"warmup_iters":1,
"iterations":20,"aggregated_iterations":1,"validation":1,"graph":0,"blocking_collectives":"true","per_iter_timing":"false",
"parallel_init":"false","devices":[
{"rank":0,"group":0,"pid":7,"hostname":"a","device":0,"device_hex":"0000:0f:00","device_info":"NVIDIA H100 80GB HBM3"},
{"rank":2,"group":0,"pid":8,"hostname":"b","device":0,"device_hex":"0000:0f:00","device_info":"NVIDIA H100 80GB HBM3"}]},
"results":[{"size":8388608,"count":2097152,"type":"float","redop":"sum","root":"    -1",
"out_of_place":{"time":177.800000,"alg_bw":47.180000,"bus_bw":70.770000,"nwrong":0.000000},
"in_place":{"time":175.000000,"alg_bw":47.934900,"bus_bw":71.902350,"nwrong":1000000.000000},
"actual_iterations":20,"experiment_name":"x"}],
"out_of_bounds":{"count":0,"okay":"true"},"average_bus_bandwidth":{"bandwidth":71.3,"okay":"unchecked"},"errors":[],
"end_time":"2026-11-29 08:00:01"})";

TEST_CASE("nccl-tests' JSON as it is written: devices of processes that drive several GPUs") {
  const MeasuredData data = import_text(kWritten, "out.json");
  INFO(remarks_of(data));
  REQUIRE(data.collectives.size() == 1);
  const CollectiveMeasurement& one = data.collectives[0];
  CHECK(one.kind == CollectiveKind::all_reduce);
  CHECK(one.ranks == 4);
  CHECK(one.nodes == 2);
  CHECK(one.gpus_per_process == 2);
  CHECK(one.gpu == "NVIDIA H100 80GB HBM3");
  CHECK(one.time.value == 175e-6);
  CHECK_THAT(remarks_of(data), Contains("blocking") && Contains("wrong values"));
}

TEST_CASE("nccl-tests' JSON whose processes list all their devices") {
  std::string text = kWritten;
  for (const char* const rank : {"1", "3"}) {
    const std::string first = rank == std::string("1") ? R"({"rank":0)" : R"({"rank":2)";
    const std::string host = rank == std::string("1") ? "a" : "b";
    text.insert(text.find(first), R"({"rank":)" + std::string(rank) + R"(,"hostname":")" + host + "\"},");
  }
  const MeasuredData data = import_text(text, "out.json");
  REQUIRE(data.collectives.size() == 1);
  CHECK(data.collectives[0].ranks == 4);
  CHECK(data.collectives[0].nodes == 2);
}

TEST_CASE("nccl-tests' JSON that breaks off is read up to there") {
  const std::string half = kReport.substr(0, kReport.find("33554432"));
  const MeasuredData data = import_text(half, "out.json");
  CHECK(data.collectives.size() == 2);
  CHECK_THAT(remarks_of(data), Contains("breaks off in the middle of a value: read up to here"));
}

TEST_CASE("the table and the JSON of this program's own predictions have nccl-tests' form") {
  CollectiveTest test;
  test.cluster_name = "dgx-h100";
  test.cluster = load_cluster("dgx-h100");
  test.first = Bytes(1 << 20);
  test.last = Bytes(1 << 24);
  const CollectiveTestResult result = run_collective_test(test);
  const MeasuredData text = import_text(nccl_tests_table(result), "all_reduce.txt");
  const MeasuredData json = import_text(nccl_tests_json(result), "all_reduce.json");
  INFO(remarks_of(text) << remarks_of(json));
  REQUIRE(text.collectives.size() == 5);
  REQUIRE(json.collectives.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(text.collectives[i].bytes == json.collectives[i].bytes);
    CHECK(text.collectives[i].time.value == Approx(json.collectives[i].time.value).epsilon(1e-3));
    CHECK(json.collectives[i].ranks == 8);
  }
}

TEST_CASE("JSON that is neither, or nothing") {
  CHECK_THAT(import_error("{}", "a.json"), Contains("no events"));
  CHECK_THAT(import_error("[]", "a.json"), Contains("no events"));
  CHECK_THAT(import_error(R"({"results": [], "nccl_version": 22707})", "a.json"), Contains("no measurement"));
  CHECK_THAT(import_error("{\"nccl_version\": " + std::string(100, '[') + "1", "a.json"),
             Contains("nested at most 64"));
}

TEST_CASE("a stream hands out members and elements as they end, without what isn't wanted") {
  const std::string text =
      R"({"a": 1, "skip": {"x": [1, {"y": 2}]}, "list": [{"k": "v", "no": [[1]], "in": {"k": 2.5}}, 7], "b": {"k": [1, 2]}})";
  std::string seen;
  std::size_t at = 0;
  const JsonStreamEnd end = read_json_stream(
      {.read =
           [&](char* to, std::size_t most) {
             const std::size_t n = std::min<std::size_t>({most, text.size() - at, 3});
             text.copy(to, n, at);
             at += n;
             return n;
           },
       .wanted = [](std::string_view, std::string_view key) { return key != "skip" && key != "no"; },
       .value = [&](const std::string& member, const Json& value,
                    std::int64_t) { seen += member + '=' + to_line(value) + ';'; }});
  CHECK(end.trouble.empty());
  CHECK(end.values == 4);
  std::erase(seen, ' ');
  CHECK(seen == R"(a=1;list={"k":"v","in":{"k":2.5}};list=7;b={"k":[1,2]};)");
}

TEST_CASE("a token without end is refused before it fills the memory", "[release]") {
  std::size_t given = 0;
  const auto endless = [&](char* to, std::size_t most) {
    std::fill_n(to, most, 'x');
    if (given == 0) {
      to[0] = '"';
    }
    given += most;
    return most;
  };
  const auto all = [](std::string_view, std::string_view) { return true; };
  const auto none = [](const std::string&, const Json&, std::int64_t) {};
  CHECK_THROWS_WITH(read_json_stream({endless, all, none}), Contains("token of more than 16 MiB"));
  CHECK(given < 2 * kLongestToken);
}
