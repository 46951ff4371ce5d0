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

const std::string kMeasured = (kSource / "scenarios/validation/").string();
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
  struct Ratios {
    std::vector<double> compiled, eager;
  };
  std::map<std::tuple<std::string, std::string, std::string, std::string>, Ratios> families;
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
      Ratios& ratios = families[{name.substr(0, name.find('_')), scenario.model.name, scenario.gpu.name,
                                 std::string(name_of(scenario.training.precision))}];
      for (const KernelMode kernels : {KernelMode::compiled, KernelMode::eager}) {
        measured.training.roofline.kernels = kernels;
        (kernels == KernelMode::eager ? ratios.eager : ratios.compiled)
            .push_back(rate_of(measured, nodes, fewest / nodes) / std::stod(row.at("throughput")));
      }
    }
  }
  const std::string document = text_of(kSource / "docs/accuracy.md");
  const auto mean_of = [](const std::vector<double>& ratios, const auto& log) {
    double sum = 0;
    for (const double ratio : ratios) {
      sum += log(ratio) / static_cast<double>(ratios.size());
    }
    return sum;
  };
  const auto log = [](double ratio) { return std::log(ratio); };
  const auto factor = [](double ratio) { return std::abs(std::log(ratio)); };
  double compiled = 0, eager = 0;
  for (const auto& [family, ratios] : families) {
    const auto& [source, model, gpu, precision] = family;
    compiled += mean_of(ratios.compiled, factor) / static_cast<double>(families.size());
    eager += mean_of(ratios.eager, factor) / static_cast<double>(families.size());
    const std::string line =
        "| " + source + " | " + model + " | " + gpu + " | " + precision + " | " +
        std::to_string(ratios.compiled.size()) + " | " +
        formatted("%.2f | %.2f | %.2f | %.2f |", std::exp(mean_of(ratios.compiled, log)),
                  *std::ranges::min_element(ratios.compiled), *std::ranges::max_element(ratios.compiled),
                  std::exp(mean_of(ratios.eager, log)));
    INFO(line);
    CHECK(document.find(line) != std::string::npos);
  }
  const std::string mean =
      formatted("a factor of %.2f, as eager ones %.2f", std::exp(compiled), std::exp(eager));
  INFO(mean);
  CHECK(document.find(mean) != std::string::npos);
  CHECK(families.size() >= 30);
}

// What a row of steps was of, how it lies in memory and what ran it: columns of accuracy.md's tables.
double predicted_ms(const CsvRow& row, const std::string& gpu, const std::string& memory_format,
                    const std::string& kernels) {
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
                                    R"(", "kernels": ")" + kernels + R"("}, "optimizer": ")" +
                                    (tokens.empty() ? "sgd" : "adam") + R"("}})",
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
    check(row, row.at("mode"), predicted_ms(row, "H200", "channels_last", row.at("mode")));
  }
  CHECK(on_h200.size() >= 20);
  const std::vector<CsvRow> on_h100 = read_csv(kMeasured + "h100/steps.csv");
  for (const CsvRow& row : on_h100) {
    const std::string& format = row.at("memory_format");
    if (row.at("ddp").empty()) {
      check(row, format, predicted_ms(row, "H100", format.empty() ? "channels_last" : format, "eager"));
    }
  }
  CHECK(on_h100.size() >= 40);
}

// Of an H100 and an H200: what a step doesn't add to.
TEST_CASE("docs/accuracy.md states how far large matrix products are from measured ones") {
  constexpr double kBest = 0.9, kSomeMicroseconds = 100;
  constexpr std::int64_t kManyRows = 2048;
  struct Errors {
    double rows = 0, mean = 0, bias = 0, of_best = 0;
  };
  std::map<std::pair<std::string, std::string>, Errors> groups;
  const auto add = [&](const std::string& gpu, const std::string& by, const CsvRow& row) {
    const std::optional<Precision> precision = find_named<Precision>(row.at("precision"));
    const double m = std::stod(row.at("m")), n = std::stod(row.at("n")), k = std::stod(row.at("k"));
    const double measured = std::stod(row.at("time_us"));
    if (!precision || m < kManyRows || measured < kSomeMicroseconds) {
      return;
    }
    GpuCosts costs{gpu_preset(gpu), {}, *precision};
    const auto error = [&] {
      return kernel_time(costs, Flops(2 * m * n * k), Bytes{}).value * 1e6 / measured - 1;
    };
    Errors& errors = groups[{gpu + ", " + by, std::string(name_of(*precision))}];
    errors.rows += 1;
    errors.mean += std::abs(error());
    errors.bias += error();
    costs.roofline.compute_efficiency = kBest;
    errors.of_best += std::abs(error());
  };
  for (const std::string gpu : {"H100", "H200"}) {
    for (const CsvRow& row : read_csv(kMeasured + (gpu == "H100" ? "h100" : "h200") + "/kernels.csv")) {
      if (row.at("name") == "gemm") {
        add(gpu, "cuBLASLt", row);
      }
    }
  }
  for (const CsvRow& row : read_csv(kMeasured + "h100/products.csv")) {
    add("H100", "PyTorch", row);
  }
  const std::string document = text_of(kSource / "docs/accuracy.md");
  for (const auto& [group, errors] : groups) {
    const std::string line =
        "| " + group.first + " | " + group.second + " | " +
        formatted("%.0f | %.0f %% | %+.0f %% | %.0f %% |", errors.rows, 100 * errors.mean / errors.rows,
                  100 * errors.bias / errors.rows, 100 * errors.of_best / errors.rows);
    INFO(line);
    CHECK(document.find(line) != std::string::npos);
  }
  CHECK(groups.size() >= 10);
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
