// Devices and directed links: what the tables of a node, of the fabric and of the whole cluster hold.
#pragma once

#include <cstdint>

#include "core/id.h"
#include "core/names.h"
#include "core/units.h"

namespace paceline {

enum class DeviceKind : std::uint8_t { gpu, nvswitch, pcie_switch, cpu, nic, leaf, spine, core };
// As in Topology::device_name.
template <>
inline constexpr auto kNames<DeviceKind> = names<DeviceKind>({{"gpu", DeviceKind::gpu},
                                                              {"nvswitch", DeviceKind::nvswitch},
                                                              {"pcie", DeviceKind::pcie_switch},
                                                              {"cpu", DeviceKind::cpu},
                                                              {"nic", DeviceKind::nic},
                                                              {"leaf", DeviceKind::leaf},
                                                              {"spine", DeviceKind::spine},
                                                              {"core", DeviceKind::core}});

enum class LinkKind : std::uint8_t { nvlink, pcie, socket, network, c2c };  // c2c: GPU to CPU, coherent

struct Link {
  DeviceId from, to;
  LinkKind kind = LinkKind::nvlink;
  BytesPerSecond bandwidth;
  Seconds latency;
};

}  // namespace paceline
