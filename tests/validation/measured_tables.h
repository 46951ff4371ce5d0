// The measured tables of scenarios/validation/collectives, and what is predicted for them with default
// parameters.
#pragma once

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "scenarios/collective_table.h"
#include "scenarios/scenario.h"
#include "sim/collective/nccl_words.h"

namespace paceline {

using CsvRow = std::map<std::string, std::string>;

inline std::vector<CsvRow> read_csv(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error("can't read " + path);
  }
  const auto cells = [](const std::string& line) {
    std::vector<std::string> all;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) {
      all.push_back(cell);
    }
    return all;
  };
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> names = cells(line);
  std::vector<CsvRow> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> values = cells(line);
    CsvRow& row = rows.emplace_back();
    for (std::size_t i = 0; i < names.size(); ++i) {
      row[names[i]] = i < values.size() ? values[i] : "";
    }
  }
  return rows;
}

struct MeasuredRow {
  Bytes size;
  double measured = 0, predicted = 0;  // us
  CollectiveCost cost;
  double error() const { return predicted / measured - 1; }
};

inline CollectiveTest test_of(const CsvRow& table, const std::string& folder) {
  CollectiveTest test;
  const std::string& cluster = table.at("cluster");
  test.cluster_name = cluster;
  test.cluster = load_cluster(cluster.ends_with(".json") ? folder + cluster : cluster);
  test.cluster.nodes = std::stoi(table.at("nodes"));
  test.cluster.gpus_per_node = std::stoi(table.at("gpus_per_node"));
  const std::string& kind = table.at("collective");
  test.kind = collective_named(kind);
  if (const std::string& version = table.at("nccl"); !version.empty()) {
    // Older than the tables reach: the oldest.
    const int minor = std::stoi(version.substr(version.find('.') + 1));
    test.collective.nccl = "2." + std::to_string(std::max(minor, kOldestNccl));
  }
  test.collective.algorithm = table.at("algo");
  test.collective.protocol = table.at("proto");
  if (!table.at("buffer_bytes").empty()) {
    test.collective.sizes.buffer = Bytes(std::stoll(table.at("buffer_bytes")));
  }
  if (!table.at("channels").empty()) {
    test.collective.min_channels = test.collective.max_channels = std::stoi(table.at("channels"));
  }
  if (!table.at("socket_threads").empty()) {
    test.collective.socket_threads = std::stoi(table.at("socket_threads"));
  }
  test.collective.nvls = table.at("nvls") != "off";
  if (const std::string& gpus = table.at("gpus_per_process"); !gpus.empty()) {
    test.collective.gpus_per_process = std::stoi(gpus);
  }
  return test;
}

// Rows of 1 MiB and above, predicted; `costs`: in place of defaults.
inline std::vector<MeasuredRow> predict_table(const CsvRow& table, const std::string& folder,
                                              std::int64_t least = 1 << 20,
                                              const std::vector<CostParameter>& costs = {}) {
  CollectiveTest test = test_of(table, folder);
  test.collective.costs = costs;
  const Topology topology = build_topology(test.cluster);
  CollectivePlanner planner = nccl_planner(topology, test.collective, {});
  std::vector<MeasuredRow> rows;
  std::vector<Bytes> sizes;
  for (const CsvRow& row : read_csv(folder + table.at("file"))) {
    const std::int64_t size = std::stoll(row.at("size_bytes"));
    if (size >= least) {
      rows.push_back({Bytes(size), std::stod(row.at("time_us")), 0, {}});
      sizes.emplace_back(size);
    }
  }
  const std::vector<CollectiveCost> predicted = cost_collectives(planner, test.kind, sizes, false);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].cost = predicted[i];
    rows[i].predicted = static_cast<double>(predicted[i].time.ps) * 1e-6;
  }
  return rows;
}

struct TableError {
  double geometric_mean = 0;  // exp(mean |ln(predicted / measured)|) - 1
  double worst = 0;           // exp(max |ln(predicted / measured)|) - 1
  double bias = 0;            // exp(mean ln(predicted / measured)) - 1
};

inline TableError error_of(const std::vector<MeasuredRow>& rows) {
  double sum = 0, worst = 0, signed_sum = 0;
  for (const MeasuredRow& row : rows) {
    const double log_error = std::log(row.predicted / row.measured);
    sum += std::abs(log_error);
    signed_sum += log_error;
    worst = std::max(worst, std::abs(log_error));
  }
  const auto n = static_cast<double>(rows.size());
  return {std::exp(sum / n) - 1, std::exp(worst) - 1, std::exp(signed_sum / n) - 1};
}

}  // namespace paceline
