// Reads what NCCL writes about a machine: NCCL_TOPO_DUMP_FILE and NCCL_GRAPH_DUMP_FILE (src/graph/xml.cc).
#pragma once

#include <cstddef>
#include <string>

#include "topology/channel_graph.h"
#include "topology/cluster_spec.h"

namespace paceline {

inline constexpr std::size_t kLargestXml = 16 << 20;  // bytes
inline constexpr int kDeepestXml = 64;                // elements inside each other
inline constexpr std::size_t kMostOfAKind = 256;      // GPUs, NICs, ... of a machine

// The machine of a topology file: GPUs, NVSwitches (merged into one), PCIe switches, CPUs, NICs and the
// cables between them at NCCL's rates (src/graph/topo.h). compute_capability, cpu and gpu (where a preset is
// of that card) are set where the file says; wiring, nvlink_bandwidth, ... describe the listed devices.
// Latencies are those of the presets. Throws InputError with the file and "line L" for what is no such file,
// too large or too deep. What is to know:
// - GPUs and NICs are what has <gpu> and <net>; of those, what has a rank and a number if any has. A file
//   without any <gpu> (or <net>) means the devices of class 0x03 (0x02): cloud vendors write such files. NCCL
//   completes them with what it detects; here the PCI numbers must do. A NIC is then as fast as its adapter
//   is sold, or else as its PCIe link; and GPU modules that are only sold on a board of NVSwitches (A100
//   SXM4, H100 SXM5, ...) have one of their generation's full width. Without PCI numbers there is no NVLink.
// - Several ports of one adapter share its PCIe link evenly. Broadcom's two-level switches become one level,
//   as in NCCL.
// - Only NICs at least half as fast as the fastest are kept: what remains is for management. NCCL keeps all
//   and its search takes the fast ones.
// - GPUDirect RDMA is had unless the file says of all GPUs, or of all NICs, that they have not (gdr="0").
// - Hosts of one NVLink domain (host_hash) are one node here; their CPUs are not joined.
NodeSpec read_nccl_topology(const std::string& text, const std::string& file);

// The graphs of a graph file, as the search leaves them before it counts channels (count_channels). Channels
// that the file gives by their head alone (NVLS, CollNet direct) go on with the other GPUs in order. The file
// numbers GPUs and network devices as the machine does (NodeDevice::number); with `node` these become its
// GPUs and NICs. Without, GPUs are counted in their order and NICs keep their numbers. Throws InputError
// likewise.
ChannelGraphs read_nccl_graphs(const std::string& text, const std::string& file,
                               const NodeSpec* node = nullptr);

}  // namespace paceline
