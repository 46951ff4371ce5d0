#include "topology/fabric.h"

#include <algorithm>
#include <cmath>

namespace paceline {
namespace {

std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// As many spines as the leaf has full cables to spend, so that none is faster than a NIC unless kMostSpines
// is reached.
std::uint32_t spines_for(double cables) {
  constexpr double kSlack = 1e-9;  // 16 / 1.6 is a little more than 10
  const double whole = std::ceil(cables * (1 - kSlack));
  return static_cast<std::uint32_t>(std::clamp(whole, 1.0, double{FabricLayout::kMostSpines}));
}

// Of a NIC; the mean where the ports of a node differ.
BytesPerSecond port_bandwidth(const NodeSpec& node) {
  if (node.devices.empty()) {
    return node.nic_bandwidth;
  }
  BytesPerSecond sum;
  for (const NodeDevice& device : node.devices) {
    sum = device.kind == NodePart::nic ? sum + device.bandwidth : sum;
  }
  return sum / node.nics;
}

}  // namespace

std::uint32_t FabricLayout::node_at(std::uint32_t group, std::uint32_t place) const {
  return striped ? place * groups + group : group * nodes_per_group + place;
}

std::uint32_t FabricLayout::nodes_in(std::uint32_t group, std::uint32_t below) const {
  if (striped) {
    return below > group ? ceil_div(below - group, groups) : 0;
  }
  const std::uint64_t before = std::uint64_t{group} * nodes_per_group;
  return below > before ? std::min(nodes_per_group, below - static_cast<std::uint32_t>(before)) : 0;
}

std::uint32_t FabricLayout::ports_before(std::uint32_t group, std::uint32_t rail, std::uint32_t below) const {
  if (cards.empty()) {
    return nodes_in(group, below) * ports_per_node();
  }
  std::uint32_t ports = 0;
  for (std::size_t i = 0; i < cards.size() && cards[i].first_node < below; ++i) {
    const std::uint32_t end = i + 1 < cards.size() ? std::min(cards[i + 1].first_node, below) : below;
    const std::uint32_t on_rail = cards[i].nics > rail ? ceil_div(cards[i].nics - rail, rails) : 0;
    ports += (nodes_in(group, end) - nodes_in(group, cards[i].first_node)) * on_rail;
  }
  return ports;
}

std::uint32_t FabricLayout::leaves_in(std::uint32_t pod) const {
  return std::min(leaves_per_pod, leaves() - pod * leaves_per_pod);
}

FabricLayout make_fabric_layout(const ClusterSpec& spec) {
  FabricLayout f;
  f.nodes = static_cast<std::uint32_t>(spec.nodes);
  BytesPerSecond widest;
  for_each_node(spec, [&](const NodeSpec& node, std::uint32_t first, std::uint32_t) {
    const auto nics = static_cast<std::uint32_t>(node.nics);
    f.nics = std::max(f.nics, nics);
    widest = nics > 0 ? std::max(widest, port_bandwidth(node)) : widest;
    f.cards.push_back({first, nics});
  });
  if (f.nics == 0) {
    return f;  // one node, no network
  }
  if (std::ranges::all_of(f.cards, [&](const FabricLayout::Cards& cards) { return cards.nics == f.nics; })) {
    f.cards.clear();
  }
  const FabricSpec& fabric = spec.fabric;
  const bool one_switch = fabric.kind == FabricKind::single_switch;
  f.nodes_per_group = one_switch ? f.nodes : static_cast<std::uint32_t>(fabric.nodes_per_leaf);
  f.groups = ceil_div(f.nodes, f.nodes_per_group);
  f.rails = fabric.kind == FabricKind::rail_optimized ? f.nics : 1;
  f.striped = fabric.placement == Placement::striped;
  f.switch_latency = fabric.switch_latency;

  const bool three_tiers = fabric.kind == FabricKind::fat_tree;
  f.leaves_per_pod = three_tiers ? static_cast<std::uint32_t>(fabric.leaves_per_pod) : f.leaves();
  f.pods = ceil_div(f.leaves(), f.leaves_per_pod);
  if (f.leaves() > 1) {
    const double cables = 1.0 * f.nodes_per_group * f.ports_per_node() / fabric.oversubscription;
    f.spines_per_pod = spines_for(cables);
    f.uplink = widest * (cables / f.spines_per_pod);
  }
  if (f.pods > 1) {
    f.cores_per_plane =
        std::min(f.leaves_per_pod, std::max(1U, FabricLayout::kMostSpines / f.spines_per_pod));
    f.core_link = f.uplink * (1.0 * f.leaves_per_pod / f.cores_per_plane);
  }
  return f;
}

}  // namespace paceline
