#include "calibrate/validate/link_bound.h"

#include <algorithm>
#include <string>

#include "scenarios/collective_table.h"

namespace paceline {
namespace {

constexpr double kAbove = 4.0 / 3;  // nominal rate over NCCL's, with some room

// B/s out of a device: of its links to the network, or of the others.
double rate_out_of(const Topology& topology, const std::string& device, bool network) {
  const DeviceId from = topology.device_named(device);
  double rate = 0;
  for (std::size_t k = 0; k < topology.links(); ++k) {
    const Link& link = topology.link(LinkId(static_cast<std::uint32_t>(k)));
    if (link.from == from && (link.kind == LinkKind::network) == network) {
      rate += link.bandwidth.value;
    }
  }
  return rate;
}

}  // namespace

std::vector<double> link_bound_seconds(const MeasuredPlace& place, std::span<const Bytes> sizes) {
  ClusterSpec cluster = place.cluster;
  cluster.degraded.clear();
  cluster.nodes = std::min(cluster.nodes, 2);  // nodes are alike
  const Topology topology = build_topology(cluster);
  double of_gpu = 0, of_node = 0;
  for (int gpu = 0; gpu < place.gpus_per_node(); ++gpu) {
    of_gpu = std::max(of_gpu, rate_out_of(topology, "node0/gpu" + std::to_string(gpu), false));
  }
  for (int nic = 0; place.nodes() > 1 && nic < cluster.node.nics; ++nic) {
    of_node += rate_out_of(topology, "node0/nic" + std::to_string(nic), true);
  }
  const auto moved = [&](int members) {
    return std::min(1.0, bus_factor(place.kind, static_cast<std::size_t>(members)));
  };
  const int senders = place.kind == CollectiveKind::all_to_all ? place.gpus_per_node() : 1;
  double per_byte = of_gpu > 0 ? moved(place.ranks()) / of_gpu : 0;
  if (of_node > 0) {
    per_byte = std::max(per_byte, senders * moved(place.nodes()) / of_node);
  }
  std::vector<double> seconds;
  for (const Bytes size : sizes) {
    seconds.push_back(static_cast<double>(size.value) * per_byte / kAbove);
  }
  return seconds;
}

}  // namespace paceline
