// How far from measurement are collectives with default parameters, nothing fitted? The tables are under
// scenarios/validation/collectives, with their sources in index.csv; docs/accuracy.md states each one's
// error and these tests hold it to that.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "measured_tables.h"
#include "sim/collective/costs.h"
#include "tests/files.h"

namespace paceline {
namespace {

const std::string kFolder = (kSource / "scenarios/validation/collectives/").string();

std::vector<CsvRow> index() { return read_csv(kFolder + "index.csv"); }

CsvRow table_named(const std::string& name) {
  for (const CsvRow& row : index()) {
    if (row.at("name") == name) {
      return row;
    }
  }
  throw std::runtime_error("no table " + name);
}

std::string percent(double ratio, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, 100 * ratio);
  return text;
}

// A row of docs/accuracy.md up to the reason.
std::string line_of(const CsvRow& table, const std::vector<MeasuredRow>& rows) {
  const TableError error = error_of(rows);
  return "| " + table.at("name") + " | " + table.at("nodes") + " x " + table.at("gpus_per_node") + " | " +
         std::to_string(rows.size()) + " | " + percent(error.geometric_mean, "%.1f %%") + " | " +
         percent(error.worst, "%.0f %%") + " | " + percent(error.bias, "%+.1f %%") + " |";
}

// Bus bandwidth at a size, predicted, GB/s.
double predicted_bus(const std::string& cluster, int nodes, int gpus, Bytes size,
                     const std::string& algorithm, const std::string& nccl = {}, int channels = 0) {
  CollectiveTest test;
  test.collective.min_channels = test.collective.max_channels = channels;
  test.cluster = load_cluster(cluster);
  test.cluster.nodes = nodes;
  test.cluster.gpus_per_node = gpus;
  test.collective.algorithm = algorithm;
  test.collective.nccl = nccl.empty() ? test.collective.nccl : nccl;
  test.first = test.last = size;
  const CollectiveTestResult result = run_collective_test(test);
  return static_cast<double>(size.value) / (static_cast<double>(result.rows[0].time.ps) * 1e-3) *
         bus_factor(CollectiveKind::all_reduce, result.ranks);
}

constexpr Bytes kGiB{1 << 30};

TEST_CASE("docs/accuracy.md states the error of every measured table at 1 MiB and above") {
  const std::string document = text_of(kSource / "docs/accuracy.md");
  int stated = 0;
  for (const CsvRow& table : index()) {
    const std::vector<MeasuredRow> rows = predict_table(table, kFolder);
    if (!rows.empty()) {
      ++stated;
      const std::string line = line_of(table, rows);
      INFO(line);
      CHECK(document.find(line) != std::string::npos);
    }
  }
  CHECK(stated >= 30);
}

TEST_CASE("the ring search alone gives the bus bandwidth of the V100 cube mesh") {
  // VIA-Research/vTrain, all-reduce of 1 GiB on 2, 4 and 8 GPUs of one DGX-1: index.csv.
  for (const int gpus : {2, 4, 8}) {
    const CsvRow table = table_named("v100_" + std::to_string(gpus) + "gpu_vtrain");
    const std::vector<MeasuredRow> rows = predict_table(table, kFolder, kGiB.value);
    REQUIRE(rows.size() == 1);
    INFO(gpus << " GPUs: " << rows[0].error());
    CHECK(std::abs(rows[0].error()) < 0.10);
  }
}

TEST_CASE("NVLS exceeds the ring on eight H100, and 2.27 chooses it from five GPUs on") {
  // stas00/ml-engineering network/README.md, 8 x H200, NCCL 2.27: 480 GB/s with NVLS, 367 without; at 8 GiB
  // four GPUs ran a ring, five to eight NVLS.
  constexpr Bytes kLarge{std::int64_t{8} << 30};
  CHECK(predicted_bus("dgx-h100", 1, 8, kLarge, "nvls") == Approx(480).epsilon(0.05));
  CHECK(predicted_bus("dgx-h100", 1, 8, kLarge, "ring") == Approx(367).epsilon(0.05));
  for (int gpus = 4; gpus <= 8; ++gpus) {
    const CsvRow table = table_named("h200_" + std::to_string(gpus) + "gpu_8gib_mleng");
    const std::vector<MeasuredRow> rows = predict_table(table, kFolder);
    REQUIRE(rows.size() == 1);
    INFO(gpus << " GPUs");
    CHECK(rows[0].cost.plan.algorithm == (gpus == 4 ? Algorithm::ring : Algorithm::nvls));
  }
}

TEST_CASE("a ring between nodes of H100 is as fast as its 16 channels, and on 24 as its NICs") {
  // NVIDIA/nccl-tests issue 309, gj-aion: 321 GB/s on eight nodes as NCCL has it, 391 with NCCL_MIN_CTAS=24.
  constexpr Bytes kLarge{std::int64_t{8} << 30};
  CHECK(predicted_bus("dgx-h100", 8, 8, kLarge, "ring") == Approx(321).epsilon(0.07));
  CHECK(predicted_bus("dgx-h100", 8, 8, kLarge, "ring", {}, 24) == Approx(391).epsilon(0.12));
  // NCCL_MIN_NCHANNELS leaves NVLS its own 16.
  CHECK(predicted_bus("dgx-h100", 1, 8, kLarge, "nvls", {}, 24) ==
        predicted_bus("dgx-h100", 1, 8, kLarge, "nvls"));
}

TEST_CASE("trees between two nodes exceed the bus bandwidth of the NICs") {
  // Each byte crosses a NIC once each way, where a ring's crosses it 2 (N-1) / N times: of the plan, no
  // factor.
  constexpr Bytes kLarge{std::int64_t{8} << 30};
  const double nics = 8 * 50;  // GB/s of a node
  CHECK(predicted_bus("dgx-h100", 2, 8, kLarge, "ring") < nics);
  CHECK(predicted_bus("dgx-h100", 2, 8, kLarge, "nvls_tree") > nics);
  CHECK(predicted_bus("oci-bm.gpu.b4.8", 2, 8, kLarge, "tree", "2.19") > 16 * 12.5);
}

TEST_CASE("a tree over chains of 72 GPUs takes as long as 20 racks of GB200 did") {
  // CoreWeave, NCCL 2.26: index.csv. Tuner and table part: NVLS seems to have been off. NICs as ib_write_bw has
  // them, and a hop over NVLink as all generations start with it (default_costs.cpp), whatever those of other sites
  // carry and take: the chain has 71 such hops, and Blackwell's 3.9 us are of eight B300.
  CsvRow table = table_named("gb200_nvl72_20rack_coreweave");
  table.at("algo") = "TREE";
  const std::vector<MeasuredRow> rows = predict_table(
      table, kFolder, 1 << 20, {{"network.efficiency", 0.9686}, {"simple.nvlink.latency", 3.3e-6}});
  REQUIRE(rows.size() == 6);
  for (const MeasuredRow& row : rows) {
    INFO(row.error());
    CHECK(std::abs(row.error()) < 0.10);
  }
  CHECK(error_of(rows).geometric_mean < 0.04);
}

TEST_CASE("two ports of a card: a tree above the NICs' rate before NCCL 2.20, rings from then on") {
  // Two BM.GPU.B4.8 at 1 GiB: 221.9 GB/s with NCCL of February 2024 (165.8 at 512 MiB: the protocol changes),
  // 184 to 187 with 2.25 and 2.29.
  const auto at_1_gib = [](const std::string& name) {
    const std::vector<MeasuredRow> rows = predict_table(table_named(name), kFolder, kGiB.value);
    REQUIRE(!rows.empty());
    return rows.front();
  };
  CHECK(at_1_gib("a100_40_oci_2node_full").cost.plan.algorithm == Algorithm::tree);
  for (const char* name : {"a100_40_oci_2node_2025", "a100_40_oci_2node_2026"}) {
    CHECK(at_1_gib(name).cost.plan.algorithm == Algorithm::ring);
    CHECK(std::abs(at_1_gib(name).error()) < 0.03);
  }
}

}  // namespace
}  // namespace paceline
