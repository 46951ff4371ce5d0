// Does it fit? What is said where it can't, and that everything we show can.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "scenarios/predict.h"
#include "scenarios/tables.h"
#include "studies/evaluate.h"
#include "studies/sweep.h"
#include "tests/files.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kRoot = PACELINE_SOURCE_DIR;

std::size_t ranks_of(const ClusterSpec& cluster) {
  const int nodes = cluster.job_nodes > 0 ? cluster.job_nodes : cluster.nodes;
  return static_cast<std::size_t>(nodes) * static_cast<std::size_t>(cluster.gpus_per_node);
}

void check_fits(const Scenario& s) {
  CHECK(s.gpu.memory.value > 0);
  CHECK(least_memory(s.model, s.training, ranks_of(s.cluster)).total() <= s.gpu.memory);
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") {
      files.push_back(entry.path());
    }
  }
  return files;
}

TEST_CASE("every example fits into its GPUs") {
  const std::vector<fs::path> files = files_in(kRoot / "scenarios");
  REQUIRE(files.size() >= 15);
  for (const fs::path& file : files) {
    CAPTURE(file);
    check_fits(load_scenario(file.string()));
  }
}

TEST_CASE("every point of every study that comes with Paceline fits") {
  const std::vector<fs::path> files = files_in(kRoot / "scenarios/studies");
  REQUIRE(files.size() >= 6);
  for (const fs::path& file : files) {
    CAPTURE(file);
    const Study study = load_study(file.string());
    // Seeds change no memory: of those the first alone.
    for (const StudyPoint& point : study.points) {
      const bool first_seed = std::ranges::all_of(point.axes, [&](const JsonMember& axis) {
        return axis.key != "seed" || axis.value.as<std::int64_t>() == nullptr ||
               *axis.value.as<std::int64_t>() == 1;
      });
      if (first_seed) {
        const ReadPoint read = read_point(study, point);
        REQUIRE(read.scenario);
        check_fits(*read.scenario);
      }
    }
  }
}

TEST_CASE("the scenarios that the pages show fit") {
  int found = 0;
  for (const char* page : {"README.md", "docs/guide.md"}) {
    std::ifstream in(kRoot / page);
    std::stringstream text;
    text << in.rdbuf();
    const std::string whole = text.str(), begin = "```json\n";
    for (std::size_t at = whole.find(begin); at != std::string::npos; at = whole.find(begin, at)) {
      at += begin.size();
      const std::string block = whole.substr(at, whole.find("```", at) - at);
      if (json::parse(block).contains("cluster")) {
        CAPTURE(page, block);
        check_fits(parse_scenario(block, (kRoot / "scenarios/page.json").string()));
        ++found;
      }
    }
  }
  CHECK(found >= 2);
}

const char* const kLlama = R"({
  "cluster": {"node": "dgx-h100", "nodes": 1, "gpus_per_node": 2}, "model": "llama3_8b",
  "training": {"batch_per_gpu": 1, "precision": "bf16", "gradients": "bf16", "optimizer": "adam"},
  "run": {"iterations": 1}})";

TEST_CASE("what doesn't fit is said first") {
  const Prediction p = predict(parse_scenario(kLlama, "llama"));
  CHECK_THAT(terminal_table(p),
             Catch::StartsWith("DOES NOT FIT: each GPU needs at least 128.5 GB of its 85.9 GB (80.00 GiB)"));
  const json memory = json::parse(result_json(p))["memory"];
  CHECK(memory["least_bytes"] == 128'484'179'968);
  CHECK(memory["parameters_bytes"] == 32'121'044'992);
  CHECK(memory["gradients_bytes"] == 16'060'522'496);
  CHECK(memory["buckets_bytes"] == 16'060'522'496);
  CHECK(memory["optimizer_bytes"] == 64'242'089'984);
  CHECK(memory["gpu_bytes"] == std::int64_t{80} << 30);
  CHECK(memory["can_fit"] == false);
}

TEST_CASE("nothing is said where it may fit, or where the GPU's memory is not known") {
  json scenario = json::parse(kLlama);
  scenario["model"] = "resnet18";
  const Prediction fits = predict(parse_scenario(scenario.dump(), "small"));
  CHECK_THAT(terminal_table(fits), !Catch::Contains("FIT"));
  CHECK(json::parse(result_json(fits))["memory"]["can_fit"] == true);

  scenario = json::parse(kLlama);
  scenario["cluster"]["gpu"] = {
      {"name", "mine"}, {"peak", {{"bf16", "500 TFLOP/s"}}}, {"memory_bandwidth", "2 TB/s"}};
  const Prediction unknown = predict(parse_scenario(scenario.dump(), "unknown"));
  CHECK_THAT(terminal_table(unknown), !Catch::Contains("FIT"));
  const json result = json::parse(result_json(unknown));
  CHECK(result["memory"]["gpu_bytes"].is_null());
  CHECK(result["memory"]["can_fit"].is_null());
  CHECK(result["memory"]["least_bytes"] == 128'484'179'968);
  CHECK_FALSE(result["scenario"]["cluster"]["gpu"].contains("memory"));
  parse_scenario(result["scenario"].dump(), "again");
}

TEST_CASE("a sweep says of every point whether it fits, and how many don't") {
  const json study{{"scenario", json::parse(kLlama)},
                   {"axes", {{{"key", "/model"}, {"values", {"llama3_8b", "resnet18"}}}}}};
  const TemporaryFolder folder;
  const std::string out = folder.file("out");
  const Study read = load_study(folder.write("study.json", study.dump()));
  CHECK(sweep(read, {out, 1, {}}).failed == 0);
  std::istringstream lines(text_of(out + "/results.jsonl"));
  std::map<std::string, bool> can_fit;
  for (std::string line; std::getline(lines, line);) {
    const json members = json::parse(line);
    can_fit[members["point"]["model"].get<std::string>()] = members["memory"]["can_fit"].get<bool>();
  }
  CHECK(can_fit == std::map<std::string, bool>{{"llama3_8b", false}, {"resnet18", true}});
  CHECK_THAT(sweep_table(read, out), Catch::Contains("1 of 2 points do not fit"));
}

}  // namespace
}  // namespace paceline
