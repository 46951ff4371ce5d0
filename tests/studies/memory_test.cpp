// Does it fit? What is said where it can't, and that everything we show can.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "scenarios/campaign.h"
#include "scenarios/gpu_memory.h"
#include "scenarios/predict.h"
#include "scenarios/readable.h"
#include "scenarios/run_table.h"
#include "studies/evaluate.h"
#include "studies/sweep.h"
#include "tests/error_of.h"
#include "tests/files.h"
#include "tests/load_study.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void check_fits(const Scenario& s) {
  CHECK(s.gpu.memory.value > 0);
  CHECK(does_not_fit(s).empty());
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
  const std::vector<fs::path> files = files_in(kSource / "scenarios");
  REQUIRE(files.size() >= 15);
  for (const fs::path& file : files) {
    CAPTURE(file);
    const Scenario scenario = load_scenario(file.string());
    if (simulates_steps(scenario)) {  // else the job is split in ways that are not simulated
      check_fits(scenario);
    }
  }
}

TEST_CASE("that nothing would fit is said of what was tried alone") {
  const auto told = [](const char* model, const char* options) {
    return what_would_fit(parse_scenario(std::string(R"({"cluster": {"node": "dgx1-v100"}, "model": ")") +
                                             model +
                                             R"(", "training": {"batch_per_gpu": 1, "precision": "fp16")" +
                                             options + R"(}, "run": {"iterations": 2}})",
                                         "s.json"));
  };
  CHECK_THAT(told("gpt2_xl", ""), Catch::StartsWith("it would fit with "));
  CHECK_THAT(told("gpt2_xl", R"(, "ddp": {"join": {"batches": [3, 3, 3, 3, 3, 3, 3, 2]}})"),
             Catch::StartsWith("nor would one sample, and with what else is said nothing can be sharded"));
  CHECK_THAT(told("llama3_8b", ""),
             Catch::StartsWith("nor would one sample with all sharded and recomputed"));
}

TEST_CASE("what somebody has trained fits") {
  const std::vector<fs::path> files = files_in(kSource / "scenarios/validation/training");
  REQUIRE(files.size() >= 20);
  for (const fs::path& file : files) {
    CAPTURE(file);
    check_fits(load_scenario(file.string()));
  }
}

// pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md: Llama 3.1 8B, not compiled; its loss is in fp32.
TEST_CASE("a measured peak is met within a tenth, on 8 and on 128 GPUs") {
  Scenario s =
      load_scenario((kSource / "scenarios/validation/training/torchtitan_llama3_8b_h100_96.json").string());
  for (const auto& [nodes, measured] : {std::pair{1, 82.4}, {16, 67.0}}) {
    s.cluster.nodes = nodes;
    const Bytes total = memory_of(s).total() + memory_of(s).unfused_loss;
    CHECK(static_cast<double>(total.value) == Approx(measured * (1 << 30)).epsilon(0.1));
    CHECK_THAT(terminal_table(predict(s)),
               Catch::Contains("a loss that no kernel fuses takes 25.2 GB more\n"));
  }
}

TEST_CASE("what fits only with a fused loss, as it was trained, is told") {
  const std::string set = "scenarios/validation/training/llmfoundry_mpt_125m_a100_40_pure.json";
  CHECK_THAT(terminal_table(predict(load_scenario((kSource / set).string()))),
             Catch::Contains("a loss that no kernel fuses takes") &&
                 Catch::Contains("more, with which it doesn't fit\n"));
  CHECK_THAT(terminal_table(predict(load_scenario((kSource / "scenarios/first_node.json").string()))),
             !Catch::Contains("loss"));
}

TEST_CASE("every point of every study that comes with Paceline fits") {
  const std::vector<fs::path> files = files_in(kSource / "scenarios/studies");
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
        if (simulates_steps(*read.scenario)) {
          check_fits(*read.scenario);
        }
      }
    }
  }
}

TEST_CASE("the scenarios that the pages show fit") {
  int found = 0;
  for (const char* page : {"README.md", "docs/guide.md"}) {
    std::ifstream in(kSource / page);
    std::stringstream text;
    text << in.rdbuf();
    const std::string whole = text.str(), begin = "```json\n";
    for (std::size_t at = whole.find(begin); at != std::string::npos; at = whole.find(begin, at)) {
      at += begin.size();
      const std::string block = whole.substr(at, whole.find("```", at) - at);
      if (json::parse(block).contains("cluster")) {
        CAPTURE(page, block);
        check_fits(parse_scenario(block, (kSource / "scenarios/page.json").string()));
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

json memory_of(const json& scenario) {
  return json::parse(result_json(predict(parse_scenario(scenario.dump(), "memory"))))["memory"];
}

TEST_CASE("what doesn't fit is said first") {
  const Prediction p = predict(parse_scenario(kLlama, "llama"));
  CHECK_THAT(terminal_table(p),
             Catch::StartsWith("does not fit: 175.8 GB of 85.9 GB (80.00 GiB): model states "
                               "128.5 GB, buckets 16.1 GB,\nactivations 31.2 GB (estimate); "));
  const json memory = json::parse(result_json(p))["memory"];
  constexpr std::int64_t kParameters = 8'030'261'248, kOutputs = 15'613'296'640, kLogits = 8192 * 128'256;
  CHECK(memory == json{{"parameters_bytes", 2 * kParameters},
                       {"gradients_bytes", 2 * kParameters},
                       {"optimizer_bytes", 12 * kParameters},
                       {"model_states_bytes", 16 * kParameters},
                       {"gathered_bytes", 0},
                       {"buckets_bytes", 2 * kParameters},
                       {"activations_bytes", 2 * kOutputs},
                       {"unfused_loss_bytes", 3 * 4 * kLogits},
                       {"total_bytes", 18 * kParameters + 2 * kOutputs},
                       {"gpu_bytes", std::int64_t{80} << 30},
                       {"fits", false}});
}

// Rajbhandari et al. 2020, figure 1.
TEST_CASE("7.5 G parameters on 64 GPUs need 120, 31.4, 16.6 and 1.9 GB of model states") {
  json scenario = json::parse(kLlama);
  scenario["cluster"] = {{"node", "dgx-a100"}, {"nodes", 8}};
  scenario["model"] = {{"name", "7.5B"},
                       {"layers",
                        {{{"name", "layers.0"},
                          {"parameters", {7'500'000'000}},
                          {"forward_macs", 7'500'000'000},
                          {"output_elements", 1'000'000}}}}};
  scenario["training"]["precision"] = scenario["training"]["gradients"] = "fp16";
  const auto model_states = [&] {
    return fixed(memory_of(scenario)["model_states_bytes"].get<double>() * 1e-9, 1);
  };
  CHECK(model_states() == "120.0");
  scenario["training"]["strategy"] = "zero";
  for (const auto& [stage, gigabytes] : {std::pair{1, "31.4"}, {2, "16.6"}, {3, "1.9"}}) {
    scenario["training"]["zero"]["stage"] = stage;
    CHECK(model_states() == gigabytes);
  }
}

TEST_CASE("Megatron's gradients are the buckets") {
  json scenario = json::parse(kLlama);
  scenario["training"]["strategy"] = "zero";
  const auto buckets = [&] { return memory_of(scenario)["buckets_bytes"].get<double>(); };
  CHECK(buckets() > 0);
  scenario["training"]["ddp"]["reduction"] = "megatron";
  scenario["training"]["zero"]["reduce_scatter"] = true;
  CHECK(buckets() == 0);
}

TEST_CASE("what is sharded fits, and the page says what it needs") {
  json scenario = json::parse(kLlama);
  scenario["cluster"] = {{"node", "dgx-h100"}, {"nodes", 8}};
  scenario["training"]["strategy"] = "fsdp";
  const std::string page = terminal_table(predict(parse_scenario(scenario.dump(), "sharded")));
  CHECK_THAT(page, !Catch::Contains("does not fit"));
  CHECK_THAT(page, Catch::Contains("memory          40.8 GB of 85.9 GB (80.00 GiB) a GPU\n"));
  CHECK_THAT(page,
             Catch::Contains("model states 2.0 GB, gathered 3.0 GB, buckets 4.6 GB, activations 31.2 GB"));
}

TEST_CASE("sharding on one GPU is plain training, and the page says so") {
  json scenario = json::parse(kLlama);
  scenario["model"] = "resnet18";
  scenario["cluster"]["gpus_per_node"] = 1;
  const json plain = memory_of(scenario);
  for (const char* strategy : {"fsdp", "zero"}) {
    scenario["training"]["strategy"] = strategy;
    CHECK_THAT(
        terminal_table(predict(parse_scenario(scenario.dump(), "one"))),
        Catch::Contains(strategy + std::string(" on one GPU is plain training: nothing is sharded\n")));
    CHECK(memory_of(scenario) == plain);
  }
  scenario["training"]["strategy"] = "ddp";
  CHECK_THAT(terminal_table(predict(parse_scenario(scenario.dump(), "one"))),
             !Catch::Contains("plain training") && !Catch::Contains("compressed"));
  scenario["training"]["gradients"] = "fp32";
  scenario["training"]["compression"] = "fp16";
  CHECK_THAT(terminal_table(predict(parse_scenario(scenario.dump(), "one"))),
             Catch::Contains("one GPU sends no gradients: nothing is compressed\n"));
}

std::string refusal(const json& scenario) {
  return error_of([&] { require_fit(parse_scenario(scenario.dump(), "s.json")); });
}

TEST_CASE("what must fit is refused where it doesn't, with the settings that would fit") {
  json scenario = json::parse(kLlama);
  scenario["cluster"] = {{"node", "dgx-h100"}, {"nodes", 8}};
  const std::string states = "model states 128.5 GB, buckets 16.1 GB, activations ";
  CHECK(
      refusal(scenario) ==
      "/training: does not fit: 175.8 GB of 85.9 GB (80.00 GiB): " + states +
          "31.2 GB (estimate); it would fit with /training/strategy=zero and /training/zero/stage=1 (80.9 "
          "GB); "
          "/training/strategy=zero and /training/zero/stage=2 (53.7 GB); /training/strategy=fsdp (40.8 GB); "
          "/training/strategy=fsdp and /training/activation_checkpointing=selective_op (29.0 GB); "
          "/training/strategy=fsdp and /training/activation_checkpointing=full (14.9 GB)");

  scenario["training"]["batch_per_gpu"] = 40;
  CHECK_THAT(refusal(scenario), Catch::Contains("it would fit with /training/strategy=fsdp and "
                                                "/training/activation_checkpointing=full and "
                                                "/training/batch_per_gpu="));
  scenario["training"]["strategy"] = "fsdp";
  CHECK_THAT(refusal(scenario), Catch::Contains("it would fit with /training/batch_per_gpu=2 (72.1 GB)"));
  scenario["training"]["batch_per_gpu"] = 2;
  CHECK(refusal(scenario).empty());

  // FSDP has no hooks; Gloo doesn't shard.
  scenario["training"]["strategy"] = "ddp";
  scenario["training"]["compression"] = "powersgd";
  scenario["training"]["gradients"] = "fp32";
  CHECK_THAT(refusal(scenario), Catch::Contains("/training/strategy=fsdp and /training/compression=none ("));
  scenario["training"].erase("compression");
  scenario["training"]["gradients"] = "bf16";
  scenario["training"]["collective"]["library"] = "gloo";
  CHECK_THAT(refusal(scenario), !Catch::Contains("fsdp"));
  scenario["training"].erase("collective");

  scenario["cluster"] = {{"node", "dgx-h100"}, {"nodes", 1}, {"gpus_per_node", 1}};
  CHECK_THAT(refusal(scenario), Catch::EndsWith("it takes more or larger GPUs, or a smaller model"));
  scenario["cluster"]["gpu"] = {
      {"name", "mine"}, {"peak", {{"bf16", "500 TFLOP/s"}}}, {"memory_bandwidth", "2 TB/s"}};
  CHECK(refusal(scenario) ==
        "/cluster/gpu/memory: expected the memory of mine, or nobody knows whether it fits");
}

TEST_CASE("recomputation by operators is proposed before that of all") {
  json scenario = json::parse(R"({"cluster": {"node": "dgx-h100", "nodes": 8}, "model": "llama3_8b",
      "training": {"batch_per_gpu": 3, "precision": "bf16", "gradients": "bf16", "strategy": "fsdp"}})");
  CHECK_THAT(refusal(scenario), Catch::Contains("/training/activation_checkpointing=selective_op (") &&
                                    Catch::Contains("/training/activation_checkpointing=full ("));
  scenario["training"]["activation_checkpointing"] = "selective_op";
  CHECK(refusal(scenario).empty());
  scenario["training"]["batch_per_gpu"] = 5;
  CHECK_THAT(refusal(scenario), !Catch::Contains("selective_op") &&
                                    Catch::Contains("/training/activation_checkpointing=full ("));
}

TEST_CASE("whole gradients are given up where nothing else fits") {
  json scenario = json::parse(R"({"cluster": {"node": "dgx-h100", "nodes": 16}, "model": "llama3_70b",
      "training": {"batch_per_gpu": 1, "accumulation": 4, "precision": "bf16", "gradients": "bf16",
                   "optimizer": "adam", "strategy": "fsdp"}})");
  CHECK_THAT(refusal(scenario), Catch::Contains("it would fit with") &&
                                    Catch::Contains("/training/activation_checkpointing=full and "
                                                    "/training/no_sync=false ("));
  scenario["training"]["activation_checkpointing"] = "full";
  CHECK_THAT(refusal(scenario), Catch::Contains("it would fit with /training/no_sync=false ("));
  scenario["training"]["no_sync"] = false;
  CHECK(refusal(scenario).empty());
}

TEST_CASE("what can't be sharded is tried with checkpointing and a smaller batch together") {
  json scenario = json::parse(R"({"cluster": {"node": "dgx-h100", "nodes": 1, "gpus_per_node": 2},
      "model": {"transformer": {"layers": 24, "hidden": 3712, "heads": 32, "vocabulary": 32000, "sequence": 16384}},
      "training": {"batch_per_gpu": 4, "precision": "bf16", "gradients": "bf16", "optimizer": "adam",
                   "collective": {"library": "gloo"}}})");
  CHECK_THAT(refusal(scenario),
             Catch::EndsWith("it would fit with /training/activation_checkpointing=full and "
                             "/training/batch_per_gpu=1 (80.5 GB)"));
  scenario["training"]["activation_checkpointing"] = "full";
  scenario["training"]["batch_per_gpu"] = 1;
  CHECK(refusal(scenario).empty());
  scenario["training"]["recompute_every"] = 12;
  CHECK_THAT(refusal(scenario), Catch::EndsWith("it would fit with /training/recompute_every=1 (80.5 GB)"));
}

TEST_CASE("the page and the result of what doesn't fit have the settings that would") {
  json scenario = json::parse(kLlama);
  scenario["cluster"] = {{"node", "dgx-h100"}, {"nodes", 8}};
  const Prediction p = predict(parse_scenario(scenario.dump(), "llama"));
  CHECK_THAT(terminal_table(p), Catch::Contains("it would fit with") &&
                                    Catch::Contains("/training/strategy=fsdp (40.8 GB)") &&
                                    Catch::Contains("What follows is as if it"));
  const json result = json::parse(result_json(p));
  REQUIRE(result["would_fit"].size() == 5);
  CHECK(result["would_fit"][2] == "/training/strategy=fsdp (40.8 GB)");
  scenario["training"]["strategy"] = "fsdp";
  CHECK(!json::parse(result_json(predict(parse_scenario(scenario.dump(), "llama")))).contains("would_fit"));
}

TEST_CASE("the settings that are named do fit") {
  json scenario = json::parse(kLlama);
  scenario["cluster"] = {{"node", "dgx-h100"}, {"nodes", 8}};
  scenario["training"]["fsdp"]["shard_group"] = "node";
  for (const int batch : {1, 3, 40}) {
    scenario["training"]["batch_per_gpu"] = batch;
    const std::string text = refusal(scenario), begin = "would fit with ";
    std::istringstream ways(text.substr(text.find(begin) + begin.size()));
    int named = 0;
    for (std::string way; std::getline(ways, way, ';'); ++named) {
      CAPTURE(batch, way);
      json changed = scenario;
      std::istringstream words(way);
      for (std::string word; words >> word;) {
        if (const std::size_t at = word.find('='); at != std::string::npos) {
          const json value = json::parse(word.substr(at + 1), nullptr, false);
          changed[json::json_pointer(word.substr(0, at))] =
              value.is_discarded() ? json(word.substr(at + 1)) : value;
        }
      }
      CHECK(memory_of(changed)["fits"] == true);
    }
    CHECK(named >= 1);
  }
}

TEST_CASE("nothing is said where it may fit, or where the GPU's memory is not known") {
  json scenario = json::parse(kLlama);
  scenario["model"] = "resnet18";
  const Prediction fits = predict(parse_scenario(scenario.dump(), "small"));
  CHECK_THAT(terminal_table(fits), !Catch::Contains("does not fit"));
  CHECK(json::parse(result_json(fits))["memory"]["fits"] == true);

  scenario = json::parse(kLlama);
  scenario["cluster"]["gpu"] = {
      {"name", "mine"}, {"peak", {{"bf16", "500 TFLOP/s"}}}, {"memory_bandwidth", "2 TB/s"}};
  const Prediction unknown = predict(parse_scenario(scenario.dump(), "unknown"));
  CHECK_THAT(terminal_table(unknown), !Catch::Contains("does not fit"));
  const json result = json::parse(result_json(unknown));
  CHECK(result["memory"]["gpu_bytes"].is_null());
  CHECK(result["memory"]["fits"].is_null());
  CHECK(result["memory"]["model_states_bytes"] == 128'484'179'968);
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
  std::map<std::string, bool> fits;
  for (std::string line; std::getline(lines, line);) {
    const json members = json::parse(line);
    fits[members["point"]["model"].get<std::string>()] = members["memory"]["fits"].get<bool>();
  }
  CHECK(fits == std::map<std::string, bool>{{"llama3_8b", false}, {"resnet18", true}});
  const std::string table = sweep_table(read, out);
  CHECK_THAT(table, Catch::StartsWith("1 of 2 points do not fit: "));
  CHECK_THAT(table, Catch::Contains("does not fit: 175.8 GB of 85.9 GB\n"));
  CHECK_THAT(table, Catch::Matches("(.|\n)*resnet18 .* 0\\.[0-9] GB\n"));
}

}  // namespace
}  // namespace paceline
