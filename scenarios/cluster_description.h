// What "cluster" of a scenario may say, and the GPU; see description.h.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/names.h"
#include "core/units.h"
#include "kernels/gpu.h"
#include "scenarios/limits.h"
#include "scenarios/scenario.h"
#include "topology/channel_graph.h"
#include "topology/cluster_spec.h"

namespace paceline {

struct Spot;

// A cluster in a file says the GPU too.
struct Cluster {
  ClusterSpec spec;
  GpuSpec gpu;
  std::vector<GpuKind> gpus;
  std::string nccl_graph;  // a file, read into spec.graphs
  int nodes = 0;           // spec.nodes; 0: left out
};

// What a GpuSpec says by precision: keys of their own.
struct Peaks {
  ByPrecision<FlopsPerSecond> rates{};
};
struct ProductEfficiency {
  ByPrecision<double> shares{};
};

// What the parts of a cluster mean together: fills in what follows, throws InputError where they clash.
void settle_cluster(Cluster&, const Spot&);  // settle_cluster.cpp

template <class V>
void describe(V& v, Peaks& s) {
  for (const Named<Precision>& each : kNames<Precision>) {
    v.key(each.name.data(), s.rates[static_cast<std::size_t>(each.value)], kComputeRate.absent_at_zero(),
          "Dense peak rate; leave it out where the GPU has no such mode.");
  }
}

template <class V>
void describe(V& v, ProductEfficiency& s) {
  for (const Named<Precision>& each : kNames<Precision>) {
    v.key(each.name.data(), s.shares[static_cast<std::size_t>(each.value)], above(0, 1).absent_at_zero(),
          "Share of the peak; left out: the preset's, or 0.9 in fp32, 0.68 in fp8, 0.77 in others.");
  }
}

template <class V>
void describe(V& v, GpuSpec& s) {
  const bool preset = v.preset(
      s,
      "Start from this GPU (see `paceline presets`): keys beside it replace its values. Left out: the keys "
      "must say what a GPU needs.");
  v.key("name", s.name, text(100), "What to call the GPU.", required_unless(preset));
  Peaks peaks{s.peak};
  v.key("peak", peaks, any(), "Dense peak rates by precision.", required_unless(preset));
  s.peak = peaks.rates;
  ProductEfficiency products{s.product_efficiency};
  v.key("product_efficiency", products, any(),
        "What large matrix products reach of the peak, which power limits; left out: as measured of the "
        "preset.",
        Need{Need::Kind::preset, {}});
  s.product_efficiency = products.shares;
  v.key("memory_bandwidth", s.memory_bandwidth, kBandwidth,
        "Peak bandwidth of the GPU's memory, as its data sheet has it.", required_unless(preset));
  v.key(
      "memory", s.memory, kSize.absent_at_zero(),
      "Size of the GPU's memory; left out: the preset's, or not known, and nothing is said about what fits.");
}

template <class V>
void describe(V& v, NvlinkPair& s) {
  v.key("a", s.a, between(0, 255), "One GPU of the node.", required());
  v.key("b", s.b, between(0, 255), "The other GPU.", required());
  v.key("count", s.count, between(1, 1000), "NVLinks between the two.");
}

template <class V>
void describe(V& v, NodeDevice& s) {
  v.key("kind", s.kind, any(), "What the device is.", required());
  v.key("name", s.name, text(200, 0), "What NCCL's file calls it: a bus id, \"mlx5_0\".");
  v.key("bandwidth", s.bandwidth, kBandwidth.absent_at_zero(),
        "nic: bandwidth per direction of its port to the network.");
}

template <class V>
void describe(V& v, NodeCable& s) {
  v.key("a", s.a, between(0, 1500), "A device, by its place in `devices`, counted from 0.", required());
  v.key("b", s.b, between(0, 1500), "The device at the other end.", required());
  v.key("kind", s.kind, any(), "What the cable is.", required());
  v.key("bandwidth", s.bandwidth, kBandwidth, "Its bandwidth per direction.", required());
}

// What spreads a node's devices evenly; absent where they are listed one by one.
template <class V>
void describe_even_node(V& v, NodeSpec& s, const Need& need, bool listed) {
  v.key("wiring", s.wiring, any(),
        "How NVLink joins the GPUs: all through NVSwitch, a mesh of pairs, or none, where PCIe is all they "
        "have.",
        need);
  const bool none = s.wiring == NvlinkWiring::none && !v.lists_all() && !listed;
  const bool mesh = s.wiring == NvlinkWiring::mesh || v.lists_all() || listed;
  v.key("nvlink_bandwidth", s.nvlink_bandwidth, kBandwidth,
        "Bandwidth per direction: nvswitch: of all NVLinks of one GPU together; mesh: of one link.",
        none ? absent("the wiring is none") : need);
  v.key("mesh", s.mesh, list(1, 10'000), "mesh alone: the pairs of GPUs that NVLinks join.",
        mesh ? need : absent("the wiring is no mesh"));
  v.key("pcie_bandwidth", s.pcie_bandwidth, kBandwidth,
        "Bandwidth per direction of the links GPU - PCIe switch, NIC - PCIe switch and PCIe switch - CPU. "
        "NCCL counts 12, 24, 48 and 96 GB/s for 16 lanes of PCIe 3 to 6, by powers of two for fewer; up to a "
        "third more, the raw rate, is that to its search, too. Presets have 53 GB/s for PCIe 5.",
        need);
  v.key("pcie_switches", s.pcie_switches, between(1, 256),
        "PCIe switches; GPUs and NICs are spread over them evenly.", need);
  v.key("sockets", s.sockets, between(1, 256), "CPU sockets; PCIe switches are spread over them evenly.",
        need);
  const bool sockets = s.sockets > 1 || v.lists_all() || listed;
  v.key("socket_bandwidth", s.socket_bandwidth, kBandwidth,
        "Bandwidth per direction of the link between two CPU sockets.",
        sockets ? need : absent("there is one socket"));
}

template <class V>
void describe(V& v, NodeSpec& s) {
  const bool preset = v.preset(
      s,
      "Start from this node (see `paceline presets`): keys beside it replace its values. Left out: the keys "
      "must say what a node needs.");
  const Need need = required_unless(preset), as_preset{Need::Kind::preset, {}};
  v.key("name", s.name, text(100), "What to call the node.", need);
  const std::string gpu_of_preset = s.gpu;
  v.key("gpu", s.gpu, text(100),
        "Its GPU, by the name of a preset; not needed where the cluster says the GPU.", as_preset);
  const std::vector<std::string> gpus = gpu_preset_names();
  if (preset && s.gpu != gpu_of_preset && std::ranges::count(gpus, s.gpu) > 0) {
    s.compute_capability = 0;  // the preset's is that of its own GPUs
  }
  v.key("gpus", s.gpus, between(1, kMostGpusOfNode), "GPUs in a node.", need);
  v.key("devices", s.devices, list(0, 1500),
        "The node's devices one by one, in place of the keys that spread them evenly.", as_preset);
  v.key("cables", s.cables, list(0, 20'000), "What joins the devices.", as_preset);
  const bool listed = !s.devices.empty() && !v.lists_all();
  describe_even_node(v, s, listed ? absent("the devices are listed") : need, listed);
  const bool nvlink = s.wiring != NvlinkWiring::none || v.lists_all() || listed;
  v.key("nvlink_latency", s.nvlink_latency, kDuration, "Latency of one NVLink.",
        nvlink ? need : absent("the wiring is none"));
  v.key("pcie_latency", s.pcie_latency, kDuration, "Latency of one PCIe link.", need);
  const bool sockets = s.sockets > 1 || v.lists_all() || listed;
  v.key("socket_latency", s.socket_latency, kDuration, "Latency of the link between two CPU sockets.",
        sockets ? need : absent("there is one socket"));
  v.key("nics", s.nics, between(0, 256), "Network cards in a node.", need);
  const bool nics = s.nics > 0 || v.lists_all();
  v.key(
      "nic_ports", s.nic_ports, between(1, 16),
      "Ports of one NIC that NCCL uses as one device: 2 of a dual-port card (NCCL before 2.20 takes each by "
      "itself), 4 where a plugin groups four adapters of one GPU (EFA on p5).",
      as_preset);
  v.key("nic_bandwidth", s.nic_bandwidth, kBandwidth,
        "Bandwidth per direction of one NIC, all its ports together, and of every link of the fabric.",
        nics ? need : absent("there is no NIC"));
  v.key("nic_latency", s.nic_latency, kDuration,
        "Latency from the NIC to its switch, the NIC's own share included.",
        nics ? need : absent("there is no NIC"));
  v.key("network", s.network, any(),
        "What carries messages between nodes: what a hop costs, which protocols NCCL may run, what its tuner "
        "is told. efa is that of AWS up to p5, efa_v3 that of p5en, p6 and g7e.",
        as_preset);
  v.key("gpu_direct", s.gpu_direct, any(),
        "NICs read and write the memory of GPUs (GPUDirect RDMA); false, and always with tcp: all of the "
        "network passes through the memory of the GPU's CPU.");
  v.key("p2p_level", s.p2p_level, any(),
        "Up to which path GPUs read each other's memory over PCIe, as NCCL_P2P_LEVEL has it: loc (never, as "
        "with "
        "NCCL_P2P_DISABLE=1), pix (below one PCIe switch), pxb (below several), phb (past their CPU), sys "
        "(past "
        "several CPUs). Others go through the host's memory. by_cpu: NCCL_P2P_LEVEL isn't set: pxb, and sys "
        "between "
        "two GPUs in use on CPUs of AMD. With NVLink at least pxb.");
  v.key("compute_capability", s.compute_capability, between(1, 999).absent_at_zero(),
        "Of the GPUs, ten times CUDA's: 70 is Volta, 80 Ampere, 90 Hopper, 100 Blackwell; NCCL's choices "
        "depend on it. Left out: the GPU's where that is a preset, else not known.",
        as_preset);
  v.key("cpu", s.cpu, any(), "Who made the CPUs; NCCL's choices depend on it.", as_preset);
  v.settle([&](const Spot&) {
    if (s.wiring != NvlinkWiring::mesh) {
      s.mesh.clear();
    }
    s.gpu_direct = s.gpu_direct && s.network != NetworkKind::tcp;  // NCCL's sockets know host memory alone
  });
}

template <class V>
void describe(V& v, FabricSpec& s) {
  v.key("kind", s.kind, any(), "The shape of the network between the nodes.");
  v.key("nodes_per_leaf", s.nodes_per_leaf, between(1, 100'000),
        "leaf_spine, fat_tree: nodes below one leaf switch; rail_optimized: nodes of a pod.");
  v.key("oversubscription", s.oversubscription, between(1, 1000),
        "Bandwidth into a leaf over bandwidth out of it: 4 means 4:1. Not for single_switch.");
  v.key("leaves_per_pod", s.leaves_per_pod, between(1, 100'000),
        "fat_tree: leaves below one group of spines.");
  v.key("switch_latency", s.switch_latency, kDuration,
        "Latency of a link between two switches, port to port.");
  v.key("placement", s.placement, any(),
        "packed: consecutive nodes of the job share a leaf; striped: they sit on different leaves.");
  v.key(
      "routing", s.routing, any(),
      "Which spine a flow takes: static: the destination NIC's number modulo the spines (InfiniBand); ecmp: "
      "by a hash of both NICs, so that flows collide.");
  v.key("routing_seed", s.routing_seed, between(0, 18446744073709551615.0),
        "Seed of ecmp's hash: another one, other collisions.");
  v.key("sharp", s.sharp, any(),
        "The switches reduce (SHARP), so that NCCL may choose its CollNet algorithms.");
}

template <class V>
void describe(V& v, DegradedLink& s) {
  v.key("from", s.from, text(100), "A device, such as \"node3/nic0\", \"node0/gpu2\", \"leaf1\".",
        required());
  v.key("to", s.to, text(100), "The device at the link's other end; left out: every link of `from`.");
  v.key("extra_latency", s.extra_latency, kDuration,
        "Added to the latency of each link, in both directions: without `to`, a message through the device "
        "crosses two of its links and is later by twice as much.");
  v.key("bandwidth_factor", s.bandwidth_factor, above(0, 1),
        "What is left of the bandwidth, in both directions: 0.25 is a quarter. Required without an "
        "`extra_latency`.",
        s.extra_latency || v.lists_all() ? Need{} : required());
}

template <class V>
void describe(V& v, NodeChannel& s) {
  v.key("gpus", s.gpus, between(0, 255).length(1, kMostGpusOfNode), "The node's GPUs in the channel's order.",
        required());
  v.key("nic_in", s.nic_in, between(-1, 255), "The NIC through which the channel enters a node; -1: none.");
  v.key("nic_out", s.nic_out, between(-1, 255), "The NIC through which it leaves; -1: none.");
}

template <class V>
void describe(V& v, ChannelGraph& s) {
  v.key("pattern", s.pattern, any(), "What NCCL calls the graph's shape.", required());
  v.key("cross_nic", s.cross_nic, between(0, 2), "2: odd nodes swap the two channels of a pair.");
  v.key("bw_intra", s.bw_intra, between(0, 1e6), "GB/s of one channel inside a node, as NCCL counts.",
        required());
  v.key("bw_inter", s.bw_inter, between(0, 1e6), "GB/s of one channel between nodes.", required());
  v.key("type_intra", s.type_intra, any(), "The longest kind of path inside a node.", required());
  v.key("type_inter", s.type_inter, any(), "The longest kind of path to a NIC.", required());
  v.key("latency_inter", s.latency_inter, between(0, 1e6), "Microseconds that the network device states.");
  v.key("same_channels", s.same_channels, any(), "All channels have the same order.");
  v.key("channels", s.channels, list(0, 64), "What the search found.", required());
}

template <class V>
void describe(V& v, ChannelGraphs& s) {
  v.key("ring", s.ring, any(), "What rings run on.", required());
  v.key("tree", s.tree, any(), "What trees run on.", required());
  v.key("collnet_chain", s.collnet_chain, any(), "What CollNet chains run on.", required());
  v.key("collnet_direct", s.collnet_direct, any(), "What CollNet direct runs on.", required());
  v.key("nvls", s.nvls, any(), "What NVLS and NVLSTree run on.", required());
  v.key("channels", s.channels, between(0, 64),
        "How many channels rings and trees run on; 0: as many as NCCL makes of these graphs, also for NVLS.",
        required());
  v.key("nvls_channels", s.nvls_channels, between(0, 64),
        "How many channels NVLS runs on; 0 where `channels` is.", required());
}

template <class V>
void describe(V& v, GpuKind& s) {
  v.key("nodes", s.nodes, between(1, kMostRanks), "How many nodes have them.", required());
  v.key("node", s.node, any(),
        "What these nodes are, with their GPU, as the cluster's `node` says for all; left out: that.");
  v.key("gpu", s.gpu, any(),
        "The GPU, by the name of a preset or by its numbers, of nodes that are the cluster's `node` but for "
        "it; left out: the node's.",
        {Need::Kind::preset, {}});
  v.key("measured", s.measured, any().length(0, 100),
        "What one of them reaches, as training.measured says for all.");
}

template <class V>
void describe(V& v, Cluster& s) {
  v.key("node", s.spec.node, any(),
        "What a node is: the name of a preset, or its parts. Left out only where each of the `gpus` has a "
        "`node`: the first one's.",
        {Need::Kind::preset, {}});
  v.key("nodes", s.nodes, between(1, kMostRanks).absent_at_zero(),
        "How many nodes the job has; left out: those of the `gpus`, else 1.");
  v.key("job_nodes", s.spec.job_nodes, between(1, kMostRanks).absent_at_zero(),
        "Nodes that this job has, the first ones; left out: all. The others run other jobs.");
  v.key("gpus_per_node", s.spec.gpus_per_node, between(1, kMostGpusOfNode).absent_at_zero(),
        "GPUs of each node that the job uses, the first ones; left out: all.");
  v.key("gpu", s.gpu, any(), "The GPU, by the name of a preset or by its numbers; left out: the node's.",
        {Need::Kind::preset, {}});
  v.key("gpus", s.gpus, list(0, 1000),
        "Where there are several kinds of GPU, or of node: those of all nodes, one kind after the other. All "
        "nodes have equally many GPUs in use, and one kind of network.");
  v.key("fabric", s.spec.fabric, any(), "The network between the nodes.");
  v.key("degraded_links", s.spec.degraded, list(0, 10'000), "Links that are slower than they should be.");
  v.key("nccl_graph", s.nccl_graph, text(4000),
        "A file that NCCL wrote (NCCL_GRAPH_DUMP_FILE): its rings and trees instead of a search; relative to "
        "this file.");
  v.key("graphs", s.spec.graphs, any(),
        "What `nccl_graph` would say, written out as a result has it; give one of the two or none.");
  v.settle([&](const Spot& spot) { settle_cluster(s, spot); });
}

// A node from a file that NCCL wrote.
struct NodeOfTopologyFile {
  std::string nccl_topology;
  NodeSpec node;  // the keys that the file can't say
};
template <class V>
void describe(V& v, NodeOfTopologyFile& s) {
  NodeSpec& node = s.node;
  v.key("nccl_topology", s.nccl_topology, text(4000),
        "A file that NCCL wrote (NCCL_TOPO_DUMP_FILE) or reads (NCCL_TOPO_FILE); relative to this file.",
        required());
  v.key("name", node.name, text(100, 0), "What to call the node.");
  v.key("gpu", node.gpu, text(100, 0), "Its GPU, by the name of a preset; left out: as the file lets know.");
  v.key("compute_capability", node.compute_capability, between(1, 999).absent_at_zero(),
        "Of the GPUs, where the file doesn't say.");
  v.key("nic_latency", node.nic_latency, between(0, kMostSeconds).absent_at_zero(),
        "Latency from the NIC to its switch, the NIC's own share included; left out: EDR's for "
        "a bandwidth up to EDR's, else HDR's.");
  v.key("p2p_level", node.p2p_level, any(),
        "Up to which path GPUs are peers over PCIe, as NCCL_P2P_LEVEL has it.");
}

}  // namespace paceline
