// One node, as all of its kind are: its devices, the links that start in it, and its inner routes, in local ids.
//
// The n-th of consecutive nodes of a kind has its device d at n * devices() + d behind the first one's, and its
// link k at n * links.size() + k. Links are sorted by source. The last link of each NIC is its cable to the
// fabric; its end, kOutside, is the only thing that differs from node to node.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "topology/cluster_spec.h"
#include "topology/link.h"

namespace paceline {

inline constexpr DeviceId kOutside{~std::uint32_t{0}};

struct NodeLayout {
  static constexpr std::size_t kKinds =
      5;  // gpu, nvswitch, pcie_switch, cpu, nic: in this order, without gaps
  std::array<std::uint32_t, kKinds + 1> first{};  // local id of the first device of a kind
  std::vector<std::uint32_t> gpus_in_use;         // ascending
  // With all GPUs in use all NICs, else up to the last one that is near one of them.
  std::uint32_t nics_in_use = 0;
  std::vector<Link> links;
  std::vector<std::uint32_t> uplink;  // of a NIC: its cable to the fabric
  // Of a NIC: the GPU that it belongs to first, of those on its PCIe switch, or as near as any (GPU c of NIC
  // c where there are as many of both).
  std::vector<std::uint32_t> first_gpu;

  // Routes between GPUs, NICs and CPUs, which are endpoints in this order, but for those from NIC to NIC; the
  // links of (a, b) are route_links[route_begin[a * endpoints + b] .. next). Empty where there is no way.
  std::vector<std::uint32_t> route_begin, route_links;

  std::uint32_t devices() const { return first[kKinds]; }
  std::uint32_t count(DeviceKind kind) const {
    const auto k = static_cast<std::size_t>(kind);
    return first[k + 1] - first[k];
  }
  DeviceId device(DeviceKind kind, std::uint32_t i) const {
    return DeviceId(first[static_cast<std::size_t>(kind)] + i);
  }
  DeviceKind kind_of(DeviceId local) const;
  std::uint32_t endpoints() const { return endpoint_of_cpu(count(DeviceKind::cpu)); }
  std::uint32_t endpoint_of_nic(std::uint32_t nic) const { return count(DeviceKind::gpu) + nic; }
  std::uint32_t endpoint_of_cpu(std::uint32_t cpu) const {
    return count(DeviceKind::gpu) + count(DeviceKind::nic) + cpu;
  }
  // Local id of an endpoint, and the endpoint of a GPU, NIC or CPU.
  DeviceId endpoint(std::uint32_t e) const;
  std::uint32_t endpoint_of(DeviceId local) const;
  std::span<const std::uint32_t> route(std::uint32_t a, std::uint32_t b) const;
};

// The same node with its devices and cables listed, as they follow from wiring, mesh, pcie_switches, ...
// Requires: a spec that check_cluster accepts, without devices.
NodeSpec with_devices(const NodeSpec& spec);
// Joins all GPUs of a node with listed devices by an NVSwitch. Requires: there is none yet.
void add_nvswitch(NodeSpec& spec, BytesPerSecond per_gpu);

// Requires: a spec that check_cluster accepts; some of its GPUs, ascending.
NodeLayout make_node_layout(const NodeSpec& spec, std::vector<std::uint32_t> gpus_in_use);
// The first ones. Requires: 1 <= gpus_in_use <= spec.gpus.
NodeLayout make_node_layout(const NodeSpec& spec, std::uint32_t gpus_in_use);

// Parts of make_node_layout. Which GPUs and NICs are near each other (nearness.cpp); the routes (routes.cpp).
void find_near_devices(const NodeSpec& spec, NodeLayout& node);
void find_node_routes(const NodeSpec& spec, NodeLayout& node);

}  // namespace paceline
