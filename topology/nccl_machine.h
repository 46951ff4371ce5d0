// The elements of a topology file that stand for devices, with what they say of themselves. Which of them
// count, and what joins them besides PCIe, is read_nccl_topology's business.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "topology/cluster_spec.h"
#include "topology/pci_devices.h"
#include "topology/xml_file.h"

namespace paceline {

struct MachinePart {
  NodePart kind = NodePart::pcie_switch;
  std::string name;
  pugi::xml_node at;           // <pci>, <cpu>, <gpu> or <net>
  int host = 0;                // of the machine's hosts, in the file's order
  std::int64_t bus = -1;       // its bus id as a number; -1: none
  int parent = -1;             // the part above it; a CPU has none
  int cpu = -1;                // the CPU at the top
  BytesPerSecond to_parent;    // PCIe; CPU: rate to another CPU
  bool declared = false;       // GPU, NIC: by an element of its own, not by its class
  std::int64_t number = -1;    // GPU, NIC: the file's dev
  std::int64_t rank = -1;      // GPU
  int compute_capability = 0;  // GPU
  bool gpu_direct = true;      // GPU, NIC: gdr, where it says
  PciGpu card;                 // GPU
  BytesPerSecond port;         // NIC
  pugi::xml_node adapter;      // NIC: <pci>; ports of one adapter have the same
};

struct Machine {
  std::vector<MachinePart> parts;                      // a parent comes before its children
  std::map<std::pair<int, std::int64_t>, int> at_bus;  // (host, bus) -> part
  CpuVendor cpu = CpuVendor::intel;
};

Machine read_machine(const XmlFile&);
// "0000:0f:00.0" as a number, with or without separators and leading zeros.
std::int64_t bus_number(const XmlFile&, pugi::xml_node, const char* attribute);

}  // namespace paceline
