// Is a faster thread block never slower, and does no ring beat its links? Over machines, algorithms, protocols,
// collectives and sizes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "sim/collective/nccl.h"
#include "sim/report/collective_cost.h"

namespace paceline {
namespace {

struct Machine {
  const char* node;
  int nodes, gpus_per_node;
};

ClusterSpec cluster(const Machine& machine) {
  ClusterSpec spec;
  spec.node = node_preset(machine.node);
  spec.nodes = machine.nodes;
  spec.gpus_per_node = machine.gpus_per_node;
  return spec;
}

struct Forced {
  const char *algorithm, *protocol;
  CollectiveKind kind;
};
const std::vector<Forced> kForced{
    {"ring", "simple", CollectiveKind::all_reduce},     {"ring", "ll128", CollectiveKind::all_reduce},
    {"ring", "ll", CollectiveKind::all_reduce},         {"ring", "simple", CollectiveKind::all_gather},
    {"ring", "simple", CollectiveKind::reduce_scatter}, {"ring", "simple", CollectiveKind::broadcast},
    {"tree", "simple", CollectiveKind::all_reduce},     {"tree", "ll", CollectiveKind::all_reduce},
    {"hierarchical", "", CollectiveKind::all_reduce},   {"nvls", "simple", CollectiveKind::all_reduce},
    {"pat", "simple", CollectiveKind::all_gather},      {"", "", CollectiveKind::all_to_all},
};
const std::vector<std::int64_t> kSizes{4'000, 300'000, 3 << 20, 9 << 20, 28'000'000, 100'000'000};
const std::vector<double> kRates{1e9, 5e9, 12e9, 20e9, 30e9, 40e9, 80e9, 1e12};

// By size and rate; nothing but links and blocks costs time, or else latencies too. Empty where the machine
// can't run it so.
std::vector<std::vector<SimTime>> times_of(const Topology& topology, const Forced& way, bool latencies) {
  CollectiveSpec spec;
  spec.algorithm = way.algorithm;
  spec.protocol = way.protocol;
  NcclCollectives nccl(topology, spec, {});
  Communicator communicator;
  communicator.ranks = static_cast<std::uint32_t>(topology.ranks());
  std::vector<CollectivePlan> plans;
  for (const std::int64_t size : kSizes) {
    try {
      const Bytes bytes(size);
      CollectivePlan plan = nccl.plan(communicator, way.kind, bytes, nccl.tuned(way.kind, bytes));
      for (const double rate : kRates) {
        CollectiveCosts costs = nccl.costs();
        costs.efficiency = {1, 1, 1};
        costs.copy_rate = BytesPerSecond(rate);
        nccl.price(plan, communicator, costs);
        plan.launch_period = {};
        if (!latencies) {
          plan.startup = {};
          for (HopCost& hop : plan.hops) {
            hop.latency = hop.least = hop.hidden = {};
          }
        }
        plans.push_back(plan);
      }
    } catch (const InputError&) {
      return {};
    }
  }
  CollectiveTimes times(communicator, plans, true);
  std::vector<std::vector<SimTime>> all;
  SimTime now;  // one after the other: switches remember
  for (std::uint32_t p = 0; p < plans.size(); ++p) {
    if (p % kRates.size() == 0) {
      all.emplace_back();
    }
    all.back().push_back(time_alone(times, communicator, plans[p], p, now));
  }
  return all;
}

TEST_CASE("no collective is faster with a slower block", "[release]") {
  int ran = 0;
  for (const Machine& machine : {Machine{"dgx-h100", 1, 2},
                                 {"dgx-h100", 1, 8},
                                 {"dgx-h100", 2, 1},
                                 {"dgx-h100", 2, 8},
                                 {"dgx-a100", 1, 4},
                                 {"dgx-a100", 3, 8},
                                 {"dgx1-v100", 2, 8},
                                 {"pcie-a100", 3, 1}}) {
    const Topology topology = build_topology(cluster(machine));
    for (const Forced& way : kForced) {
      for (const bool latencies : {false, true}) {
        const std::vector<std::vector<SimTime>> times = times_of(topology, way, latencies);
        ran += times.empty() ? 0 : 1;
        for (std::size_t s = 0; s < times.size(); ++s) {
          INFO(machine.node << " " << machine.nodes << " x " << machine.gpus_per_node << ", " << way.algorithm
                            << " " << way.protocol << " " << static_cast<int>(way.kind) << ", " << kSizes[s]
                            << " bytes");
          CHECK(std::ranges::is_sorted(times[s], std::greater<>{}));
        }
      }
    }
  }
  CHECK(ran > 100);
}

TEST_CASE("no ring beats its links, whatever its blocks do") {
  // What leaves a node with all its NICs, or a GPU with all its NVLinks: 2 (n-1)/n of the buffer.
  for (const Machine& machine : {Machine{"dgx-h100", 1, 2},
                                 {"dgx-h100", 1, 8},
                                 {"dgx-h100", 2, 8},
                                 {"dgx-h100", 4, 8},
                                 {"dgx-a100", 1, 8},
                                 {"dgx-a100", 2, 8},
                                 {"dgx1-v100", 2, 8},
                                 {"pcie-a100", 2, 1}}) {
    const ClusterSpec spec = cluster(machine);
    const double out =
        machine.nodes > 1 ? spec.node.nic_bandwidth.value * spec.node.nics : spec.node.nvlink_bandwidth.value;
    const double n = machine.nodes * machine.gpus_per_node;
    const std::vector<std::vector<SimTime>> times =
        times_of(build_topology(spec), {"ring", "simple", CollectiveKind::all_reduce}, false);
    REQUIRE(times.size() == kSizes.size());
    for (std::size_t s = 0; s < kSizes.size(); ++s) {
      const double limit = 2 * (n - 1) / n * static_cast<double>(kSizes[s]) / out;
      for (std::size_t r = 0; r < kRates.size(); ++r) {
        INFO(machine.node << " " << machine.nodes << " x " << machine.gpus_per_node << ", " << kSizes[s]
                          << " bytes, blocks of " << kRates[r] << " B/s: " << to_seconds(times[s][r]).value
                          << " of " << limit << " s");
        CHECK(to_seconds(times[s][r]).value >= limit * (1 - 1e-9));
      }
    }
  }
}

}  // namespace
}  // namespace paceline
