// No link that carries twice as much makes a collective slower, while algorithm, protocol and channels stay; nor an
// example's step, whatever NCCL's tuner then chooses.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "scenarios/collective_table.h"
#include "scenarios/predict.h"
#include "scenarios/scenario.h"
#include "sim/collective/nccl.h"
#include "tests/dice.h"
#include "tests/files.h"
#include "topology/topology.h"

namespace paceline {
namespace {

struct Faster {
  const char* name;
  std::function<void(NodeSpec&)> change;
};
const std::vector<Faster> kFaster{
    {"NVLink", [](NodeSpec& node) { node.nvlink_bandwidth = node.nvlink_bandwidth * 2; }},
    {"PCIe", [](NodeSpec& node) { node.pcie_bandwidth = node.pcie_bandwidth * 2; }},
    {"sockets", [](NodeSpec& node) { node.socket_bandwidth = node.socket_bandwidth * 2; }},
    {"NICs", [](NodeSpec& node) { node.nic_bandwidth = node.nic_bandwidth * 2; }},
};

// Of each size; nothing where NCCL can't run that.
std::vector<SimTime> times(const CollectiveTest& test) {
  std::vector<SimTime> all;
  try {
    for (const CollectiveCost& row : run_collective_test(test).rows) {
      all.push_back(row.time);
    }
  } catch (const InputError&) {
  }
  return all;
}

constexpr double kSlower = 1.02;

TEST_CASE("twice the bandwidth of any link makes no collective slower") {
  int compared = 0;
  for (const char* name : {"dgx1-v100", "pcie-a100", "dgx-a100", "dgx-h100", "gcp-a3-highgpu-8g"}) {
    for (const int nodes : kSanitized ? std::vector{2} : std::vector{1, 2, 4}) {
      CollectiveTest test;
      test.cluster_name = name;
      test.cluster = load_cluster(name);
      test.cluster.nodes = nodes;
      test.first = Bytes(1 << 14);
      test.last = Bytes(1 << 30);
      test.factor = 16;
      const Topology topology = build_topology(test.cluster);
      test.cluster.graphs = NcclCollectives(topology, test.collective, {}).graphs();
      for (const char* algorithm : {"ring", "tree", "nvls", "nvlstree"}) {
        for (const char* protocol : {"ll", "ll128", "simple"}) {
          test.collective.algorithm = algorithm;
          test.collective.protocol = protocol;
          const std::vector<SimTime> as_is = times(test);
          for (const Faster& faster : kFaster) {
            CollectiveTest changed = test;
            faster.change(changed.cluster.node);
            const std::vector<SimTime> after = times(changed);
            REQUIRE(after.size() == as_is.size());
            for (std::size_t i = 0; i < as_is.size(); ++i) {
              INFO(name << ", " << nodes << " nodes, " << algorithm << " " << protocol << ", row " << i
                        << ", " << faster.name << ": " << as_is[i].ps << " ps, then " << after[i].ps);
              CHECK(static_cast<double>(after[i].ps) <= kSlower * static_cast<double>(as_is[i].ps));
              ++compared;
            }
          }
        }
      }
    }
  }
  CHECK(compared > (kSanitized ? 300 : 1000));
}

TEST_CASE("twice the bandwidth of any link makes no example's step slower", "[release]") {
  constexpr std::int64_t kMostGpus = 128;
  int compared = 0;
  for (const std::filesystem::path& file : examples()) {
    Scenario scenario = load_scenario(file.string());
    if (scenario.faults || scenario.cluster.nodes * scenario.cluster.gpus_per_node > kMostGpus) {
      continue;
    }
    scenario.run.iterations = 1;
    const auto steps_of = [](const Scenario& of) {
      const Prediction p = predict(of);
      return to_seconds(p.result.iteration_end.back() - p.result.iteration_end.front()).value;
    };
    const double as_is = steps_of(scenario);
    for (const Faster& faster : kFaster) {
      Scenario changed = scenario;
      faster.change(changed.cluster.node);
      const double after = steps_of(changed);
      INFO(file.filename() << ", " << faster.name << ": " << as_is << " s, then " << after);
      CHECK(after <= kSlower * as_is);
      ++compared;
    }
  }
  CHECK(compared >= 60);
}

}  // namespace
}  // namespace paceline
