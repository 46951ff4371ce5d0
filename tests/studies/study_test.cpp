// Does a study give the points that it says, and a bad one its message?
#include "studies/study.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/json.h"
#include "scenarios/schema_writer.h"
#include "studies/edit.h"
#include "studies/sweep.h"
#include "tests/error_of.h"
#include "tests/files.h"
#include "tests/load_study.h"
#include "tests/studies/small_study.h"

namespace paceline {
namespace {

// The values of each point, one line each.
std::string points(const std::string& axes) {
  std::string text;
  for (const StudyPoint& point : study(axes).points) {
    for (const JsonMember& axis : point.axes) {
      text += to_line(axis.value) + (&axis == &point.axes.back() ? "; " : ",");
    }
  }
  return text;
}

std::string complaint(const std::string& axes, const std::string& more = "") {
  return error_of([&] { study(axes, kSmall, more); });
}

TEST_CASE("lists, ranges and zipped axes") {
  CHECK(points(R"([{"key": "/run/seed", "values": [1, 2]}, {"key": "/a", "values": ["x", null, [3]]}])") ==
        R"(1,"x"; 1,null; 1,[3]; 2,"x"; 2,null; 2,[3]; )");
  CHECK(points(R"([{"key": "gpus", "from": 8, "to": 64, "factor": 2}])") == "8; 16; 32; 64; ");
  CHECK(points(R"([{"key": "gpus", "from": 8, "to": 63, "factor": 2}])") == "8; 16; 32; ");
  CHECK(points(R"([{"key": "/a", "from": 64, "to": 8, "factor": 0.5}])") == "64; 32; 16; 8; ");
  CHECK(points(R"([{"key": "/a", "from": 1, "to": 5, "step": 2}])") == "1; 3; 5; ");
  CHECK(points(R"([{"key": "/a", "from": 5, "to": 1, "step": -2}])") == "5; 3; 1; ");
  CHECK(points(R"([{"key": "/a", "from": 4, "to": 4, "step": 1}])") == "4; ");
  CHECK(points(R"([{"key": "/a", "from": 0, "to": 0.3, "step": 0.1}])") == "0; 0.1; 0.2; 0.3; ");
  CHECK(points(R"([{"key": "/a", "from": 0.1, "to": 0.5, "factor": 1.5}])") == "0.1; 0.15; 0.225; 0.3375; ");
  CHECK(points(R"([{"zip": [{"key": "/a", "values": [1, 1]}, {"key": "/b", "from": 3, "to": 4, "step": 1}]},
                   {"key": "/c", "values": [5, 6]}])") == "1,3,5; 1,3,6; 1,4,5; 1,4,6; ");
}

TEST_CASE("ranges of quantities keep the unit of their beginning") {
  CHECK(points(R"([{"key": "/a", "from": "1 MiB", "to": "8 MiB", "factor": 2}])") ==
        R"("1 MiB"; "2 MiB"; "4 MiB"; "8 MiB"; )");
  CHECK(points(R"([{"key": "/a", "from": "512 KiB", "to": "2 MiB", "factor": 2}])") ==
        R"("512 KiB"; "1024 KiB"; "2048 KiB"; )");
  CHECK(points(R"([{"key": "/a", "from": "5 us", "to": "0.0053 ms", "step": "100 ns"}])") ==
        R"("5 us"; "5.1 us"; "5.2 us"; "5.3 us"; )");
  CHECK(points(R"([{"key": "/a", "from": "30 min", "to": "2 h", "factor": 2}])") ==
        R"("30 min"; "60 min"; "120 min"; )");
  CHECK(points(R"([{"key": "/a", "from": "1 ns", "to": "1 us", "factor": 10}])") ==
        R"("1 ns"; "10 ns"; "100 ns"; "1000 ns"; )");
  CHECK(points(R"([{"key": "/a", "from": "100 Gb/s", "to": "50 GB/s", "factor": 2}])") ==
        R"("100 Gb/s"; "200 Gb/s"; "400 Gb/s"; )");
}

TEST_CASE("an axis is called by its name, or the last word of its key") {
  const Study s =
      study(R"([{"key": "gpus", "values": [8]}, {"key": "/training/ddp/bucket_cap", "values": ["1 MiB"]},
                            {"key": "/x~1y", "values": [1]}, {"key": "/run/seed", "values": [1], "name": "draw"}])");
  CHECK(to_line(Json(s.points[0].axes)) == R"({"gpus": 8, "bucket_cap": "1 MiB", "x/y": 1, "draw": 1})");
  CHECK(value_at(s.text, "/axes/1/name")->as<std::string>() != nullptr);
  CHECK(*value_at(s.text, "/axes/1/name")->as<std::string>() == "bucket_cap");
  // What is kept of a study is the same study.
  const Study again = parse_study(to_text(s.text), "s.json");
  CHECK(to_line(again.text) == to_line(s.text));
  CHECK(to_line(Json(again.points[0].axes)) == to_line(Json(s.points[0].axes)));
}

TEST_CASE("a study of more points than a million is refused", "[release]") {
  const std::vector<std::pair<std::string, std::string>> bad{
      {R"([{"key": "/a", "from": 0, "to": 1, "step": 1e-9}])",
       "/axes/0: expected a range of at most 1000000 values, found more"},
      {R"([{"key": "/a", "from": 1, "to": 2, "factor": 1.0000000001}])",
       "/axes/0: expected a range of at most 1000000 values, found more"},
      {R"([{"key": "/a", "from": 1, "to": 1e6, "step": 1}, {"key": "/b", "values": [1, 2]}])",
       "/axes: expected at most 1000000 points, found more"},
  };
  for (const auto& [axes, expected] : bad) {
    CAPTURE(axes);
    CHECK(complaint(axes) == "s.json: " + expected);
  }
}

TEST_CASE("every bad study gives its message") {
  const std::string good = R"([{"key": "gpus", "values": [8]}])";
  const std::vector<std::pair<std::string, std::string>> bad{
      {"[]", "/axes: expected an array of 1 to 20, found an empty array"},
      {"{}", "/axes: expected an array of 1 to 20, found an empty object"},
      {"[3]", "/axes/0: expected an object, found 3"},
      {R"([{"key": "/a"}])", R"(/axes/0: missing key "values", or "from" and "to")"},
      {R"([{"key": "/a", "valeus": [1]}])",
       R"(/axes/0: unknown key "valeus"; did you mean "values"? Known: key, name, from, to, step, factor, values, zip)"},
      {R"([{"values": [1]}])", R"(/axes/0: missing key "key")"},
      {R"([{"key": "/a", "values": []}])",
       "/axes/0/values: expected an array of 1 to 1000000, found an empty array"},
      {R"([{"key": "/a", "values": [1], "from": 2}])",
       R"(/axes/0: unknown key "from". In a scenario "from" belongs in /cluster/degraded_links/0 or /background/0. Known: key, name, values)"},
      {R"([{"key": "gpu", "values": [1]}])",
       R"(/axes/0/key: expected "gpus" or a JSON pointer such as "/training/batch_per_gpu", found "gpu")"},
      {R"([{"key": "/a~", "values": [1]}])",
       R"(/axes/0/key: expected ~0 or ~1 after ~ in a JSON pointer, found "/a~")"},
      {R"([{"key": "/a", "values": [8, 9, 8]}])", "/axes/0: expected each value once, found 8 twice"},
      {R"([{"key": "gpus", "values": [8, 0]}])",
       "/axes/0/values/1: expected a whole number from 1 to 4000000, found 0"},
      {R"([{"key": "gpus", "values": ["8"]}])",
       "/axes/0/values/0: expected a whole number from 1 to 4000000, found \"8\": write it without quotes"},
      {R"([{"key": "/a", "from": 1, "to": 2}])", "/axes/0: expected either step or factor, found neither"},
      {R"([{"key": "/a", "from": 1, "to": 2, "step": 1, "factor": 2}])",
       "/axes/0: expected either step or factor, found both"},
      {R"([{"key": "/a", "from": 1, "step": 1}])", R"(/axes/0: missing key "to")"},
      {R"([{"key": "/a", "from": 1, "to": 2, "step": 0}])",
       "/axes/0/step: expected a step that leads from `from` to `to`, found 0"},
      {R"([{"key": "/a", "from": 1, "to": 2, "step": -1}])",
       "/axes/0/step: expected a step that leads from `from` to `to`, found -1"},
      {R"([{"key": "/a", "from": 1, "to": 2, "factor": 1}])",
       "/axes/0/factor: expected a factor that leads from `from` to `to`, found 1"},
      {R"([{"key": "/a", "from": 0, "to": 2, "factor": 2}])",
       "/axes/0/factor: expected a factor that leads from `from` to `to`, found 2"},
      {R"([{"key": "/a", "from": 2, "to": 1, "factor": 2}])",
       "/axes/0/factor: expected a factor that leads from `from` to `to`, found 2"},
      {R"([{"key": "/a", "from": "1 MiB", "to": "2 us", "factor": 2}])",
       R"(/axes/0/to: expected a size, as `from` is, found "2 us")"},
      {R"([{"key": "/a", "from": 1, "to": "2 us", "factor": 2}])",
       R"(/axes/0/to: expected a number, as `from` is, found "2 us")"},
      {R"([{"key": "/a", "from": "1 MiB", "to": "2 MiB", "step": 1}])",
       "/axes/0/step: expected a size, as `from` is, found 1"},
      {R"([{"key": "/a", "from": "1 parsec", "to": 2, "factor": 2}])",
       R"(/axes/0/from: expected a number, or a quantity such as "25 MiB" or "5 us", found "1 parsec")"},
      {R"([{"key": "/a", "from": true, "to": 2, "factor": 2}])",
       R"(/axes/0/from: expected a number, or a quantity such as "25 MiB" or "5 us", found true)"},
      {R"([{"zip": [{"key": "/a", "values": [1]}]}])",
       "/axes/0/zip: expected an array of 2 to 20, found an array of 1"},
      {R"([{"zip": [{"key": "/a", "values": [1]}, {"key": "/b", "values": [1, 2]}]}])",
       "/axes/0/zip/1: expected as many values as the first zipped axis has, 1, found 2"},
      {R"([{"zip": [{"key": "/a", "values": [1]}, {"zip": []}]}])",
       R"(/axes/0/zip/1: unknown key "zip". Known: key, name, from, to, step, factor, values)"},
      {R"([{"zip": [{"key": "/a", "values": [1, 1]}, {"key": "/b", "values": [2, 2]}]}])",
       "/axes/0: expected each value once, found [1, 2] twice"},
      {R"([{"key": "/a/x", "values": [1]}, {"key": "/b/x", "values": [1]}])",
       R"(/axes/1: expected a name of its own for each axis (key "name"), found "x" twice)"},
      {R"([{"key": "/a", "values": [1], "name": "step_time_s"}])",
       R"(/axes/0: expected a name (key "name") that no number of a result has, beside which tables show it, found "step_time_s")"},
      {R"([{"key": "/cluster/gpus", "values": [1]}])",
       R"(/axes/0: expected a name (key "name") that no number of a result has, beside which tables show it, found "gpus")"},
      {R"([{"key": "/a", "values": [1]}, {"key": "/a", "values": [2], "name": "b"}])",
       R"(/axes/1: expected each key in one axis, found "/a" twice)"},
      {R"([{"key": "gpus", "values": [8]}, {"key": "/cluster/nodes", "values": [2]}])",
       R"(/axes/1/key: expected another key, as the axis gpus sets it, found "/cluster/nodes")"},
      {R"([{"key": "gpus", "values": [8]}, {"key": "/cluster/job_nodes", "values": [2]}])",
       R"(/axes/1/key: expected another key, as the axis gpus sets it, found "/cluster/job_nodes")"},
      {R"([{"key": "/cluster/node/nics", "values": [8]}, {"key": "/cluster", "values": ["dgx-a100"]}])",
       R"(/axes/1/key: expected the axis "/cluster" before "/cluster/node/nics", whose value it would overwrite: put "/cluster" first, found it after)"},
      {R"([{"key": "gpus", "values": [8]}, {"key": "/cluster", "values": ["dgx-a100", {"nodes": 2}]}])",
       R"(/axes/1/values/1: expected a cluster without "nodes", as the axis gpus sets it, found one with it)"},
      {R"([{"key": "/cluster", "values": [{"gpus_per_node": 2}]}, {"key": "gpus", "values": [8]}])",
       R"(/axes/0/values/0: expected a cluster without "gpus_per_node", as the axis gpus sets it, found one with it)"},
  };
  for (const auto& [axes, expected] : bad) {
    CAPTURE(axes);
    CHECK(complaint(axes) == "s.json: " + expected);
  }
  const std::vector<std::pair<std::string, std::string>> more{
      {R"(, "axis": 1)",
       R"(unknown key "axis"; did you mean "axes"? Known: description, scenario, scaling, global_batch, profile, allow_other_machine, axes, measured)"},
      {R"(, "scaling": "week")",
       R"(/scaling: unknown value "week"; did you mean "weak"? Known: none, strong, weak)"},
      {R"(, "global_batch": 64)", R"(expected no key "global_batch", as the scaling is not strong)"},
      {R"(, "measured": [{"point": {"gpu": 8}, "throughput": "9 samples/s"}])",
       R"(/measured/0/point: unknown axis "gpu"; did you mean "gpus"? Known: gpus)"},
      {R"(, "measured": [{"point": 8, "throughput": "9 samples/s"}])",
       "/measured/0/point: expected an object: name of each axis -> its value, found 8"},
      {R"(, "measured": [{"point": {"gpus": 8}}])",
       "/measured/0: expected either throughput or step_time, found neither"},
      {R"(, "measured": [{"point": {"gpus": 8}, "throughput": "9 samples/s", "step_time": "9 ms"}])",
       "/measured/0: expected either throughput or step_time, found both"},
      {R"(, "measured": [{"point": {"gpus": 8}, "throughput": "9 GB/s"}])",
       R"(/measured/0/throughput: expected a sample rate such as "400 samples/s", found "9 GB/s", which is a bandwidth)"},
  };
  for (const auto& [text, expected] : more) {
    CAPTURE(text);
    CHECK(complaint(good, text) == "s.json: " + expected);
  }
  CHECK(complaint(good, R"(, "$schema": "x", "description": "", "measured":
                             [{"point": {"gpus": 8}, "step_time": "9 ms", "source": "log"}])")
            .empty());
  CHECK(complaint(R"([{"key": "/run/seed", "values": [8]}])", R"(, "scaling": "weak")") ==
        R"(s.json: /scaling: expected an axis with the key "gpus", found none)");
  CHECK(
      complaint(R"([{"key": "gpus", "values": [8]}, {"key": "/training/accumulation", "values": [8]}])",
                R"(, "scaling": "strong")") ==
      R"(s.json: /axes/1/key: expected another key, as strong scaling sets it, found "/training/accumulation")");
  CHECK(
      complaint(R"([{"key": "gpus", "values": [8]}, {"key": "/training", "values": [{"batch_per_gpu": 8}]}])",
                R"(, "scaling": "strong")") ==
      R"(s.json: /axes/1/key: expected another key, as strong scaling sets it, found "/training")");
  // The whole first, or another key that begins alike: nothing is lost.
  CHECK(complaint(
            R"([{"key": "/cluster", "values": ["dgx-a100"]}, {"key": "/cluster/node/nics", "values": [8]}])")
            .empty());
  CHECK(complaint(R"([{"key": "/run/seeds", "values": [1]}, {"key": "/run/seed", "values": [8]}])").empty());
}

// As tables join them: step_time_s/mean -> step_time_mean_s.
void add_columns(const Json::Object& members, const std::string& before, const std::string& unit,
                 std::set<std::string>& columns) {
  for (const auto& [key, value] : members) {
    if (const auto* inner = value.as<Json::Object>()) {
      const bool timed = key.ends_with("_s");
      add_columns(*inner, before + (timed ? key.substr(0, key.size() - 2) : key) + '_', timed ? "_s" : unit,
                  columns);
    } else {
      const bool has_unit = unit.empty() || key.ends_with("_s") || value.as<bool>() != nullptr ||
                            value.as<std::string>() != nullptr;
      columns.insert(before + key + (has_unit ? "" : unit));
    }
  }
}

TEST_CASE("an axis isn't called as a number of a result, but for its own") {
  std::set<std::string> columns;
  for (const char* training :
       {R"("strategy": "parameter_server")", R"("compression": "fp16")",
        R"("strategy": "local_sgd", "local_sgd": {"period": 2})", R"("measured": "900 samples/s")"}) {
    const Study small =
        study(R"([{"key": "gpus", "values": [2]}])",
              R"({"cluster": {"node": "dgx-a100"}, "model": "resnet18", "run": {"iterations": 2},
                                  "training": {"batch_per_gpu": 8, )" +
                  std::string(training) + "}}");
    const Json line = parse_json(sweep_line(small, small.points[0]));
    REQUIRE(line.find("error") == nullptr);
    Json::Object members = *line.as<Json::Object>();
    std::erase_if(members, [](const JsonMember& member) { return member.key == "point"; });
    add_columns(members, "", "", columns);
  }
  CHECK(columns.size() > 60);
  CHECK(columns.contains("step_time_mean_s"));
  CHECK(columns.contains("servers_mean_staleness"));
  for (const std::string& column : columns) {
    CAPTURE(column);
    const auto named = [&](const std::string& key) {
      return R"([{"key": ")" + key + R"(", "values": [1], "name": ")" + column + R"("}])";
    };
    CHECK_THROWS_WITH(study(named("/training/batch_per_gpu")),
                      Catch::Contains("that no number of a result has"));
    if (column != "gpus") {
      CHECK_NOTHROW(study(named("/run/" + column)));
    }
  }
  // No key of a scenario needs another name than its own, but for the kinds of GPUs.
  for (const KeyPlaces& each : scenario_keys()) {
    CAPTURE(each.key);
    const std::string axes = R"([{"key": "/x/)" + each.key + R"(", "values": [1]}])";
    if (each.key != "gpus") {
      CHECK_NOTHROW(study(axes));
    }
  }
}

TEST_CASE("strong scaling without a batch says what to give") {
  const auto with = [](const std::string& more) {
    return parse_study(
        R"({"scenario": {"cluster": {"node": "dgx-a100"}, "model": "resnet18"}, "scaling": "strong",
        "axes": [{"key": "gpus", "values": [8]}, {"key": "/training/batch_per_gpu", "values": [4]}])" +
            more + "}",
        "s.json");
  };
  CHECK_THROWS_WITH(with(""), Catch::StartsWith("s.json: ") && Catch::Contains("missing key") &&
                                  Catch::EndsWith("complete the scenario, or give global_batch"));
  CHECK(with(R"(, "global_batch": 64)").global_batch == 64);
}

TEST_CASE("a study's scenario may be a file, a result, or wrong") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("studies"));
  const auto with = [&](const std::string& scenario) {
    folder.write("studies/s.json",
                 R"({"axes": [{"key": "/run/seed", "values": [1]}], "scenario": )" + scenario + "}");
    try {
      const Study s = load_study(folder.file("studies/s.json"));
      return to_line(s.scenario) + " " + std::filesystem::path(s.file).filename().string();
    } catch (const InputError& error) {
      std::string text = error.what();
      for (std::size_t at = text.find(folder.file("")); at != std::string::npos;
           at = text.find(folder.file(""))) {
        text.erase(at, folder.file("").size());
      }
      return text;
    }
  };
  folder.write("a.json", R"({"run": {}})");
  folder.write("r.json", R"({"fingerprint": "0", "scenario": {"model": "m"}})");
  folder.write("n.json", "3");
  folder.write("b.json", "{");
  CHECK(with(R"({"model": "x"})") == R"({"model": "x"} s.json)");
  CHECK(with(R"("../a.json")") == R"({"run": {}} a.json)");
  CHECK(with(R"("../r.json")") == R"({"model": "m"} r.json)");
  CHECK(with("3") == "studies/s.json: /scenario: expected the name of a file or a scenario, found 3");
  CHECK(with(R"("../n.json")") == "studies/../n.json: expected an object, found 3");
  CHECK_THAT(with(R"("../b.json")"), Catch::StartsWith("studies/../b.json: line 1, column "));
  CHECK(with(R"("none.json")") == "studies/none.json: can't be read: No such file or directory");
}

TEST_CASE("the examples are studies whose points can be read") {
  const std::filesystem::path folder = kSource / "scenarios/studies";
  std::size_t studies = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    CAPTURE(entry.path().string());
    const Study s = load_study(entry.path().string());
    CHECK_THAT(s.description, Catch::EndsWith("?"));
    for (const std::size_t i : {std::size_t{0}, s.points.size() - 1}) {
      const PointScenario made = scenario_of(s, s.points[i]);
      CHECK_FALSE(made.wrong.has_value());
      CHECK_NOTHROW(parse_scenario(to_line(made.scenario), s.file));
    }
    CHECK((entry.path().stem() != "thousand" || s.points.size() >= 1000));
    ++studies;
  }
  CHECK(studies >= 6);
}

TEST_CASE("the schema names every key of a study, and allows a scenario's to be missing") {
  const Json schema = parse_json(study_schema());
  for (const char* key : {"scenario", "scaling", "global_batch", "profile", "axes", "measured", "$schema"}) {
    CHECK(value_at(schema, std::string("/properties/") + key) != nullptr);
  }
  CHECK(value_at(schema, "/properties/scenario/anyOf/1/properties/training") != nullptr);
  CHECK(value_at(schema, "/properties/scenario/anyOf/1/required") == nullptr);
  CHECK(value_at(schema, "/properties/axes/items/anyOf/2/properties/zip") != nullptr);
  CHECK(to_line(*value_at(schema, "/required")) == R"(["scenario", "axes"])");
}

}  // namespace
}  // namespace paceline
