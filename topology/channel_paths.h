// A node as NCCL's graph search counts it (src/graph/topo.cc, src/graph/paths.cc): the devices that a job
// uses, links with NCCL's own rates, and the one path that NCCL takes from each GPU, NIC and NVSwitch to each
// other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "topology/channel_graph.h"
#include "topology/node_layout.h"

namespace paceline {

struct SearchSpec;

struct CountedLink {
  std::uint32_t from = 0, to = 0;  // vertices of CountedNode
  PathType type = PathType::loc;   // nvl, c2c, pix (any PCIe link), sys; loc: adapter and port of a NIC
  float rate = 0;                  // GB/s, one direction
  std::uint32_t back = 0;          // the same cable the other way
};

struct CountedPath {
  PathType type = PathType::dis;
  bool through_cpu = false;
  float rate = 0;  // GB/s, of its slowest link
  int hops = 0;    // as NCCL counts them: the links, and one more for each GPU that is an end of a part
  std::vector<std::uint32_t> links;
};

struct CountedNode {
  // Vertices: GPUs in use, NVSwitch (all of them are one), network ports, CPUs, PCIe switches, NICs. Where
  // NCCL takes each port of a NIC for a NIC, `nics` counts those, and NIC i of the node has nets_of_nic ports
  // from i * nets_of_nic on.
  int gpus = 0, nics = 0, cpus = 0, switches = 0;  // switches: of PCIe
  int nets_of_nic = 1;
  std::uint32_t vertices = 0;
  bool has_nvswitch = false;
  std::vector<std::uint32_t> gpu_numbers;  // in the whole node
  int compute_capability = 80;             // where the node states none: 80
  CpuVendor cpu = CpuVendor::intel;
  PathType farthest_peers = PathType::pxb;
  bool x86() const { return cpu == CpuVendor::intel || cpu == CpuVendor::amd || cpu == CpuVendor::zhaoxin; }

  std::vector<CountedLink> links;
  std::vector<std::vector<std::uint32_t>> links_from;  // of a vertex, wide ones first
  std::vector<CountedPath> paths;                      // [to * vertices + from], to: up to the last CPU

  float max_rate = 0, total_rate = 0;       // the best path of any GPU (to a port; else to a GPU); its links
  std::vector<std::vector<int>> near_gpus;  // of a NIC: on the widest and best paths
  std::vector<std::vector<int>> own_nics;   // of a GPU: those that NCCL gives it, in order of channels
  std::vector<int> nearest_gpu;             // of a NIC: the GPU that has it as its own first; -1: none

  std::uint32_t gpu(int i) const { return static_cast<std::uint32_t>(i); }
  std::uint32_t nvswitch() const { return gpu(gpus); }
  std::uint32_t port(int nic) const { return gpu(gpus + 1 + nic); }
  std::uint32_t cpu_at(int i) const { return port(nics + i); }
  bool is_gpu(std::uint32_t v) const { return v < gpu(gpus); }
  bool is_port(std::uint32_t v) const { return v >= port(0) && v < port(nics); }
  bool is_cpu(std::uint32_t v) const { return v >= cpu_at(0) && v < cpu_at(cpus); }
  bool is_switch(std::uint32_t v) const { return v >= cpu_at(cpus) && v < cpu_at(cpus + switches); }
  const CountedPath& path(std::uint32_t from, std::uint32_t to) const {
    return paths[std::size_t{to} * vertices + from];
  }
  CountedPath& path(std::uint32_t from, std::uint32_t to) { return paths[std::size_t{to} * vertices + from]; }
};

// Cost: O(targets * links), a label-correcting search from each GPU, NIC, CPU and the NVSwitch.
CountedNode count_node(const NodeLayout&, const NodeSpec&, int nodes, const SearchSpec&);

// Part of count_node (channel_links.cpp): the vertices and links, no paths yet. version: of NCCL.
CountedNode count_links(const NodeLayout&, const NodeSpec&, int version);

}  // namespace paceline
