#include "sim/collective/costs.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/error.h"

namespace paceline {
namespace {

using namespace units;

// What a link's latency is already part of NCCL's cost per hop: the presets' links. A route's latency beyond
// it is added.
constexpr std::array<Seconds, kHopKinds> kUsualLatency{0.93625_us, 0.9_us, 1.46_us};

// Payload over bandwidth. NVLink and PCIe bandwidths are payload rates already (topology/presets.cpp);
// network: ib_write_bw reaches 193.72 Gb/s on a 200 Gb/s adapter (stas00/ml-engineering network/README.md).
constexpr std::array<double, kHopKinds> kEfficiency{1, 1, 0.9686};

// One turn of the proxy thread (src/graph/tuning.cc, netOverhead): 1 us, 2 on AMD hosts.
constexpr Seconds slice_overhead(CpuVendor cpu) { return cpu == CpuVendor::amd ? 2.0_us : 1.0_us; }

// A host thread launches a kernel in about 5 us (superbenchmark, CUDA kernel launch, event time).
constexpr Seconds kLaunchPeriod = 5.0_us;

// NCCL's base latencies hold an ordinary launch; frameworks add to it.
constexpr Seconds kLaunchLatency = 0.5_us;

// Data per byte on the wire (src/include/device.h): LL 8 of 16 bytes, LL128 120 of 128.
constexpr std::array<double, kProtocols> kLineEfficiency{0.5, 120.0 / 128.0, 1};

// NCCL's latencies of NVLS and CollNet are of a whole pass; how many of our hops make one up.
double hops_of_a_pass(Algorithm algorithm, HopKind kind) {
  const bool nvls = algorithm == Algorithm::nvls || algorithm == Algorithm::nvls_tree;
  if (kind == HopKind::nvlink && nvls) {
    return 4;  // to the switch, to the head, back, and to all
  }
  const bool switched = algorithm == Algorithm::collnet_direct || algorithm == Algorithm::collnet_chain ||
                        algorithm == Algorithm::nvls;
  return kind == HopKind::network && switched ? 2 : 1;
}

// A parameter's name, and where its value stands.
struct NamedCost {
  std::string name;
  double* value;
};

bool has_cap(Algorithm algorithm, Protocol protocol) {
  const bool switched = algorithm == Algorithm::nvls || algorithm == Algorithm::nvls_tree;
  return !switched && (protocol != Protocol::simple || algorithm == Algorithm::tree);
}

std::string hop_kind(std::size_t k) { return std::string(name_of(static_cast<HopKind>(k))); }

std::vector<NamedCost> named(CollectiveCosts& costs) {
  std::vector<NamedCost> all;
  for (std::size_t a = 0; a < kAlgorithms; ++a) {
    for (std::size_t p = 0; p < kProtocols; ++p) {
      const auto algorithm = static_cast<Algorithm>(a);
      const auto protocol = static_cast<Protocol>(p);
      const std::string prefix = std::string(name_of(algorithm)) + '.' + std::string(name_of(protocol)) + '.';
      all.push_back({prefix + "startup", &costs.of[a][p].startup.value});
      for (std::size_t k = 0; k < kHopKinds; ++k) {
        all.push_back({prefix + hop_kind(k) + ".latency", &costs.of[a][p].latency[k].value});
      }
      if (has_cap(algorithm, protocol)) {
        all.push_back({prefix + "efficiency", &costs.of[a][p].efficiency});
      }
    }
  }
  for (std::size_t k = 0; k < kHopKinds; ++k) {
    all.push_back({hop_kind(k) + ".efficiency", &costs.efficiency[k]});
  }
  all.push_back({"block.copy_rate", &costs.copy_rate.value});
  all.push_back({"nvls.efficiency", &costs.nvls_efficiency});
  all.push_back({"network.slice_overhead", &costs.slice_overhead.value});
  all.push_back({"launch.latency", &costs.launch_latency.value});
  all.push_back({"launch.period", &costs.launch_period.value});
  all.push_back({"mpi.startup", &costs.mpi.startup.value});
  for (std::size_t k = 0; k < kHopKinds; ++k) {
    all.push_back({"mpi." + hop_kind(k) + ".latency", &costs.mpi.latency[k].value});
  }
  all.push_back({"mpi.rendezvous", &costs.mpi.rendezvous.value});
  all.push_back({"mpi.reduce_rate", &costs.mpi.reduce_rate.value});
  return all;
}

const NamedCost& find_cost(const std::vector<NamedCost>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &NamedCost::name);
  if (found == all.end()) {
    throw InputError(unknown_name("cost parameter", name, cost_parameter_names()));
  }
  return *found;
}

// The most that one channel of an algorithm moves: what a thread block can, in lines of the protocol, and
// NCCL's caps; `share`: search channels per channel. NCCL's cap on LL (llMaxBws) is of all channels together
// and selects; one block in LL carries several times its part (8 x H100: 23 GB/s, of 141 over 24 channels).
double channel_cap(const CollectivePlan& plan, const CollectiveCosts& costs, double share) {
  const ProtocolLimits& limits = costs.limits;
  constexpr double kNoIndex = std::numeric_limits<double>::infinity(), kGiga = 1e9;
  const auto cap = [&](double gigabytes) { return gigabytes > 0 ? gigabytes * kGiga : kNoIndex; };
  const auto protocol = static_cast<std::size_t>(plan.protocol);
  const double efficiency = costs.of[static_cast<std::size_t>(plan.algorithm)][protocol].efficiency;
  const double block = costs.copy_rate.value * kLineEfficiency[protocol];
  const bool ll = plan.protocol == Protocol::ll, ll128 = plan.protocol == Protocol::ll128;
  switch (plan.algorithm) {
    case Algorithm::tree: {  // its bus bandwidth is twice what a thread block moves
      const double simple = cap(limits.tree * share / 2);
      const double of_protocol = ll ? block / 2 : ll128 ? cap(limits.tree_ll128 * share / 2) : kNoIndex;
      return std::min(simple, of_protocol) * efficiency;
    }
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      return kNoIndex;  // the switch moves the data
    default: {
      const double of_protocol = ll ? block : ll128 ? cap(limits.ring_ll128 * share) : kNoIndex;
      return std::min(of_protocol * efficiency, costs.copy_rate.value);
    }
  }
}

// What the thread blocks of a graph do in one loop, if they send and also copy (the end of a ring's loop):
// bytes. Such graphs have one script, which all thread blocks run.
struct Pausing {
  double sent = 0, copied = 0;
  double last_wait =
      0;  // of the loop's last copy: how much less than its latency a thread block waits for it
};

std::optional<Pausing> pausing(const CollectiveGraph& graph, const Loops& loops) {
  if (graph.scripts.size() != 1) {
    return std::nullopt;
  }
  Pausing all;
  for (const Step& step : graph.scripts.front().steps) {
    const double bytes = static_cast<double>(loops.chunk.value) * step.width;
    (step.send.count == 0 ? all.copied : all.sent) += bytes * step.times;
    all.last_wait = bytes - bytes / slices_of(loops);
  }
  return all.sent > 0 && all.copied > 0 ? std::optional(all) : std::nullopt;
}

// How much of its pauses a plan shows. A thread block that waits for its loop's last chunk and copies it
// leaves its share of the link to the others, and gets theirs when they do: as long as there is a next loop
// to catch up in, the links are always busy, and what counts is the longer of what they take for a loop and
// what a thread block itself does. Blocks that read over NVLink instead of writing (compute capability 8.0,
// src/graph/paths.cc) don't catch up: their rate is what they have in flight.
double part_shown(const CollectivePlan& plan, const CollectiveGraph& graph, const CollectiveCosts& costs,
                  const Pausing& loop, BytesPerSecond cap) {
  double links = 0, blocks = 0, pause = 0;  // s in a loop; the pause is the slowest block's
  for (std::size_t h = 0; h < plan.hops.size(); ++h) {
    const HopCost& hop = plan.hops[h];
    const Hop& link = graph.hops[h];
    if (link.kind == HopKind::inside) {
      continue;
    }
    const bool catches_up = !costs.nvlink_reads || link.kind != HopKind::nvlink;
    const double fastest = catches_up
                               ? std::min(cap.value, link.alone.value * hop.rate.value / link.rate.value)
                               : hop.rate.value;
    const double pauses =
        loop.copied / plan.copy_rate.value +
        std::max(0.0, to_seconds(hop.latency).value - loop.last_wait / plan.copy_rate.value);
    links = std::max(links, loop.sent / hop.rate.value);
    if (loop.sent / fastest + pauses > blocks) {
      blocks = loop.sent / fastest + pauses;
      pause = pauses;
    }
  }
  return std::clamp((blocks - links) / pause, 0.0, 1.0);
}

}  // namespace

CollectiveCosts default_costs(NcclVersion version, int compute_capability, CpuVendor cpu, int nodes) {
  CollectiveCosts costs;
  for (std::size_t a = 0; a < kAlgorithms; ++a) {
    for (std::size_t p = 0; p < kProtocols; ++p) {
      const auto algorithm = static_cast<Algorithm>(a);
      const ProtocolLatency nccl = protocol_latency(version, algorithm, static_cast<Protocol>(p));
      const auto of_hop = [&](double pass, HopKind kind) {
        return Seconds(pass * 1e-6 / hops_of_a_pass(algorithm, kind));
      };
      costs.of[a][p] = {Seconds(nccl.base * 1e-6),
                        {of_hop(nccl.nvlink, HopKind::nvlink), of_hop(nccl.pcie, HopKind::pcie),
                         of_hop(nccl.network, HopKind::network)}};
    }
  }
  costs.limits = protocol_limits(version, compute_capability, cpu, nodes);
  costs.efficiency = kEfficiency;
  costs.copy_rate = BytesPerSecond(costs.limits.ring_ll128 * 1e9);
  costs.nvls_efficiency = costs.limits.nvls_efficiency > 0 ? costs.limits.nvls_efficiency : 1;
  costs.slice_overhead = slice_overhead(cpu);
  costs.launch_latency = kLaunchLatency;
  costs.launch_period = kLaunchPeriod;
  costs.nvlink_reads = compute_capability == 80;
  return costs;
}

CollectiveCosts default_mpi_costs() {
  // 1448 bytes of data in 1538 on the wire: preamble, Ethernet, IP and TCP headers with time stamps, gap.
  constexpr double kEthernet = 1448.0 / 1538.0;
  CollectiveCosts costs;
  costs.efficiency = {1, 1, kEthernet};
  costs.mpi = {.startup = 2.0_us,
               .latency = {1.0_us, 1.0_us, 25.0_us},
               .rendezvous = 100.0_us,
               .reduce_rate = BytesPerSecond(5e9)};
  return costs;
}

std::vector<std::string> cost_parameter_names() {
  CollectiveCosts costs;
  std::vector<std::string> names;
  for (const NamedCost& cost : named(costs)) {
    names.push_back(cost.name);
  }
  return names;
}

double cost_value(const std::string& name, CollectiveCosts costs) {
  return *find_cost(named(costs), name).value;
}

void set_costs(std::span<const CostParameter> parameters, CollectiveCosts& costs) {
  const std::vector<NamedCost> all = named(costs);
  for (const CostParameter& parameter : parameters) {
    *find_cost(all, parameter.name).value = parameter.value;
  }
}

void price_plan(CollectivePlan& plan, const CollectiveGraph& graph, const CollectiveCosts& costs,
                std::size_t search_channels, std::size_t all_channels) {
  const auto& of_protocol =
      costs.of[static_cast<std::size_t>(plan.algorithm)][static_cast<std::size_t>(plan.protocol)];
  const double line = kLineEfficiency[static_cast<std::size_t>(plan.protocol)];
  const double searched = static_cast<double>(search_channels) / static_cast<double>(all_channels);
  const BytesPerSecond cap(channel_cap(plan, costs, searched));
  const bool nvls = plan.algorithm == Algorithm::nvls || plan.algorithm == Algorithm::nvls_tree;
  plan.startup = to_sim_time(of_protocol.startup + costs.launch_latency);
  plan.launch_period = to_sim_time(costs.launch_period);
  plan.copy_rate = costs.copy_rate;
  const std::uint32_t slices = slices_of(plan.loops.front());
  plan.hops.clear();
  for (const Hop& hop : graph.hops) {
    if (hop.kind == HopKind::inside) {
      plan.hops.push_back({hop.rate, {}, {}});
      continue;
    }
    const auto kind = static_cast<std::size_t>(hop.kind);
    const double nvlink = nvls && hop.kind == HopKind::nvlink ? costs.nvls_efficiency : 1;
    const Seconds beyond(std::max(0.0, hop.latency.value - kUsualLatency[kind].value));
    const Seconds overhead = hop.kind == HopKind::network ? costs.slice_overhead : Seconds{};
    const SimTime least = to_sim_time(plan.protocol == Protocol::simple ? overhead : overhead / slices);
    const BytesPerSecond rate = std::min(hop.rate * (line * costs.efficiency[kind] * nvlink), cap);
    plan.hops.push_back({rate, to_sim_time(of_protocol.latency[kind] + beyond), least});
  }
  const std::optional<Pausing> loop = pausing(graph, plan.loops.front());
  plan.copy_shown = loop ? part_shown(plan, graph, costs, *loop, cap) : 1;
  for (HopCost& hop : plan.hops) {
    hop.hidden =
        loop && plan.slots > 0 ? to_sim_time(to_seconds(hop.latency) * (1 - plan.copy_shown)) : SimTime{};
  }
}

}  // namespace paceline
