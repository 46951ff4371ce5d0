// Which GPUs and NICs of a node are near each other over PCIe.
//
// A regular node says so in numbers (NodeSpec). Of one with listed devices the cables tell: the distance of a
// GPU from a NIC counts cables, and CPUs more than any cables; NVLink doesn't count.
#include <algorithm>
#include <limits>
#include <queue>

#include "topology/node_layout.h"

namespace paceline {
namespace {

constexpr int kFar = std::numeric_limits<int>::max();

void find_near_by_numbers(const NodeSpec& spec, NodeLayout& node) {
  const std::uint32_t gpus = node.count(DeviceKind::gpu), nics = node.count(DeviceKind::nic);
  const std::uint32_t switches = node.count(DeviceKind::pcie_switch);
  const auto switch_of_gpu = [&](std::uint32_t gpu) { return gpu * switches / gpus; };
  const auto switch_of_nic = [&](std::uint32_t nic) { return nic * switches / nics; };
  const std::uint32_t last = switch_of_gpu(node.gpus_in_use.back());
  node.nics_in_use = node.gpus_in_use.size() == gpus ? nics : 0;
  for (std::uint32_t nic = 0; nic < nics; ++nic) {
    node.nics_in_use = switch_of_nic(nic) <= last ? std::max(node.nics_in_use, nic + 1) : node.nics_in_use;
    node.first_gpu.push_back(nic * static_cast<std::uint32_t>(spec.gpus) / nics);
  }
}

int length_of(const NodeLayout& node, const Link& link) {
  constexpr int kCpu = 1 << 12;  // more than all switches of a node
  const bool cpu = node.kind_of(link.from) == DeviceKind::cpu || node.kind_of(link.to) == DeviceKind::cpu;
  return link.kind == LinkKind::c2c ? kCpu / 2 : link.kind == LinkKind::socket ? 4 * kCpu : cpu ? kCpu : 1;
}

// Of every device from `source`; nothing goes through a GPU or another NIC.
std::vector<int> distances_from(const NodeLayout& node, DeviceId source) {
  std::vector<int> distance(node.devices(), kFar);
  std::priority_queue<std::pair<int, std::uint32_t>, std::vector<std::pair<int, std::uint32_t>>,
                      std::greater<>>
      queue;
  distance[source.index()] = 0;
  queue.emplace(0, source.value);
  while (!queue.empty()) {
    const auto [so_far, at] = queue.top();
    queue.pop();
    const DeviceKind kind = node.kind_of(DeviceId(at));
    const bool end = kind == DeviceKind::gpu || kind == DeviceKind::nic;
    if (so_far > distance[at] || (end && at != source.value)) {
      continue;
    }
    auto link = std::ranges::lower_bound(node.links, DeviceId(at), {}, &Link::from);
    for (; link != node.links.end() && link->from.value == at; ++link) {
      if (link->kind == LinkKind::nvlink || link->to == kOutside) {
        continue;
      }
      const int there = so_far + length_of(node, *link);
      if (there < distance[link->to.index()]) {
        distance[link->to.index()] = there;
        queue.emplace(there, link->to.value);
      }
    }
  }
  return distance;
}

// NICs with the same GPUs beside them share these evenly.
std::vector<std::uint32_t> share_out_gpus(const std::vector<std::vector<std::uint32_t>>& beside) {
  std::vector<std::uint32_t> first;
  for (std::size_t nic = 0; nic < beside.size(); ++nic) {
    const std::vector<std::uint32_t>& gpus = beside[nic];
    const auto all = static_cast<std::size_t>(std::ranges::count(beside, gpus));
    const auto before = static_cast<std::size_t>(
        std::count(beside.begin(), beside.begin() + static_cast<std::ptrdiff_t>(nic), gpus));
    first.push_back(gpus.empty() ? 0 : gpus[before * gpus.size() / all]);
  }
  return first;
}

void find_near_by_cables(NodeLayout& node) {
  const std::uint32_t gpus = node.count(DeviceKind::gpu), nics = node.count(DeviceKind::nic);
  std::vector<int> nearest_nic(gpus, kFar);              // its distance
  std::vector<std::vector<int>> distance;                // of a NIC, from each GPU
  std::vector<std::vector<std::uint32_t>> beside(nics);  // of a NIC: the nearest GPUs
  for (std::uint32_t nic = 0; nic < nics; ++nic) {
    std::vector<int> from = distances_from(node, node.device(DeviceKind::nic, nic));
    from.resize(gpus);  // GPUs are the first devices
    const int nearest = *std::ranges::min_element(from);
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
      if (from[gpu] == nearest && nearest != kFar) {
        beside[nic].push_back(gpu);
      }
      nearest_nic[gpu] = std::min(nearest_nic[gpu], from[gpu]);
    }
    distance.push_back(std::move(from));
  }
  node.first_gpu = share_out_gpus(beside);
  node.nics_in_use = node.gpus_in_use.size() == gpus ? nics : std::min(nics, 1U);
  for (std::uint32_t nic = 0; nic < nics; ++nic) {
    for (const std::uint32_t gpu : node.gpus_in_use) {
      const bool near = distance[nic][gpu] == nearest_nic[gpu] && nearest_nic[gpu] != kFar;
      node.nics_in_use = near ? std::max(node.nics_in_use, nic + 1) : node.nics_in_use;
    }
  }
}

}  // namespace

void find_near_devices(const NodeSpec& spec, NodeLayout& node) {
  if (spec.devices.empty()) {
    find_near_by_numbers(spec, node);
  } else {
    find_near_by_cables(node);
  }
}

}  // namespace paceline
