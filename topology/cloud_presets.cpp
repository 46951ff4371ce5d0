// Nodes that clouds rent. What differs from NVIDIA's machine with the same GPUs, each figure with its source;
// rates and latencies as in presets.cpp.
//
// Layouts are transcribed from what the provider publishes of the node: which GPUs and NICs share a PCIe
// switch, which switches a CPU, PCIe's generation. "From memory": of the provider's page on the instance,
// where no file says it.
#include <array>

#include "topology/node_presets.h"
#include "topology/rates.h"
#include "topology/topology.h"

namespace paceline {
namespace {

using namespace units;

// `per_nic`: ports of a NIC, each of that rate.
void set_nics(NodeSpec& node, NetworkKind network, int nics, int per_nic, BytesPerSecond port) {
  node.network = network;
  node.nics = nics;
  node.nic_ports = per_nic;
  node.nic_bandwidth = port * per_nic;
  node.nic_latency = port <= kEdrRate ? kEdrLatency : kHdrLatency;
}

void set_host(NodeSpec& node, CpuVendor cpu, BytesPerSecond between_sockets) {
  node.cpu = cpu;
  node.socket_bandwidth = between_sockets;
}

// ---- AWS ----
//
// NICs, their rates and switches of p3dn, p5, p5en and p6-b200: ai-dynamo/nixl test/unit/utils/libfabric
// (libfabric_topology_test.cpp; topo/p5.48xl-topo.xml, topo/p5en.48xl-topo.xml: Amazon's dumps of hwloc). Which
// adapters NCCL sees as one: aws/aws-ofi-nccl src/nccl_ofi_topo.cpp, which joins those nearest to a GPU.

// What the clouds' K80 nodes have in common: four boards, each a switch of PCIe 3 with two GPUs (from memory
// of NVIDIA's board specification), and one adapter. Assumed, as no provider says it: 16 lanes for each board,
// all to the one socket that 32 hyper-threads are.
NodeSpec four_k80(BytesPerSecond ethernet) {
  NodeSpec node = node_preset("pcie-a100");
  node.gpu = "K80";
  node.compute_capability = 37;
  node.sockets = 1;
  node.pcie_bandwidth = kPcie3;
  node.gpu_direct = false;
  set_host(node, CpuVendor::intel, kBroadwell);
  set_nics(node, NetworkKind::tcp, 1, 1, ethernet);
  return node;
}

// 10 Gb/s in a placement group: Amazon's slides of March 2017 (speakerdeck.com/porcaro33,
// gpu-fpga-briefing-plus-march-plus-2017), which also say 8 GPUs, 32 hyper-threads and access from GPU to
// GPU. Not measured.
NodeSpec aws_p2_8xlarge() { return four_k80(10.0_Gbps); }

// Amazon's page on the instance (from memory): 8 V100 of 16 GB with NVLink, Broadwell, 25 Gb/s without EFA.
NodeSpec aws_p3_16xlarge() {
  NodeSpec node = node_preset("dgx1-v100");
  node.gpu_direct = false;
  set_nics(node, NetworkKind::tcp, 1, 1, 25.0_Gbps);
  return node;
}

// One adapter, below no switch; it is drawn below the first one, as a node in short has it. Skylake (from
// memory).
NodeSpec aws_p3dn() {
  NodeSpec node = node_preset("dgx1-v100");
  node.gpu = "V100-32GB";
  set_host(node, CpuVendor::intel, kSkylake);
  set_nics(node, NetworkKind::efa, 1, 1, 100.0_Gbps);
  return node;
}

// aws/aws-ofi-nccl topology/p4d-24xl-topo.xml and p4de-24xl-topo.xml: two CPUs of Intel's model 85, two
// switches each with two GPUs and one adapter, every link of PCIe 8 GT/s wide 16. 100 Gb/s: nixl, as above.
NodeSpec aws_p4de() {
  NodeSpec node = node_preset("dgx-a100");
  set_host(node, CpuVendor::intel, kSkylake);
  node.pcie_bandwidth = kPcie3;
  set_nics(node, NetworkKind::efa, 4, 1, 100.0_Gbps);
  return node;
}

NodeSpec aws_p4d() {
  NodeSpec node = aws_p4de();
  node.gpu = "A100-40GB";
  return node;
}

// Eight switches with a GPU and four adapters each. AMD Milan (from memory).
NodeSpec aws_p5() {
  NodeSpec node = node_preset("dgx-h100");
  set_host(node, CpuVendor::amd, kAmd);
  set_nics(node, NetworkKind::efa, 8, 4, 100.0_Gbps);
  return node;
}

// Four switches with two GPUs and four adapters each. Sapphire Rapids (from memory).
NodeSpec aws_p5en() {
  NodeSpec node = node_preset("dgx-h200");
  node.pcie_switches = 4;
  set_nics(node, NetworkKind::efa_v3, 8, 2, 200.0_Gbps);
  return node;
}

// Four switches with two GPUs (aws-ofi-nccl src/platform-aws.cpp says two of each) and two adapters each.
// Emerald Rapids (from memory).
NodeSpec aws_p6_b200() {
  NodeSpec node = node_preset("dgx-b200");
  node.pcie_switches = 4;
  set_nics(node, NetworkKind::efa_v3, 8, 1, 400.0_Gbps);
  return node;
}

// ---- Azure: Azure/azhpc-images topology/ndv4-topo.xml, ndv5-topo.xml (the latter for H200 too) ----
//
// Rates of the InfiniBand adapters, HDR and NDR, from memory.

// Four NUMA nodes of AMD's model 49, each with a switch of two GPUs and two adapters, PCIe 16 GT/s.
NodeSpec azure_nd_a100_v4() {
  NodeSpec node = node_preset("dgx-a100-40gb");
  node.sockets = 4;
  set_nics(node, NetworkKind::infiniband, 8, 1, 200.0_Gbps);
  return node;
}

NodeSpec azure_ndm_a100_v4() {
  NodeSpec node = azure_nd_a100_v4();
  node.gpu = "A100-80GB";
  return node;
}

// Two CPUs of Intel's model 143, each with four switches of a GPU and an adapter, PCIe 32 GT/s.
NodeSpec azure_nd_h100_v5() {
  NodeSpec node = node_preset("dgx-h100");
  set_nics(node, NetworkKind::infiniband, 8, 1, 400.0_Gbps);
  return node;
}

NodeSpec azure_nd_h200_v5() {
  NodeSpec node = azure_nd_h100_v5();
  node.gpu = "H200";
  return node;
}

// ---- Google Cloud ----
//
// NICs and rates: cloud.google.com/compute/docs/gpus/gpu-network-bandwidth; of A3 High and Mega the figures in
// stas00/ml-engineering network/README.md. PCIe switches and processors from memory: A3 High and Mega as OCP
// Grand Teton, two GPUs a switch.

// n1-standard-32 with 8 K80 (four boards): at most 32 Gb/s, which the page says of N1 with K80; 16 Gb/s in
// 2017 (from memory). Not measured.
NodeSpec gcp_n1_standard_32_k80x8() { return four_k80(32.0_Gbps); }

// Four NICs, one for two GPUs.
NodeSpec gcp_a3_highgpu_8g() {
  NodeSpec node = node_preset("dgx-h100");
  node.pcie_switches = 4;
  set_nics(node, NetworkKind::tcpx, 4, 1, 200.0_Gbps);
  return node;
}

NodeSpec gcp_a3_megagpu_8g() {
  NodeSpec node = gcp_a3_highgpu_8g();
  set_nics(node, NetworkKind::tcpxo, 8, 1, 200.0_Gbps);
  return node;
}

// Eight ConnectX-7 of 3,200 Gb/s together, each beside a GPU. Emerald Rapids.
NodeSpec gcp_a3_ultragpu_8g() {
  NodeSpec node = node_preset("dgx-h200");
  set_host(node, CpuVendor::intel, kEmeraldRapids);
  set_nics(node, NetworkKind::roce, 8, 1, 400.0_Gbps);
  return node;
}

NodeSpec gcp_a4_highgpu_8g() {
  NodeSpec node = node_preset("dgx-b200");
  set_nics(node, NetworkKind::roce, 8, 1, 400.0_Gbps);
  return node;
}

// ---- Oracle: oracle-quickstart/oci-hpc samples/gpu, playbooks/roles/rdma-interface/vars/main.yml ----
//
// Rates of the ports, 16 x 100 and 16 x 200 Gb/s, from memory; H100-topology.xml tells NCCL 180,000 Mb/s.

// topo-flattened-b4.xml: four NUMA nodes of AMD, each with a switch of two GPUs and two cards, PCIe 16 GT/s;
// main.yml: both functions of each card are in use.
NodeSpec oci_bm_gpu_b4_8() {
  NodeSpec node = node_preset("dgx-a100-40gb");
  node.sockets = 4;
  set_nics(node, NetworkKind::roce, 8, 2, 100.0_Gbps);
  return node;
}

// H100-topology.xml: two CPUs of Intel's model 143, each with four switches of a GPU and a card of two ports.
NodeSpec oci_bm_gpu_h100_8() {
  NodeSpec node = node_preset("dgx-h100");
  set_nics(node, NetworkKind::roce, 8, 2, 200.0_Gbps);
  return node;
}

constexpr std::array<NodePreset, 19> kCloudPresets{{{"aws-p2.8xlarge", aws_p2_8xlarge},
                                                    {"aws-p3.16xlarge", aws_p3_16xlarge},
                                                    {"aws-p3dn", aws_p3dn},
                                                    {"aws-p4d", aws_p4d},
                                                    {"aws-p4de", aws_p4de},
                                                    {"aws-p5", aws_p5},
                                                    {"aws-p5en", aws_p5en},
                                                    {"aws-p6-b200", aws_p6_b200},
                                                    {"azure-nd-a100-v4", azure_nd_a100_v4},
                                                    {"azure-nd-h100-v5", azure_nd_h100_v5},
                                                    {"azure-nd-h200-v5", azure_nd_h200_v5},
                                                    {"azure-ndm-a100-v4", azure_ndm_a100_v4},
                                                    {"gcp-a3-highgpu-8g", gcp_a3_highgpu_8g},
                                                    {"gcp-a3-megagpu-8g", gcp_a3_megagpu_8g},
                                                    {"gcp-a3-ultragpu-8g", gcp_a3_ultragpu_8g},
                                                    {"gcp-a4-highgpu-8g", gcp_a4_highgpu_8g},
                                                    {"gcp-n1-standard-32-k80x8", gcp_n1_standard_32_k80x8},
                                                    {"oci-bm.gpu.b4.8", oci_bm_gpu_b4_8},
                                                    {"oci-bm.gpu.h100.8", oci_bm_gpu_h100_8}}};

}  // namespace

std::span<const NodePreset> cloud_presets() { return kCloudPresets; }

}  // namespace paceline
