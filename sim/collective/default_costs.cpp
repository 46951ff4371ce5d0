// Cost parameters where no profile says otherwise, by GPU generation and network.
#include "sim/collective/default_costs.h"

#include "sim/collective/costs.h"
#include "sim/collective/networks.h"

namespace paceline {
namespace {

using namespace units;

// From Hopper on a tree in Simple is as fast as its thread blocks (docs/accuracy.md).
constexpr double kNoCap = std::numeric_limits<double>::infinity();
constexpr ChannelCaps kCapsOf[kGenerations] = {
    {.ring_ll128 = 20, .tree_ll128 = 20, .tree = 18.5},
    {.ring_ll128 = 20, .tree_ll128 = 20, .tree = 23.6},
    {.ring_ll128 = 36.7, .tree_ll128 = 36.7, .tree = kNoCap},
    {.ring_ll128 = 40, .tree_ll128 = 31.67, .tree = kNoCap},
};

// Round figures that published tables of all generations agree on. Over PCIe, where few measured, NCCL's own for
// choosing, but in Simple: there, and over a network, 8 bytes on few hops (four L40S, two RTX Pro 6000, two pairs
// of T4 on EFA) say that these (5.7 and 14 us) are twice too long.
struct Start {
  const char* name;
  double value;
};
constexpr Start kStart[] = {
    {"ll.startup", 6e-6},
    {"ll.nvlink.latency", 0.8e-6},
    {"ll.pcie.latency", 1e-6},
    {"ll.network.latency", 4e-6},
    {"ll128.startup", 28e-6},
    {"ll128.nvlink.latency", 1.9e-6},
    {"ll128.pcie.latency", 2.5e-6},
    {"ll128.network.latency", 5e-6},
    {"simple.startup", 28e-6},
    {"simple.nvlink.latency", 3.3e-6},
    {"simple.pcie.latency", 3e-6},
    {"simple.network.latency", 8e-6},
    {"simple.slice_overhead", 2e-6},
    {"nvls.startup", 4e-6},
    {"nvls.latency", 5e-6},
    {"nvls.slice_overhead", 1e-6},
    {"nvls.efficiency", 0.9},
    {"nvls.tree_efficiency", 0.9},
    {"network.efficiency", 0.9686},  // ib_write_bw: 193.72 of 200 Gb/s (stas00/ml-engineering, network)
    {"network.slice_overhead", 0.3e-6},
    {"network.fifo_startup", 0.9e-6},
    {"network.channel_overhead", 10e-6},
    {"host.efficiency", 0.65},  // four L40S on PCIe 4: 15.5 of 24 GB/s
    {"ll.proxy_rate", 4.5e9},
};

constexpr DefaultCost kFitted[] = {
#include "sim/collective/fitted_costs.inc"
};

constexpr DefaultNetworkCost kFittedNetworks[] = {
#include "sim/collective/fitted_network_costs.inc"
};

constexpr DefaultSpread kSpread[] = {
#include "sim/collective/fitted_spread.inc"
};

// What a thread block moves, by generation (NCCL's LL128 figure per channel).
constexpr std::array<double, kGenerations> kCopyRate{20e9, 20e9, 36.7e9, 40e9};

// "network.channel_rate": three channels fill a NIC of 50 GB/s (ConnectX-7), two don't (docs/model.md). 0: one does, as
// on the cards of A100 and GB300; B200's one table says as Hopper.
constexpr std::array<double, kGenerations> kChannelRate{0, 0, 23.7e9, 0};

// "launch.exposed" up to A100, in all protocols and collectives; on Ada and from Hopper on none. Why, nobody has
// published (docs/accuracy.md).
constexpr Seconds kExposedLaunch = 2.5_us;
constexpr int kA100 = 80;

}  // namespace

int generation(int compute_capability) {
  return compute_capability >= 100 ? 3 : compute_capability >= 90 ? 2 : compute_capability >= 80 ? 1 : 0;
}

bool before_hopper(NetworkKind kind, int generation) {
  return kind != NetworkKind::tcp && generation < static_cast<int>(Generation::hopper);
}

Reach reach_of(int nodes, const NodeSpec& node) {
  const NetworkKind kind = node.network;
  return nodes == 1                       ? has_nvlink(node) ? Reach::one_node : Reach::pcie
         : is_verbs(kind)                 ? Reach::verbs
         : kind == NetworkKind::slingshot ? Reach::slingshot
         : kind == NetworkKind::tcp       ? Reach::sockets
                                          : Reach::plugins;
}

double default_spread(Reach reach, Bytes bytes) {
  double spread = 0;
  for (const DefaultSpread& each : kSpread) {  // sizes ascend
    if (each.reach == reach && bytes.value >= each.from_bytes) {
      spread = each.of_ninety;
    }
  }
  // Of few sites, and of some kinds none: no surer than of networks that are known well.
  return reach == Reach::plugins ? std::max(spread, default_spread(Reach::verbs, bytes)) : spread;
}

std::span<const DefaultCost> fitted_costs() { return kFitted; }
std::span<const DefaultNetworkCost> fitted_network_costs() { return kFittedNetworks; }

std::vector<CostParameter> starting_costs() {
  std::vector<CostParameter> costs;
  for (const Start& start : kStart) {
    costs.push_back({start.name, start.value});
  }
  return costs;
}

std::vector<CostParameter> starting_network_costs(NetworkKind kind, bool before_hopper) {
  const Network& of = network(kind, before_hopper ? 80 : 90);
  std::vector<CostParameter> costs{{"network.latency", of.hop_latency.value}};
  // Slingshot's hop says nothing of its own; what is measured of it are small messages in LL.
  const bool in_lines = kind == NetworkKind::slingshot;
  for (const Start& start : kStart) {
    const std::string name = start.name;
    if (name == "network.efficiency" || name == "network.slice_overhead" ||
        (in_lines && name == "ll.network.latency")) {
      const double own = name == "network.slice_overhead" ? of.slice_overhead.value
                         : name == "network.efficiency"   ? of.efficiency
                                                          : 0;
      costs.push_back({name, own > 0 ? own : start.value});
    }
  }
  if (of.thread_rate > 0) {
    costs.push_back({"network.thread_rate", of.thread_rate});
    costs.push_back({"network.adapter_rate", of.adapter_rate});
  }
  return costs;
}

CollectiveCosts default_costs(int compute_capability, NetworkKind kind) {
  CollectiveCosts costs;
  const int mine = generation(compute_capability);
  costs.efficiency = {1, 1, 1};
  costs.caps = kCapsOf[mine];
  costs.copy_rate = BytesPerSecond(kCopyRate[static_cast<std::size_t>(mine)]);
  costs.network_latency = network(kind, compute_capability).hop_latency;
  costs.eager = network(kind, compute_capability).eager;
  costs.serial_messages = network(kind, compute_capability).serial_messages;
  costs.channel_rate = BytesPerSecond(kChannelRate[static_cast<std::size_t>(mine)]);
  costs.thread_rate = BytesPerSecond(network(kind, compute_capability).thread_rate);
  costs.adapter_rate = BytesPerSecond(network(kind, compute_capability).adapter_rate);
  costs.launch_latency = 0.5_us;  // an ordinary launch is part of the startup; frameworks add to it
  costs.launch_exposed = compute_capability <= kA100 ? kExposedLaunch : Seconds{};
  costs.launch_period = 5.0_us;  // of a host thread (superbenchmark, CUDA kernel launch, event time)
  costs.nvlink_reads = compute_capability == 80;
  std::vector<CostParameter> values = starting_costs();
  for (const DefaultCost& fitted : kFitted) {
    if (fitted.generation == mine) {
      values.push_back({fitted.name, fitted.value});
    }
  }
  const Network& of = network(kind, compute_capability);
  if (of.slice_overhead.value > 0) {
    values.push_back({"network.slice_overhead", of.slice_overhead.value});
  }
  if (of.efficiency > 0) {
    values.push_back({"network.efficiency", of.efficiency});
  }
  for (const DefaultNetworkCost& fitted : kFittedNetworks) {
    if (fitted.kind == kind && fitted.before_hopper == before_hopper(kind, mine)) {
      values.push_back({fitted.name, fitted.value});
    }
  }
  set_costs(values, costs);
  return costs;
}

CollectiveCosts default_host_costs() {
  // 1448 bytes of data in 1538 on the wire: preamble, Ethernet, IP and TCP headers with time stamps, gap.
  constexpr double kEthernet = 1448.0 / 1538.0;
  CollectiveCosts costs;
  costs.efficiency = {1, 1, kEthernet};
  costs.acknowledgements = 66.0 / (2 * 1514);
  costs.mpi = {.startup = 2.0_us,
               .latency = {1.0_us, 1.0_us, 25.0_us},
               .agreement = 100.0_us,
               .reduce_rate = BytesPerSecond(5e9)};
  costs.gloo = {.startup = 100.0_us,  // two threads wake up
                .latency = {20.0_us, 20.0_us, 40.0_us},
                .agreement = 50.0_us,
                .reduce_rate = BytesPerSecond(5e9),
                // PyTorch 1.13 on one machine, 64 MiB: 1.5 GB/s with two ranks on two cores; 1.06 with four
                .local_rate = BytesPerSecond(1.5e9)};
  // As gloo's threads; gRPC's call beside; three passes over a V100's memory; PCIe 3.0 x16.
  costs.tensorflow = {.startup = 100.0_us,
                      .latency = {20.0_us, 20.0_us, 100.0_us},
                      .agreement = {},
                      .reduce_rate = BytesPerSecond(300e9),
                      .copy_rate = BytesPerSecond(12e9)};
  return costs;
}

}  // namespace paceline
