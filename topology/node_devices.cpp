// From the few numbers that describe a regular node to its devices and cables, one by one.
#include <algorithm>
#include <cassert>
#include <string>

#include "topology/node_layout.h"

namespace paceline {
namespace {

// Devices by kind, in the order of NodePart.
struct Counts {
  int gpus, nvswitches, pcie_switches, sockets, nics;
  int nvswitch() const { return gpus; }
  int pcie_switch(int i) const { return gpus + nvswitches + i; }
  int cpu(int i) const { return pcie_switch(pcie_switches) + i; }
  int nic(int i) const { return cpu(sockets) + i; }
};

void append(std::vector<NodeDevice>& devices, NodePart kind, int count, const std::string& word,
            BytesPerSecond bandwidth = {}) {
  for (int i = 0; i < count; ++i) {
    devices.push_back({kind, word + std::to_string(i), bandwidth, i});
  }
}

void append_nvlinks(const NodeSpec& spec, const Counts& n, std::vector<NodeCable>& cables) {
  for (int i = 0; n.nvswitches > 0 && i < n.gpus; ++i) {
    cables.push_back({i, n.nvswitch(), CableKind::nvlink, spec.nvlink_bandwidth});
  }
  for (const NvlinkPair& pair : spec.mesh) {
    cables.push_back({pair.a, pair.b, CableKind::nvlink, spec.nvlink_bandwidth * pair.count});
  }
}

void append_host(const NodeSpec& spec, const Counts& n, std::vector<NodeCable>& cables) {
  const auto pcie = [&](int device, int pcie_switch) {
    cables.push_back({device, n.pcie_switch(pcie_switch), CableKind::pcie, spec.pcie_bandwidth});
  };
  for (int i = 0; i < n.gpus; ++i) {
    pcie(i, i * n.pcie_switches / n.gpus);
  }
  for (int i = 0; i < n.nics; ++i) {
    pcie(n.nic(i), i * n.pcie_switches / n.nics);
  }
  for (int i = 0; i < n.pcie_switches; ++i) {
    pcie(n.cpu(i * n.sockets / n.pcie_switches), i);
  }
  for (int a = 0; a < n.sockets; ++a) {
    for (int b = a + 1; b < n.sockets; ++b) {
      cables.push_back({n.cpu(a), n.cpu(b), CableKind::socket, spec.socket_bandwidth});
    }
  }
}

}  // namespace

NodeSpec with_devices(const NodeSpec& spec) {
  assert(spec.devices.empty());
  const Counts n{spec.gpus, spec.wiring == NvlinkWiring::nvswitch ? 1 : 0, spec.pcie_switches, spec.sockets,
                 spec.nics};
  NodeSpec listed = spec;
  append(listed.devices, NodePart::gpu, n.gpus, "gpu");
  append(listed.devices, NodePart::nvswitch, n.nvswitches, "nvswitch");
  append(listed.devices, NodePart::pcie_switch, n.pcie_switches, "pcie");
  append(listed.devices, NodePart::cpu, n.sockets, "cpu");
  append(listed.devices, NodePart::nic, n.nics, "nic", spec.nic_bandwidth);
  append_nvlinks(spec, n, listed.cables);
  append_host(spec, n, listed.cables);
  return listed;
}

void add_nvswitch(NodeSpec& spec, BytesPerSecond per_gpu) {
  const int nvswitch = static_cast<int>(spec.devices.size());
  for (int d = 0; d < nvswitch; ++d) {
    const NodePart kind = spec.devices[static_cast<std::size_t>(d)].kind;
    assert(kind != NodePart::nvswitch);
    if (kind == NodePart::gpu) {
      spec.cables.push_back({d, nvswitch, CableKind::nvlink, per_gpu});
    }
  }
  spec.devices.push_back({NodePart::nvswitch, "nvswitch", {}, -1});
  spec.wiring = NvlinkWiring::nvswitch;
  spec.nvlink_bandwidth = per_gpu;
}

}  // namespace paceline
