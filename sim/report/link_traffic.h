// What a job puts on each link of its cluster.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/names.h"
#include "sim/collective/spec.h"
#include "sim/job.h"
#include "topology/topology.h"

namespace paceline {

// A directed link by the devices that it joins. Up: from a GPU to its NVSwitch, from a GPU or NIC towards the
// CPU, out of the node, from a leaf towards the cores.
enum class LinkClass : std::uint8_t {
  nvlink,  // between GPUs
  nvlink_up,
  nvlink_down,
  pcie,  // between devices of one level
  pcie_up,
  pcie_down,
  socket,
  c2c,
  nic_out,
  nic_in,
  leaf_up,
  leaf_down,
  spine_up,
  spine_down
};
template <>
inline constexpr auto kNames<LinkClass> = names<LinkClass>({{"nvlink", LinkClass::nvlink},
                                                            {"nvlink_up", LinkClass::nvlink_up},
                                                            {"nvlink_down", LinkClass::nvlink_down},
                                                            {"pcie", LinkClass::pcie},
                                                            {"pcie_up", LinkClass::pcie_up},
                                                            {"pcie_down", LinkClass::pcie_down},
                                                            {"socket", LinkClass::socket},
                                                            {"c2c", LinkClass::c2c},
                                                            {"nic_out", LinkClass::nic_out},
                                                            {"nic_in", LinkClass::nic_in},
                                                            {"leaf_up", LinkClass::leaf_up},
                                                            {"leaf_down", LinkClass::leaf_down},
                                                            {"spine_up", LinkClass::spine_up},
                                                            {"spine_down", LinkClass::spine_down}});
LinkClass class_of(const Topology&, LinkId);

// By link of the topology.
struct LinkTraffic {
  std::vector<double>
      bytes;  // of a steady iteration: what its collectives' FIFOs and its messages carry over it
  std::vector<double> neighbours;  // bytes/s that others send over it where nobody holds them back
};

// Bytes of data: protocols' flags and headers are in the rates (HopCost), not here. Requires: the job was built on this
// topology. Cost: O(FIFOs * route length) of every graph, and O(messages).
LinkTraffic link_traffic(const Topology&, const TrainingJob&, std::span<const BackgroundFlow> others);

}  // namespace paceline
