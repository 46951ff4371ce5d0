// How far from measurement is one GPU whose kernels nobody measured? docs/accuracy.md, "Roofline without an anchor",
// states it, and these tests hold it to that.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/text.h"
#include "measured_tables.h"
#include "scenarios/predict.h"
#include "tests/files.h"

namespace paceline {
namespace {

const std::string kMeasured = PACELINE_SOURCE_DIR "/scenarios/validation/";
const std::string kTrainings = kMeasured + "training/";

double rate_of(Scenario scenario, int nodes, int gpus_per_node) {
  scenario.cluster.nodes = nodes;
  scenario.cluster.gpus_per_node = gpus_per_node;
  scenario.training.strategy = nodes * gpus_per_node == 1 ? StrategyKind::ddp : scenario.training.strategy;
  scenario.training.measured.clear();
  scenario.training.input = {};
  scenario.variability = {};
  scenario.run.iterations = 1;
  return predict(scenario).report.throughput;
}

TEST_CASE("docs/accuracy.md states how far the roofline is from published rates of few GPUs") {
  constexpr int kFew = 16;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::vector<double>> families;
  for (const CsvRow& set : read_csv(kTrainings + "index.csv")) {
    const std::string& name = set.at("set");
    const Scenario scenario = load_scenario(kTrainings + name + ".json");
    const std::vector<CsvRow> rows = read_csv(kTrainings + name + ".csv");
    const auto gpus_of = [](const CsvRow& row) { return std::stoi(row.at("gpus")); };
    const int fewest = gpus_of(*std::ranges::min_element(rows, {}, gpus_of));
    for (const CsvRow& row : rows) {
      if (gpus_of(row) > std::min(fewest, kFew)) {
        continue;
      }
      const auto stated = [&](const char* column, std::int64_t otherwise) {
        return row.contains(column) && !row.at(column).empty() ? std::stoll(row.at(column)) : otherwise;
      };
      Scenario measured = scenario;
      measured.training.batch_per_gpu = stated("batch_per_gpu", scenario.training.batch_per_gpu);
      measured.training.accumulation =
          static_cast<int>(stated("accumulation", scenario.training.accumulation));
      const int nodes = std::stoi(row.at("nodes"));
      families[{name.substr(0, name.find('_')), scenario.model.name, scenario.gpu.name,
                std::string(name_of(scenario.training.precision))}]
          .push_back(rate_of(measured, nodes, fewest / nodes) / std::stod(row.at("throughput")));
    }
  }
  const std::string document = text_of(kSource / "docs/accuracy.md");
  double sum = 0;
  for (const auto& [family, ratios] : families) {
    const auto& [source, model, gpu, precision] = family;
    double log = 0;
    for (const double ratio : ratios) {
      log += std::log(ratio) / static_cast<double>(ratios.size());
      sum += std::abs(std::log(ratio)) / static_cast<double>(ratios.size() * families.size());
    }
    const std::string line = "| " + source + " | " + model + " | " + gpu + " | " + precision + " | " +
                             std::to_string(ratios.size()) + " | " +
                             formatted("%.2f | %.2f | %.2f |", std::exp(log),
                                       *std::ranges::min_element(ratios), *std::ranges::max_element(ratios));
    INFO(line);
    CHECK(document.find(line) != std::string::npos);
  }
  const std::string mean = formatted("a factor of %.2f", std::exp(sum));
  INFO(mean);
  CHECK(document.find(mean) != std::string::npos);
  CHECK(families.size() >= 30);
}

// What a row of steps was of, and how it lies in memory: columns of accuracy.md's tables.
double predicted_ms(const CsvRow& row, const std::string& gpu, const std::string& memory_format) {
  const std::string& tokens = row.at("tokens");
  const std::string model = tokens.empty()
                                ? '"' + row.at("model") + '"'
                                : R"({"preset": ")" + row.at("model") + R"(", "sequence": )" + tokens + '}';
  const std::string batch = row.at("batch");
  return 1e3 * std::stod(batch) /
         rate_of(parse_scenario(R"({"cluster": {"node": "dgx-h100", "gpu": ")" + gpu + R"("}, "model": )" +
                                    model + R"(, "training": {"batch_per_gpu": )" + batch +
                                    R"(, "precision": ")" + row.at("precision") +
                                    R"(", "roofline": {"memory_format": ")" + memory_format +
                                    R"("}, "optimizer": ")" + (tokens.empty() ? "sgd" : "adam") + R"("}})",
                                gpu + ".json"),
                 1, 1);
}

TEST_CASE("docs/accuracy.md states how far the roofline is from PyTorch's kernels on an H200 and an H100") {
  const std::string document = text_of(kSource / "docs/accuracy.md");
  const auto check = [&](const CsvRow& row, const std::string& kind, double predicted) {
    const std::string& measured = row.at("kernels_ms");
    const std::string line = "| " + row.at("model") + " | " + row.at("tokens") + " | " + row.at("precision") +
                             " | " + row.at("batch") + " | " + kind + " | " + measured + " | " +
                             formatted("%.2f | %.2f |", predicted, std::stod(measured) / predicted);
    INFO(line);
    CHECK(document.find(line) != std::string::npos);
  };
  const std::vector<CsvRow> on_h200 = read_csv(kMeasured + "h200/steps_compiled.csv");
  for (const CsvRow& row : on_h200) {
    check(row, row.at("mode"), predicted_ms(row, "H200", "channels_last"));
  }
  CHECK(on_h200.size() >= 20);
  const std::vector<CsvRow> on_h100 = read_csv(kMeasured + "h100/steps.csv");
  for (const CsvRow& row : on_h100) {
    const std::string& format = row.at("memory_format");
    if (row.at("ddp").empty()) {
      check(row, format, predicted_ms(row, "H100", format.empty() ? "channels_last" : format));
    }
  }
  CHECK(on_h100.size() >= 40);
}

TEST_CASE(
    "docs/accuracy.md states how far steps of FSDP are from published rates where nothing was measured") {
  constexpr int kTokens = 4096, kGpus = 8;
  const std::string document = text_of(kSource / "docs/accuracy.md");
  const std::vector<CsvRow> rows = read_csv(kMeasured + "fms_fsdp/steps.csv");
  for (const CsvRow& row : rows) {
    const std::string& every = row.at("recompute_every");
    const std::string recomputed =
        every == "0" ? "" : R"(, "activation_checkpointing": "full", "recompute_every": )" + every;
    const std::string node = row.at("gpu") == "H100" ? "dgx-h100" : "dgx-a100";
    const Scenario scenario = parse_scenario(
        R"({"cluster": {"node": {"preset": ")" + node + R"(", "network": "roce", "nic_bandwidth": ")" +
            row.at("nic_bandwidth") + R"("}, "nodes": )" + row.at("nodes") + R"(}, "model": {"preset": ")" +
            row.at("model") + R"(", "sequence": )" + std::to_string(kTokens) +
            R"(}, "run": {"iterations": 2}, "training": {"strategy": "fsdp", "fsdp": {"shard_group": ")" +
            row.at("shard_group") +
            R"("}, "batch_per_gpu": 2, "precision": "bf16", "gradients": "bf16", "optimizer": "adam")" +
            recomputed + "}}",
        "fms.json");
    const double tokens =
        predict(scenario).report.throughput * kTokens / (kGpus * std::stod(row.at("nodes")));
    const std::string line =
        "| " + row.at("model") + " | " + row.at("gpu") + " | " + row.at("nodes") + " | " +
        (every == "0"   ? "no"
         : every == "1" ? "all"
                        : "one of " + every) +
        " | " + row.at("tokens_per_gpu_per_s") + " | " +
        formatted("%.0f | %.2f |", tokens, tokens / std::stod(row.at("tokens_per_gpu_per_s")));
    INFO(line);
    CHECK(document.find(line) != std::string::npos);
  }
  CHECK(rows.size() == 8);
}

}  // namespace
}  // namespace paceline
