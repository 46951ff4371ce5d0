// `paceline collective`: is its table what a reader of nccl-tests expects, its JSON what -J would write, and
// does every bad option get one clear line?
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "scenarios/collective_options.h"
#include "scenarios/collective_table.h"
#include "scenarios/profile.h"
#include "scenarios/scenario.h"
#include "sim/collective/costs.h"
#include "tests/error_of.h"
#include "tests/files.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using nlohmann::json;

constexpr const char* kKindNames[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                      "reduce",     "alltoall",   "sendrecv"};

CollectiveTest test_of(const std::string& kind, int nodes = 1) {
  CollectiveTest test;
  test.kind = collective_named(kind);
  test.cluster_name = "dgx-h100";
  test.cluster = load_cluster("dgx-h100");
  test.cluster.nodes = nodes;
  test.last = Bytes(std::int64_t{1} << 30);
  test.factor = 8;
  return test;
}

// One line, short, without control characters.
void check_line(const std::string& message) {
  CAPTURE(message);
  CHECK(message.size() > 10);
  CHECK(message.size() < 4000);
  CHECK(std::ranges::none_of(message, [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
}

struct Row {
  std::int64_t size = 0, count = 0;
  std::string type, redop;
  int root = 0;
  double time = 0, algbw = 0, busbw = 0;
};

// As scripts in the wild read nccl-tests: lines without '#', 13 columns; what follows them is ignored.
std::vector<Row> rows_of(const std::string& table) {
  const std::string number = "([0-9]+(?:\\.[0-9]+)?)", gap = "\\s+";
  const std::string half = number + gap + number + gap + number + gap + "([0-9]+|N/A)";
  const std::regex row("\\s*(\\d+)\\s+(\\d+)\\s+(\\w+)\\s+(\\w+)\\s+(-?\\d+)\\s+" + half + gap + half +
                       "(\\s.*)?");
  std::vector<Row> rows;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') {
      continue;
    }
    CAPTURE(line);
    std::smatch m;
    REQUIRE(std::regex_match(line, m, row));
    CHECK(m[6] == m[10]);  // in place as out of place
    CHECK(m[9] == "0");
    rows.push_back({std::stoll(m[1]), std::stoll(m[2]), m[3], m[4], std::stoi(m[5]), std::stod(m[6]),
                    std::stod(m[7]), std::stod(m[8])});
  }
  return rows;
}

TEST_CASE("the table is read as one of nccl-tests") {
  for (const char* kind : kKindNames) {
    for (const int nodes : {1, 2}) {
      CAPTURE(kind, nodes);
      const CollectiveTestResult result = run_collective_test(test_of(kind, nodes));
      const std::vector<Row> rows = rows_of(nccl_tests_table(result));
      REQUIRE(rows.size() == 10);  // 8 to 1 GiB in steps of 8
      const double factor = bus_factor(result.test.kind, result.ranks);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const Row& row = rows[i];
        CAPTURE(row.size, row.count, row.time, row.algbw, row.busbw);
        CHECK(row.type == "float");
        CHECK((row.redop == "sum" || row.redop == "none"));
        CHECK((row.root == -1 || row.root == 0));
        CHECK(row.size <= std::int64_t{8} << (3 * i));
        const bool per_rank = row.count * 4 != row.size;
        CHECK(row.count * 4 * (per_rank ? static_cast<std::int64_t>(result.ranks) : 1) == row.size);
        if (row.size >= 1 << 20) {
          CHECK(row.algbw ==
                Approx(static_cast<double>(row.size) * 1e-3 / row.time).epsilon(0.01).margin(0.01));
          CHECK(row.busbw == Approx(row.algbw * factor).epsilon(0.01).margin(0.01));
        }
      }
    }
  }
}

TEST_CASE("a table has nccl-tests' head and foot, and nothing but comments and rows") {
  CollectiveTest test = test_of("all_reduce", 2);
  test.explain = true;
  const std::string table = nccl_tests_table(run_collective_test(test));
  for (const char* part :
       {"# Collective test starting: all_reduce_perf\n", "out-of-place", "in-place",
        "#       size         count      type   redop    root     time   algbw   busbw #wrong",
        "# Out of bounds values : 0 OK\n",
        "# Avg bus bandwidth    : ", "# Collective test concluded: all_reduce_perf\n"}) {
    CHECK_THAT(table, Contains(part));
  }
  CHECK(table.back() == '\n');
  CHECK(rows_of(table).size() == 10);
}

TEST_CASE("a cluster's long name stays on its line") {
  CollectiveTest test = test_of("broadcast");
  test.last = test.first;
  test.cluster_name = "/a/" + std::string(2000, 'n') + "/cluster.json";
  std::istringstream lines(nccl_tests_table(run_collective_test(test)));
  int heads = 0;
  for (std::string line; std::getline(lines, line);) {
    heads += line.starts_with("#       size") ? 1 : 0;
    CHECK((line.find("out-of-place") == std::string::npos || line.starts_with("#     ")));
    const std::size_t hash = line.find('#');
    CHECK((hash == 0 || hash == std::string::npos));
  }
  CHECK(heads == 1);
}

TEST_CASE("the JSON has the keys of nccl-tests -J") {
  for (const char* kind : kKindNames) {
    CAPTURE(kind);
    CollectiveTest test = test_of(kind, 2);
    test.explain = true;
    const CollectiveTestResult result = run_collective_test(test);
    const json document = json::parse(nccl_tests_json(result));
    CHECK(document.contains("nccl_version"));
    CHECK(document.contains("average_bus_bandwidth"));
    REQUIRE(document["results"].size() == result.rows.size());
    const std::vector<Row> rows = rows_of(nccl_tests_table(result));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const json& entry = document["results"][i];
      CHECK(entry["size"] == rows[i].size);
      CHECK(entry["count"] == rows[i].count);
      CHECK(entry["type"] == "float");
      CHECK(entry["redop"] == rows[i].redop);
      CHECK(entry.contains("root"));
      for (const char* half : {"out_of_place", "in_place"}) {
        CHECK(entry[half]["time"].get<double>() == Approx(rows[i].time).epsilon(0.01));
        CHECK(entry[half]["alg_bw"].get<double>() == Approx(rows[i].algbw).epsilon(0.01).margin(0.006));
        CHECK(entry[half]["bus_bw"].get<double>() == Approx(rows[i].busbw).epsilon(0.01).margin(0.006));
        CHECK(entry[half]["nwrong"] == 0);
      }
      const json& parts = entry["explained_us"];
      const double sum = parts["launch"].get<double>() + parts["latency"].get<double>() +
                         parts["fill"].get<double>() + parts["bandwidth"].get<double>();
      CHECK(sum == Approx(entry["in_place"]["time"].get<double>()));
    }
  }
}

TEST_CASE("one GPU has nothing to exchange") {
  CollectiveTest test = test_of("all_reduce");
  test.cluster.gpus_per_node = 1;
  const CollectiveTestResult result = run_collective_test(test);
  CHECK(rows_of(nccl_tests_table(result)).size() == 10);
  CHECK_NOTHROW(json::parse(nccl_tests_json(result)));
}

TEST_CASE("sizes are read as nccl-tests reads them") {
  CHECK(test_size("8", "-b") == Bytes(8));
  CHECK(test_size("64K", "-b") == Bytes(65536));
  CHECK(test_size("1m", "-b") == Bytes(1 << 20));
  CHECK(test_size("16G", "-e") == Bytes(std::int64_t{16} << 30));
  CHECK(test_size("4096G", "-e") == Bytes(std::int64_t{1} << 42));
  CHECK(test_size("64KiB", "-b") == Bytes(65536));
  CHECK(test_size("25 MiB", "-e") == Bytes(25 << 20));
  for (const char* bad : {"0", "-1", "16X", "9999999G", "4097G", "", " 8", "8 ", "1e3", "0x10", "8KK", "K",
                          "+8", "1.5G", "99999999999999999999", "-9223372036854775808", "0G", "iB", "8 iB"}) {
    CAPTURE(bad);
    const std::string message = error_of([&] { test_size(bad, "-b"); });
    CHECK(message ==
          "-b: expected a size such as 8, 64K or 16 GiB, up to 4096G, found \"" + std::string(bad) + '"');
  }
  check_line(error_of([] { test_size(std::string(100'000, '9') + "\n\x1b", "-e"); }));
}

TEST_CASE("the sizes of a table are bounded and within their ends") {
  CollectiveTest test = test_of("all_gather");
  test.last = Bytes(4);
  CHECK_THAT(error_of([&] { run_collective_test(test); }),
             Contains("-e: expected at least the first size, 8, found 4"));
  test.last = test.first;
  CHECK(run_collective_test(test).rows.size() == 1);
  test.factor = 1 << 20;
  test.last = Bytes(std::int64_t{1} << 42);
  CHECK(run_collective_test(test).rows.size() == 2);
  test.factor = 0;
  test.increment = Bytes(1);
  CHECK(error_of([&] { run_collective_test(test); }) == "-i: expected at most 10000 sizes, found more");
  test.last = Bytes(100);
  test.increment = Bytes(std::int64_t{1} << 42);
  CHECK(run_collective_test(test).rows.size() == 1);
}

TEST_CASE("an unknown collective is told the known ones") {
  CHECK(error_of([] { collective_named("allreduce"); }) ==
        "unknown collective \"allreduce\"; did you mean \"all_reduce\"? Known: all_reduce, all_gather, "
        "reduce_scatter, broadcast, reduce, alltoall, sendrecv");
  for (const std::string& bad :
       {std::string(), std::string("x"), std::string(100'000, 'a'), std::string("a\nb")}) {
    CHECK_THAT(error_of([&] { collective_named(bad); }), Contains("unknown collective"));
  }
  for (const char* kind : kKindNames) {
    CHECK_NOTHROW(collective_named(kind));
  }
}

TEST_CASE("options that NCCL can't follow are input errors") {
  const auto error_with = [](const char* kind, const std::function<void(CollectiveTest&)>& change) {
    CollectiveTest test = test_of(kind, 2);
    test.last = test.first;
    change(test);
    return error_of([&] { run_collective_test(test); });
  };
  for (const char* version : {"2.11", "2.31", "3.0", "x", "2", "2.", ".2", "2.12.x", "2.22.3.1", "-2.22",
                              "2.022222222222222222222", ""}) {
    CAPTURE(version);
    CHECK_THAT(error_with("all_reduce", [&](CollectiveTest& t) { t.collective.nccl = version; }),
               Contains("unknown NCCL version") && Contains("2.12 to 2.30"));
  }
  for (const char* name : {"rign", "ring,foo", "rings", "ring:tree", "all:ring", "allreduce:ring;tree",
                           "nvls;", ":ring", "\n"}) {
    CAPTURE(name);
    const std::string message =
        error_with("all_reduce", [&](CollectiveTest& t) { t.collective.algorithm = name; });
    CHECK((message.empty() || message.size() > 20));
  }
  for (const char* name : {"ll12", "x", "^ll,ll128,simple", "ring"}) {
    CAPTURE(name);
    check_line(error_with("all_reduce", [&](CollectiveTest& t) { t.collective.protocol = name; }));
  }
  check_line(error_with("all_gather", [](CollectiveTest& t) { t.collective.algorithm = "tree"; }));
  check_line(error_with("all_reduce", [](CollectiveTest& t) { t.cluster.gpus_per_node = 9; }));
  check_line(error_with("all_reduce", [](CollectiveTest& t) { t.cluster.nodes = 0; }));
  check_line(error_with("sendrecv", [](CollectiveTest& t) { t.cluster.nodes = 4'000'000; }));
  check_line(error_of([] { load_cluster("dgx-h10"); }));
  check_line(error_of([] { load_cluster("no_such.json"); }));
  check_line(error_of([] { load_cluster("/dev/zero"); }));
}

TEST_CASE("a scenario's cluster brings what the scenario says of collectives, and options come before it") {
  const TemporaryFolder folder;
  const std::string scenario =
      R"({"cluster": {"node": "dgx-a100", "nodes": 2}, "model": "resnet18", "training":
      {"batch_per_gpu": 32, "pytorch": "2.4", "collective": {"algorithm": "tree", "max_channels": 4, "nvls": false}}})";
  CollectiveOptions options;
  options.kind = "all_reduce";
  const auto test_with = [&](const std::string& text, const Profile& profile = {}) {
    options.cluster = folder.write("cluster.json", text);
    return collective_test(options, cluster_of(options), profile);
  };
  Profile profile;
  profile.nccl = "2.28";
  const CollectiveSpec training = parse_scenario(scenario, "x.json").training.collective;
  const CollectiveTest as_told = test_with(scenario);
  CHECK(as_told.collective == training);
  CHECK(as_told.collective.algorithm == "tree");
  CHECK_FALSE(as_told.nccl_stated);  // PyTorch's own may have been replaced, as a profile says
  CHECK(as_told.cluster.nodes == 2);
  CHECK(test_with(scenario, profile).collective.nccl == "2.28");
  const std::string result =
      R"({"fingerprint": "0", "scenario": )" + to_json(parse_scenario(scenario, "x.json")) + "}";
  CHECK(test_with(result).collective == training);
  CHECK(test_with(result, profile).collective.nccl == "2.28");
  const std::string page = nccl_tests_table(run_collective_test(as_told));
  CHECK_THAT(page, Contains("# with {\"algorithm\": \"tree\", \"max_channels\": 4, \"nvls\": false}\n"));

  const CollectiveTest plain = test_with(R"({"node": "dgx-a100", "nodes": 2})");
  CHECK(plain.collective == CollectiveSpec{});
  CHECK_FALSE(plain.nccl_stated);
  CHECK(test_with(R"({"node": "dgx-a100"})", profile).collective.nccl == "2.28");
  const CollectiveTest unstated = test_with(
      R"({"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 32}})", profile);
  CHECK(unstated.collective.nccl == "2.28");

  options.nccl = "2.26";
  options.algorithm = "ring";
  options.settings = R"({"max_channels": 2})";
  CollectiveSpec expected = training;
  expected.nccl = "2.26";
  expected.algorithm = "ring";
  expected.max_channels = 2;
  CHECK(test_with(scenario).collective == expected);

  options = {};
  options.kind = "alltoall";
  const std::string gloo =
      R"({"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 32, "collective": {"library": "gloo"}}})";
  CHECK_THAT(error_of([&] { test_with(gloo); }),
             Contains("cluster.json: /training/collective/library: ") && Contains("gloo"));
  options.kind = "all_reduce";
  options.library = "gloo";
  CHECK(test_with(scenario).collective.algorithm.empty());  // NCCL's choices are not gloo's
  options.library.reset();
  const std::string wrong = R"({"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 32,
      "collective": {"protocol": "ll", "algorithm": "nvls"}}})";
  CHECK(test_with(wrong).collective.protocol == "ll");
}

TEST_CASE("a profile is a file of cost parameters") {
  const TemporaryFolder folder;
  const std::string path = folder.file("profile.json");
  const auto error_with = [&](const std::string& text) {
    folder.write("profile.json", text);
    const std::string message = error_of([&] { load_profile(path); });
    CHECK((message.empty() || message.starts_with(path + ": ")));
    return message.empty() ? message : message.substr(path.size() + 2);
  };
  CHECK(error_with(R"({"parameters": {"simple.network.latency": "14 us", "network.efficiency": 0.9}})")
            .empty());
  const Profile profile = load_profile(path);
  REQUIRE(profile.parameters.size() == 2);
  CHECK(profile.parameters[0].name == "simple.network.latency");
  CHECK(profile.parameters[0].value == 14e-6);
  CHECK(profile.parameters[1].value == 0.9);
  for (const std::string& name : cost_parameter_names()) {
    CAPTURE(name);
    CHECK_FALSE(error_with("{\"parameters\": {\"" + name + "\": true}}").empty());
  }
  CHECK(error_with("") == "expected JSON, found an empty file");
  CHECK(error_with("{}") == "missing key \"parameters\"");
  CHECK(error_with("7") == "expected an object, found 7");
  CHECK(error_with(R"({"parameters": 5})") == "/parameters: expected an object of cost parameters, found 5");
  CHECK(error_with(R"({"parameters": {"simple.startup": 14}})") ==
        "/parameters/simple.startup: expected a time with its unit such as \"5 us\", found 14: the "
        "units are s, ms, us, ns or ps");
  CHECK(error_with(R"({"parameters": {"block.copy_rate": "1 us"}})") ==
        "/parameters/block.copy_rate: expected a bandwidth such as \"450 GB/s\", found \"1 us\", which is a "
        "time");
  CHECK_THAT(error_with(R"({"parameters": {"simple.startupp": "1 us"}})"),
             Contains("/parameters: unknown cost parameter \"simple.startupp\"; did you mean "
                      "\"simple.startup\"?"));
  CHECK(error_with(R"({"parameters": {"network.efficiency": 11}})") ==
        "/parameters/network.efficiency: expected a number above 0 and at most 10, found 11");
  CHECK(error_with(R"({"parameters": {"tcp.acknowledgements": 0}})").empty());
  CHECK(error_with(R"({"parameters": {"tcp.acknowledgements": "3 us"}})") ==
        "/parameters/tcp.acknowledgements: expected a number from 0 to 1, found \"3 us\"");
  CHECK(error_of([&] { load_profile(folder.file("none.json")); }) ==
        folder.file("none.json") + ": can't be read: No such file or directory");
  CHECK(error_of([&] { load_profile(folder.path().string()); }) ==
        folder.path().string() + ": can't be read: is a directory");
}

}  // namespace
}  // namespace paceline
