// The vertices and links of a CountedNode, with NCCL's rates (src/graph/topo.cc).
#include <algorithm>
#include <cmath>
#include <optional>

#include "topology/channel_paths.h"
#include "topology/channel_speeds.h"

namespace paceline {
namespace {

double gigabytes(BytesPerSecond bandwidth) { return bandwidth.value / 1e9; }

// NVLinks of a GPU as it is sold on an NVSwitch.
int standard_ports(int compute_capability) {
  return compute_capability >= 90 ? 18 : compute_capability >= 80 ? 12 : compute_capability >= 70 ? 6 : 4;
}

// A node's bandwidths are payload rates, near NCCL's but not equal: a number of links that explains the
// bandwidth within this factor is taken.
constexpr double kLikely = 1.3;
bool likely(double ratio) { return ratio < kLikely && ratio > 1 / kLikely; }

int nvlinks(const NodeSpec& spec, const Link& link, bool to_switch, double rate) {
  const double ratio = gigabytes(link.bandwidth) / rate;
  const int ports = standard_ports(spec.compute_capability);
  if (to_switch && likely(ratio / ports)) {
    return ports;
  }
  const bool counted = spec.devices.empty() && spec.wiring == NvlinkWiring::mesh;
  if (counted && likely(gigabytes(spec.nvlink_bandwidth) / rate)) {
    return static_cast<int>(std::lround(link.bandwidth / spec.nvlink_bandwidth));
  }
  return std::max(1, static_cast<int>(std::lround(ratio)));
}

// Between CPUs as versions knew them: of AMD's no limit, of Intel's none that is faster than Skylake.
float socket_rate(CpuVendor cpu, float rate, int version) {
  if (cpu == CpuVendor::amd && version < 219) {
    return kLocalRate;
  }
  return cpu == CpuVendor::intel && version < 226 ? std::min(rate, version >= 218 ? 10.0F : 9.0F) : rate;
}

// NCCL knows a PCIe link by its generation and lanes, and counts 12 GB/s for 16 lanes of the third, 96 of the sixth.
// What carries up to a third more, which is the raw rate, is counted as that.
float pcie_rate(double rate) {
  constexpr double kMost = 96;
  const double counted = 12 * std::exp2(std::floor(std::log2(rate / 12)));
  return static_cast<float>(counted <= kMost && 3 * rate <= 4 * counted ? counted : rate);
}

float counted_rate(const NodeSpec& spec, const NodeLayout& layout, const Link& link, int version) {
  if (link.kind == LinkKind::socket) {
    return socket_rate(spec.cpu, static_cast<float>(gigabytes(link.bandwidth)), version);
  }
  if (link.kind == LinkKind::pcie) {
    return pcie_rate(gigabytes(link.bandwidth));
  }
  if (link.kind != LinkKind::nvlink || spec.compute_capability == 0) {
    return static_cast<float>(gigabytes(link.bandwidth));
  }
  const bool to_switch =
      layout.kind_of(link.from) == DeviceKind::nvswitch || layout.kind_of(link.to) == DeviceKind::nvswitch;
  const float rate = nvlink_rate(spec.compute_capability, version);
  return static_cast<float>(nvlinks(spec, link, to_switch, static_cast<double>(rate))) * rate;
}

PathType type_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
      return PathType::nvl;
    case LinkKind::c2c:
      return PathType::c2c;
    case LinkKind::pcie:
      return PathType::pix;
    case LinkKind::socket:
      return PathType::sys;
    case LinkKind::network:
      break;
  }
  return PathType::loc;
}

// Over InfiniBand and RoCE NCCL takes the ports of a card for one device from 2.20 on (NCCL_IB_MERGE_NICS), over
// sockets never; a plugin's device is whatever it joins.
int nets_of_nic(const NodeSpec& spec, int version) {
  const bool verbs = is_verbs(spec.network);
  const bool apart = spec.network == NetworkKind::tcp || (verbs && version < 220);
  return apart ? spec.nic_ports : 1;
}

// Builds the vertices and links of a CountedNode.
class Counter {
 public:
  Counter(const NodeLayout& layout, const NodeSpec& spec, int version)
      : layout_(layout), spec_(spec), version_(version) {}

  CountedNode count() {
    node_.gpus = static_cast<int>(layout_.gpus_in_use.size());
    node_.gpu_numbers = layout_.gpus_in_use;
    node_.nets_of_nic = nets_of_nic(spec_, version_);
    node_.nics = static_cast<int>(layout_.count(DeviceKind::nic)) * node_.nets_of_nic;
    node_.cpus = static_cast<int>(layout_.count(DeviceKind::cpu));
    node_.switches = static_cast<int>(layout_.count(DeviceKind::pcie_switch));
    node_.has_nvswitch = layout_.count(DeviceKind::nvswitch) > 0;
    node_.compute_capability = spec_.compute_capability > 0 ? spec_.compute_capability : 80;
    node_.cpu = spec_.cpu;
    node_.farthest_peers = farthest_peers(spec_, layout_.gpus_in_use.size());
    node_.vertices = node_.cpu_at(node_.cpus + node_.switches + node_.nics / node_.nets_of_nic);
    add_links();
    node_.links_from.resize(node_.vertices);
    for (std::uint32_t k = 0; k < node_.links.size(); ++k) {
      node_.links_from[node_.links[k].from].push_back(k);
    }
    for (auto& out : node_.links_from) {
      std::ranges::stable_sort(out, std::ranges::greater(),
                               [&](std::uint32_t k) { return node_.links[k].rate; });
    }
    return std::move(node_);
  }

 private:
  // Absent: a GPU that is not in use.
  std::optional<std::uint32_t> vertex_of(DeviceId device) const {
    const DeviceKind kind = layout_.kind_of(device);
    const std::uint32_t i = device.value - layout_.device(kind, 0).value;
    const std::uint32_t first_rest = node_.cpu_at(node_.cpus);
    switch (kind) {
      case DeviceKind::gpu:
        return place_in_use(i);
      case DeviceKind::nvswitch:
        return node_.nvswitch();
      case DeviceKind::cpu:
        return node_.cpu_at(static_cast<int>(i));
      case DeviceKind::pcie_switch:
        return first_rest + i;
      default:
        return first_rest + layout_.count(DeviceKind::pcie_switch) + i;
    }
  }

  std::optional<std::uint32_t> place_in_use(std::uint32_t gpu) const {
    const std::vector<std::uint32_t>& gpus = layout_.gpus_in_use;
    const auto at = std::ranges::lower_bound(gpus, gpu);
    return at != gpus.end() && *at == gpu ? std::optional(static_cast<std::uint32_t>(at - gpus.begin()))
                                          : std::nullopt;
  }

  // Parallel cables are one link, as wide as all of them.
  void add(std::uint32_t from, std::uint32_t to, PathType type, float rate) {
    const auto same = std::ranges::find_if(node_.links, [&](const CountedLink& link) {
      return link.from == from && link.to == to && link.type == type;
    });
    if (same != node_.links.end()) {
      same->rate += rate;
    } else {
      node_.links.push_back({from, to, type, rate, 0});
    }
  }

  void add_links() {
    for (const Link& link : layout_.links) {
      const std::optional<std::uint32_t> from = vertex_of(link.from);
      const PathType type = type_of(link.kind);
      const float rate = counted_rate(spec_, layout_, link, version_);
      if (link.to == kOutside) {
        const auto nic = static_cast<int>(link.from.value - layout_.device(DeviceKind::nic, 0).value);
        for (int net = 0; net < node_.nets_of_nic; ++net) {
          const std::uint32_t port = node_.port(nic * node_.nets_of_nic + net);
          add(*from, port, type, rate / static_cast<float>(node_.nets_of_nic));
          add(port, *from, type, rate / static_cast<float>(node_.nets_of_nic));
        }
      } else if (const std::optional<std::uint32_t> to = vertex_of(link.to); from && to) {
        add(*from, *to, type, rate);
      }
    }
    for (CountedLink& link : node_.links) {
      const auto back = std::ranges::find_if(node_.links, [&](const CountedLink& other) {
        return other.from == link.to && other.to == link.from && other.type == link.type;
      });
      link.back = static_cast<std::uint32_t>(back - node_.links.begin());
    }
  }

  const NodeLayout& layout_;
  const NodeSpec& spec_;
  int version_;
  CountedNode node_;
};

}  // namespace

CountedNode count_links(const NodeLayout& layout, const NodeSpec& spec, int version) {
  return Counter(layout, spec, version).count();
}

}  // namespace paceline
