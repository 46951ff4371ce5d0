#include "topology/node_layout.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

namespace paceline {
namespace {

Seconds latency_of(const NodeSpec& spec, CableKind kind) {
  switch (kind) {
    case CableKind::nvlink:
      return spec.nvlink_latency;
    case CableKind::socket:
      return spec.socket_latency;
    case CableKind::pcie:
    case CableKind::c2c:
      break;
  }
  return spec.pcie_latency;
}

LinkKind link_kind(CableKind kind) {
  switch (kind) {
    case CableKind::nvlink:
      return LinkKind::nvlink;
    case CableKind::socket:
      return LinkKind::socket;
    case CableKind::c2c:
      return LinkKind::c2c;
    case CableKind::pcie:
      break;
  }
  return LinkKind::pcie;
}

// Where each listed device stands: by kind, and among its kind in the order of the list.
std::vector<DeviceId> number_devices(const NodeSpec& spec, NodeLayout& node) {
  for (const NodeDevice& device : spec.devices) {
    ++node.first[static_cast<std::size_t>(device.kind) + 1];
  }
  std::partial_sum(node.first.begin(), node.first.end(), node.first.begin());
  std::array<std::uint32_t, NodeLayout::kKinds + 1> next = node.first;
  std::vector<DeviceId> ids;
  for (const NodeDevice& device : spec.devices) {
    ids.emplace_back(next[static_cast<std::size_t>(device.kind)]++);
  }
  return ids;
}

std::vector<Link> directed_links(const NodeSpec& spec, const std::vector<DeviceId>& ids) {
  std::vector<Link> links;
  for (const NodeCable& c : spec.cables) {
    const DeviceId a = ids[static_cast<std::size_t>(c.a)], b = ids[static_cast<std::size_t>(c.b)];
    const Seconds latency = latency_of(spec, c.kind);
    links.push_back({a, b, link_kind(c.kind), c.bandwidth, latency});
    links.push_back({b, a, link_kind(c.kind), c.bandwidth, latency});
  }
  for (std::size_t d = 0; d < spec.devices.size(); ++d) {
    if (spec.devices[d].kind == NodePart::nic) {
      links.push_back({ids[d], kOutside, LinkKind::network, spec.devices[d].bandwidth, spec.nic_latency});
    }
  }
  std::ranges::stable_sort(links, {}, &Link::from);
  return links;
}

// All but what is near and the routes.
NodeLayout layout_of(const NodeSpec& spec, std::vector<std::uint32_t> gpus_in_use) {
  NodeLayout node;
  node.links = directed_links(spec, number_devices(spec, node));
  node.gpus_in_use = std::move(gpus_in_use);
  for (std::uint32_t k = 0; k < node.links.size(); ++k) {
    if (node.links[k].to == kOutside) {
      node.uplink.push_back(k);
    }
  }
  return node;
}

}  // namespace

DeviceKind NodeLayout::kind_of(DeviceId local) const {
  const auto after = std::upper_bound(first.begin(), first.end(), local.value);
  return static_cast<DeviceKind>(after - first.begin() - 1);
}

DeviceId NodeLayout::endpoint(std::uint32_t e) const {
  const std::uint32_t gpus = count(DeviceKind::gpu), nics = count(DeviceKind::nic);
  return e < gpus          ? device(DeviceKind::gpu, e)
         : e < gpus + nics ? device(DeviceKind::nic, e - gpus)
                           : device(DeviceKind::cpu, e - gpus - nics);
}

std::uint32_t NodeLayout::endpoint_of(DeviceId local) const {
  const DeviceKind kind = kind_of(local);
  assert(kind == DeviceKind::gpu || kind == DeviceKind::nic || kind == DeviceKind::cpu);
  const std::uint32_t number = local.value - device(kind, 0).value;
  return kind == DeviceKind::gpu   ? number
         : kind == DeviceKind::nic ? endpoint_of_nic(number)
                                   : endpoint_of_cpu(number);
}

std::span<const std::uint32_t> NodeLayout::route(std::uint32_t a, std::uint32_t b) const {
  const std::size_t pair = std::size_t{a} * endpoints() + b;
  return std::span(route_links).subspan(route_begin[pair], route_begin[pair + 1] - route_begin[pair]);
}

NodeLayout make_node_layout(const NodeSpec& spec, std::vector<std::uint32_t> gpus_in_use) {
  NodeLayout node = layout_of(spec.devices.empty() ? with_devices(spec) : spec, std::move(gpus_in_use));
  find_near_devices(spec, node);
  find_node_routes(spec, node);
  return node;
}

NodeLayout make_node_layout(const NodeSpec& spec, std::uint32_t gpus_in_use) {
  std::vector<std::uint32_t> first(gpus_in_use);
  std::iota(first.begin(), first.end(), 0U);
  return make_node_layout(spec, std::move(first));
}

}  // namespace paceline
