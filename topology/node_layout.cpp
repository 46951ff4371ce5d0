#include "topology/node_layout.h"

#include <algorithm>
#include <cassert>

namespace paceline {
namespace {

struct Cable {
  DeviceId a, b;
  LinkKind kind;
  BytesPerSecond bandwidth;
  Seconds latency;
};

void add_nvlink_cables(const NodeSpec& spec, const NodeLayout& node, std::vector<Cable>& cables) {
  const auto gpu = [&](int i) { return node.device(DeviceKind::gpu, static_cast<std::uint32_t>(i)); };
  if (spec.wiring == NvlinkWiring::nvswitch) {
    const DeviceId nvswitch = node.device(DeviceKind::nvswitch, 0);
    for (int i = 0; i < spec.gpus; ++i) {
      cables.push_back({gpu(i), nvswitch, LinkKind::nvlink, spec.nvlink_bandwidth, spec.nvlink_latency});
    }
  }
  for (const NvlinkPair& pair : spec.mesh) {
    const BytesPerSecond bandwidth = spec.nvlink_bandwidth * pair.count;
    cables.push_back({gpu(pair.a), gpu(pair.b), LinkKind::nvlink, bandwidth, spec.nvlink_latency});
  }
}

void add_host_cables(const NodeSpec& spec, const NodeLayout& node, std::vector<Cable>& cables) {
  const auto pcie = [&](DeviceId device, std::uint32_t pcie_switch) {
    cables.push_back({device, node.device(DeviceKind::pcie_switch, pcie_switch), LinkKind::pcie,
                      spec.pcie_bandwidth, spec.pcie_latency});
  };
  for (std::uint32_t i = 0; i < node.count(DeviceKind::gpu); ++i) {
    pcie(node.device(DeviceKind::gpu, i), pcie_switch_of_gpu(spec, i));
  }
  for (std::uint32_t i = 0; i < node.count(DeviceKind::nic); ++i) {
    pcie(node.device(DeviceKind::nic, i), pcie_switch_of_nic(spec, i));
  }
  const std::uint32_t switches = node.count(DeviceKind::pcie_switch), sockets = node.count(DeviceKind::cpu);
  for (std::uint32_t i = 0; i < switches; ++i) {
    pcie(node.device(DeviceKind::cpu, i * sockets / switches), i);
  }
  for (std::uint32_t a = 0; a < sockets; ++a) {
    for (std::uint32_t b = a + 1; b < sockets; ++b) {
      cables.push_back({node.device(DeviceKind::cpu, a), node.device(DeviceKind::cpu, b), LinkKind::socket,
                        spec.socket_bandwidth, spec.socket_latency});
    }
  }
}

std::vector<Link> directed_links(const NodeSpec& spec, const NodeLayout& node) {
  std::vector<Cable> cables;
  add_nvlink_cables(spec, node, cables);
  add_host_cables(spec, node, cables);
  std::vector<Link> links;
  for (const Cable& c : cables) {
    links.push_back({c.a, c.b, c.kind, c.bandwidth, c.latency});
    links.push_back({c.b, c.a, c.kind, c.bandwidth, c.latency});
  }
  for (std::uint32_t i = 0; i < node.count(DeviceKind::nic); ++i) {
    links.push_back(
        {node.device(DeviceKind::nic, i), kOutside, LinkKind::network, spec.nic_bandwidth, spec.nic_latency});
  }
  std::ranges::stable_sort(links, {}, &Link::from);
  return links;
}

std::uint32_t nics_near_used_gpus(const NodeSpec& spec, std::uint32_t gpus_in_use) {
  const auto nics = static_cast<std::uint32_t>(spec.nics);
  if (gpus_in_use == static_cast<std::uint32_t>(spec.gpus)) {
    return nics;
  }
  const std::uint32_t last = pcie_switch_of_gpu(spec, gpus_in_use - 1);
  std::uint32_t near = 0;
  while (near < nics && pcie_switch_of_nic(spec, near) <= last) {
    ++near;
  }
  return near;
}

}  // namespace

DeviceKind NodeLayout::kind_of(DeviceId local) const {
  const auto after = std::upper_bound(first.begin(), first.end(), local.value);
  return static_cast<DeviceKind>(after - first.begin() - 1);
}

std::span<const std::uint32_t> NodeLayout::route(std::uint32_t a, std::uint32_t b) const {
  const std::size_t pair = std::size_t{a} * endpoints() + b;
  return std::span(route_links).subspan(route_begin[pair], route_begin[pair + 1] - route_begin[pair]);
}

std::uint32_t pcie_switch_of_gpu(const NodeSpec& spec, std::uint32_t gpu) {
  return gpu * static_cast<std::uint32_t>(spec.pcie_switches) / static_cast<std::uint32_t>(spec.gpus);
}

std::uint32_t pcie_switch_of_nic(const NodeSpec& spec, std::uint32_t nic) {
  return nic * static_cast<std::uint32_t>(spec.pcie_switches) / static_cast<std::uint32_t>(spec.nics);
}

std::uint32_t first_gpu_of_nic(const NodeSpec& spec, std::uint32_t nic) {
  return nic * static_cast<std::uint32_t>(spec.gpus) / static_cast<std::uint32_t>(spec.nics);
}

NodeLayout make_node_layout(const NodeSpec& spec, std::uint32_t gpus_in_use) {
  NodeLayout node;
  const std::array<int, NodeLayout::kKinds> counts{spec.gpus, spec.wiring == NvlinkWiring::nvswitch ? 1 : 0,
                                                   spec.pcie_switches, spec.sockets, spec.nics};
  for (std::size_t k = 0; k < NodeLayout::kKinds; ++k) {
    node.first[k + 1] = node.first[k] + static_cast<std::uint32_t>(counts[k]);
  }
  node.gpus_in_use = gpus_in_use;
  node.nics_in_use = nics_near_used_gpus(spec, gpus_in_use);
  node.links = directed_links(spec, node);
  for (std::uint32_t k = 0; k < node.links.size(); ++k) {
    if (node.links[k].to == kOutside) {
      node.uplink.push_back(k);
    }
  }
  find_node_routes(spec, node);
  return node;
}

}  // namespace paceline
