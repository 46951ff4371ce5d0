// Devices and directed links: what the tables of a node, of the fabric and of the whole cluster hold.
#pragma once

#include <cstdint>

#include "core/id.h"
#include "core/units.h"

namespace paceline {

enum class DeviceKind : std::uint8_t { gpu, nvswitch, pcie_switch, cpu, nic, leaf, spine, core };
enum class LinkKind : std::uint8_t { nvlink, pcie, socket, network, c2c };  // c2c: GPU to CPU, coherent

struct Link {
  DeviceId from, to;
  LinkKind kind = LinkKind::nvlink;
  BytesPerSecond bandwidth;
  Seconds latency;
};

}  // namespace paceline
