// What a scenario file may say: one description per struct, for reading, writing and the schema alike.
//
// describe(v, s) tells a visitor v every key of struct s:
//   v.key(name, member, limits, one line of documentation, need)
//   v.preset(key, s, ...)    s may start from a named preset; true where it does (or could)
//   v.settle(f)              what follows from what was read; f(spot) runs in the reader alone
//   v.lists_all()            every key is asked for, whatever s holds
// Visitors: KeyNames, Reader (reader.h), Writer (writer.h), SchemaWriter (schema_writer.h).
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/names.h"
#include "kernels/gpu.h"
#include "kernels/model.h"
#include "scenarios/faults_description.h"
#include "scenarios/json.h"
#include "scenarios/limits.h"
#include "scenarios/quantities.h"
#include "scenarios/scenario.h"
#include "scenarios/step_spreads.h"
#include "sim/collective/costs.h"
#include "sim/training.h"
#include "topology/topology.h"

namespace paceline {

class FileTexts;  // files.h

inline constexpr std::int64_t kMostParameters = 1'000'000'000'000'000;
inline constexpr std::size_t kMostTensors = 100'000;

// Where the reader is: a JSON pointer, and what relative paths in this file start from.
struct Spot {
  std::string place;
  std::string folder;
  int files_above = 0;         // files that named this one
  FileTexts* files = nullptr;  // what was read before is taken from here; none: files are read anew
};

// A cluster in a file says the GPU too.
struct Cluster {
  ClusterSpec spec;
  GpuSpec gpu;
  std::vector<GpuKind> gpus;
  std::string nccl_graph;  // a file, read into spec.graphs
  int nodes = 0;           // spec.nodes; 0: left out
};
// The whole file; `cluster` stands for the scenario's cluster and gpu.
struct ScenarioFile {
  Scenario scenario;
  Cluster cluster;
};

// Other ways to say a model. sequence: tokens of a sample; 0: the model's own.
struct ModelPreset {
  std::string preset;
  std::int64_t sequence = 0;
  Bytes input_bytes{};
};
struct ModelFile {
  std::string file, name;
  std::int64_t sequence = 0;
};
struct ModelOfTransformer {
  std::string name;
  TransformerSpec transformer;
  std::int64_t most_tokens = 0;
};
// What a GpuSpec says by precision: keys of their own.
struct Peaks {
  ByPrecision<FlopsPerSecond> rates{};
};
struct ProductEfficiency {
  ByPrecision<double> shares{};
};

// What a cost parameter may be, by its name.
struct CostForm {
  const Dimension* dimension;  // nullptr: a ratio
  const Limits& limits;
};
CostForm form_of_cost(std::string_view name);
double read_cost(const Json&, std::string_view name, const Spot&);
Json cost_json(std::string_view name, double value);

// What the parts of a cluster or scenario mean together: fills in what follows, throws InputError where they
// clash.
void settle_cluster(Cluster&, const Spot&);  // settle_cluster.cpp
void settle_scenario(ScenarioFile&, const Spot&);
void settle_pytorch(TrainingSpec&, const Spot&);  // before what the file says of collectives
void require_ascending(const std::vector<Correction>&, const Spot&);
void require_channels(const CollectiveSpec&, const Spot&);
// A rate for each batch; layer_times hold for one (measured_rates.cpp).
void require_distinct_batches(const TrainingSpec&, const Spot&);

// ---- the GPU and the cluster ----

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
  v.key("gpu", s.gpu, text(100),
        "Its GPU, by the name of a preset; not needed where the cluster says the GPU.", as_preset);
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
        s.extra_latency.value > 0 || v.lists_all() ? Need{} : required());
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

// ---- the model ----

template <class V>
void describe(V& v, Layer& s) {
  v.key("name", s.name, text(200), "The layer's name.", required());
  v.key("kind", s.kind, any(), "What the layer does; it decides its memory traffic and launches.");
  v.key("parameters", s.parameters, between(1, 1e14).length(0, 1000),
        "Elements of each parameter tensor, in registration order.", required());
  v.key("forward_macs", s.forward_macs, between(0, 1e18),
        "Multiply-accumulates of one sample's forward pass.", required());
  v.key("output_elements", s.output_elements, between(0, 1e14),
        "Elements that the layer writes for one sample.", required());
}

inline constexpr Limits kTokens = between(1, 1e6);

template <class V, class T>
void describe_input_bytes(V& v, T& s) {
  v.key("input_bytes", s.input_bytes, kSize.absent_at_zero(),
        "Bytes of one sample that are copied from the host to its GPU, \"602112 B\" for a 224x224 image in "
        "fp32; left out: none. Only data_parallel asks for them.");
}
template <class V>
void describe_source(V& v) {
  std::string source;
  v.key("source", source, text(10'000, 0), "Where the numbers come from; not used.");
}
template <class V>
void describe(V& v, Model& s) {
  v.key("name", s.name, text(200), "What to call the model.", required());
  v.key("input", s.input, text(200, 0), "What one sample is: \"224x224 image\"; for pages alone.");
  describe_source(v);
  v.key("layers", s.layers, list(1, 10'000),
        "In the order in which the framework registers their parameters.", required());
  v.key("tokens", s.tokens, kTokens.absent_at_zero(),
        "Tokens of a sample, for which the layers' work holds: where it is said, a scenario may ask for "
        "another `sequence`.");
  v.key("most_tokens", s.most_tokens, kTokens.absent_at_zero(),
        "The longest sequence that it has positions for, or that its attention sees all of.");
  describe_input_bytes(v, s);
}

template <class V>
void describe(V& v, TransformerSpec& s) {
  const auto size = [](double most) { return between(1, most); };
  v.key("layers", s.layers, size(500), "Blocks of attention and feed-forward.");
  v.key("hidden", s.hidden, size(100'000), "Width of the residual stream.");
  v.key("heads", s.heads, size(100'000), "Attention heads.");
  v.key("key_value_heads", s.key_value_heads, size(100'000).absent_at_zero(),
        "Heads of keys and values (grouped-query attention); left out: as many as heads.");
  v.key("head_dim", s.head_dim, size(100'000).absent_at_zero(), "Width of a head; left out: hidden / heads.");
  v.key("feed_forward", s.feed_forward, size(1e6).absent_at_zero(),
        "Inner width of the feed-forward; left out: 4 * hidden.");
  v.key("gated_feed_forward", s.gated_feed_forward, any(), "Three matrices (SwiGLU) instead of two.");
  v.key("fused_qkv", s.fused_qkv, any(), "One matrix for queries, keys and values instead of three.");
  v.key("bias", s.bias, any(), "Linear layers and norms carry a bias.");
  v.key("qkv_bias", s.qkv_bias, any(), "Queries, keys and values carry one where `bias` is false (Qwen2).");
  v.key("qk_norm", s.qk_norm, any(), "A norm of each head's queries, and one of its keys (Qwen3).");
  v.key("vocabulary", s.vocabulary, size(1e7), "Tokens of the vocabulary.");
  v.key("sequence", s.sequence, kTokens, "Tokens of a sample.");
  v.key("learned_positions", s.learned_positions, any(), "A table of position embeddings.");
  v.key("tied_embeddings", s.tied_embeddings, any(), "The output projection shares the token embedding.");
}

template <class V, class T>
void describe_sequence(V& v, T& s) {
  v.key("sequence", s.sequence, kTokens.absent_at_zero(),
        "Tokens of a sample; left out: the model's own number.");
}
template <class V>
void describe(V& v, ModelPreset& s) {
  v.key("preset", s.preset, text(100), "A built-in model's name.", required());
  describe_sequence(v, s);
  describe_input_bytes(v, s);
}
template <class V>
void describe(V& v, ModelFile& s) {
  v.key("file", s.file, text(4000),
        "A JSON file, relative to this one: a model as it may stand here, with layers or a transformer; or a "
        "config.json of Hugging Face (gemma, gpt2, llama, mistral, qwen2, qwen3), with `sequence` beside it.",
        required());
  v.key("name", s.name, text(200), "What to call the model; left out: as the file has it.");
  describe_sequence(v, s);
}
template <class V>
void describe(V& v, ModelOfTransformer& s) {
  v.key("name", s.name, text(200), "What to call the model; left out: transformer.");
  describe_source(v);
  v.key("transformer", s.transformer, any(), "A decoder stack by its dimensions.", required());
  v.key("most_tokens", s.most_tokens, kTokens.absent_at_zero(),
        "The longest sequence that it has positions for, or that its attention sees all of.");
}

// ---- training ----

template <class V>
void describe(V& v, Distribution& s) {
  const bool preset = v.preset(s,
                               "A spread of step times that was measured, over its mean (derived from MLPerf "
                               "v0.7 logs of BERT on DGX A100, not verified by MLCommons).");
  v.key("distribution", s.kind, any(), "The shape; every distribution has mean 1.", required_unless(preset));
  const bool values = s.kind == DistributionKind::empirical;
  const bool cv = !values && s.kind != DistributionKind::none;
  const std::string kind = "the distribution is " + std::string(name_of(s.kind));
  const double most = s.kind == DistributionKind::normal        ? 0.5
                      : s.kind == DistributionKind::exponential ? 1
                                                                : 3;
  v.key(
      "cv", s.cv, between(0, most),
      "Coefficient of variation, standard deviation over mean: at most 0.5 for normal (cut at 0, so that its "
      "mean is 1.004 there), 1 for exponential, 3 for lognormal and gamma.",
      cv || v.lists_all() ? required_unless(v.lists_all()) : absent(kind));
  v.key("values", s.values, between(1e-6, 1e6).length(1, 1'000'000),
        "Observed times or factors, drawn with equal probability; divided by their mean.",
        values || v.lists_all() ? required_unless(preset || v.lists_all()) : absent(kind));
}

template <class V>
void describe(V& v, RooflineSpec& s) {
  v.key("compute_efficiency", s.compute_efficiency, above(0, 1),
        "Share of its peak that a large kernel reaches; left out: the GPU's `product_efficiency`.");
  v.key("half_work", s.half_work, between(0, 1),
        "Work at which a kernel reaches half of that, as its time at peak: smaller kernels leave the GPU "
        "idle.");
  v.key("memory_efficiency", s.memory_efficiency, above(0, 1),
        "Share of its memory bandwidth that a kernel reaches.");
  v.key("memory_start", s.memory_start, between(0, 1),
        "What a kernel that memory bounds takes beside its bytes: until all of it runs, and until its last "
        "part has ended.");
  v.key("quantise_efficiency", s.quantise_efficiency, above(0, 1),
        "Of the memory's bandwidth, of kernels that quantise; left out: memory_efficiency.");
  v.key("dequantise_efficiency", s.dequantise_efficiency, above(0, 1),
        "The same of kernels that unpack and add; left out: memory_efficiency.");
  v.key("top_k_efficiency", s.top_k_efficiency, above(0, 1),
        "The same of selection, for a pass over the values.");
  v.key("conv_efficiency", s.conv_efficiency, above(0, 1),
        "Share of the peak that large convolutions reach with tensor cores, if other kernels reach as much; "
        "without them as other kernels.");
  v.key("kernels", s.kernels, any(),
        "compiled: what surrounds products and norms is fused, as by torch.compile, XLA, or Megatron's "
        "kernels; eager: each operation is a kernel, as in PyTorch under autocast.");
  v.key("memory_format", s.memory_format, any(),
        "How images lie in memory. PyTorch's default is channels_first, in which tensor cores have "
        "convolutions' inputs and outputs transposed.");
  v.key("attention_passes", s.attention_passes, between(0, 1000),
        "What attention takes beside its products, forward, as passes over its output.");
  v.key("norm_passes", s.norm_passes, between(0, 100),
        "How often a batch norm's output crosses memory forward, with the elementwise work around it; left "
        "out: 5, of eager kernels in bf16 9.");
  v.key("layer_norm_passes", s.layer_norm_passes, between(0, 1000),
        "The same of a layer norm or RMSNorm; left out: 20, of eager kernels 45.");
}

template <class V>
void describe(V& v, ExplicitLayerTime& s) {
  v.key("forward", s.forward, kDuration, "Its forward pass of a whole batch.", required());
  v.key("backward", s.backward, kDuration, "Its backward pass of a whole batch.", required());
}

template <class V>
void describe(V& v, JoinSpec& s) {
  v.key(
      "batches", s.batches, between(1, 100'000).length(1, 1'000'000),
      "How many batches each GPU has: one that has finished adds zeros to the others' reductions. The run is "
      "as long as the longest has batches.",
      required());
}

template <class V>
void describe(V& v, DdpSpec& s) {
  v.key("reduction", s.reduction, any(),
        "Whose rule says when gradients are reduced, and in which pieces: overlapped with backward "
        "(pytorch_ddp, apex_ddp, megatron) or when it has ended (apex_ddp_delayed, horovod_0.19, "
        "horovod_0.21, mxnet_horovod_group, after_backward). Horovod's background thread, which reduces "
        "while backward runs, is the strategy horovod. unknown: as pytorch_ddp, and the interval of a "
        "profile holds after_backward too.");
  v.key("bucket_cap", s.bucket_cap, kSize,
        "DDP's bucket_cap_mb, Apex's message_size, Horovod's fusion threshold: a gradient bucket is closed "
        "when it holds as much; left out: the reduction's, 25 MiB for pytorch_ddp.");
  v.key("wire", s.wire, any(),
        "Number format of gradients in all-reduces, where it isn't that of `gradients` (a compression hook "
        "that casts).");
  v.key("first_bucket", s.first_bucket, kSize,
        "The same for the first bucket; left out: 1 MiB, or, where bucket_cap is given and PyTorch is 2.4 or "
        "newer, bucket_cap.");
  v.key("gradient_as_bucket_view", s.gradient_as_bucket_view, any(),
        "Gradients live in the buckets: no copies.");
  v.key("broadcast_buffers", s.broadcast_buffers, any(),
        "Rank 0 sends its buffers (batch norm's statistics) before each forward pass.");
  v.key("find_unused_parameters", s.find_unused_parameters, any(),
        "Search for unused parameters before backward.");
  v.key("static_graph", s.static_graph, any(),
        "The graph stays as it is: the first step reduces when backward has ended, and none searches.");
  v.key("join", s.join, any(), "Inputs that end at different steps; left out: all end together.");
}

template <class V>
void describe(V& v, FsdpSpec& s) {
  v.key(
      "units", s.units, any(),
      "What is gathered at once. \"blocks\": consecutive layers whose names agree up to their first number, "
      "such as layers.7; layers in none are the root's, which is gathered first and kept.");
  v.key("reduce_precision", s.reduce_precision, any(),
        "Number format of gradients in the reduce-scatter (reduce_dtype); left out: that of `gradients`.");
  v.key("reshard_after_forward", s.reshard_after_forward, any(),
        "Free a unit's parameters after its forward pass, and gather them again for its backward pass; a "
        "number: from that many ranks, which divides the shard group.");
  v.key("shard_group", s.shard_group, any(),
        "Hybrid sharding: which ranks share one copy of the parameters, while gradients are all-reduced "
        "across such groups; left out: all.");
}

template <class V>
void describe(V& v, ZeroSpec& s) {
  v.key(
      "stage", s.stage, between(1, 3),
      "What is sharded: 1: the optimizer's state, with ddp's options; 2: gradients too, with fsdp's options, "
      "reshard_after_forward false; 3: parameters too, reshard_after_forward true.");
  v.key("reduce_scatter", s.reduce_scatter, any(),
        "Stage 1: buckets are reduce-scattered instead of all-reduced: a GPU gets the sums of what its "
        "optimizer updates, for half the bytes (Megatron-Core's use_distributed_optimizer, with ddp's "
        "reduction megatron).");
  v.key("overlap_gather", s.overlap_gather, any(),
        "Stage 1: updated parameters are gathered bucket by bucket beside the next forward pass, instead of "
        "all before it (Megatron-Core's overlap_param_gather).");
}

template <class V>
void describe(V& v, BalanceSpec& s) {
  v.key("window", s.window, between(1, 1e6), "Steps over which speeds are measured.");
  v.key("limit", s.limit, between(0, kMostBytes).absent_at_zero(),
        "Memory that a GPU's batch may need; left out: what the GPU has.");
}

template <class V>
void describe(V& v, ServersSpec& s) {
  v.key("count", s.count, between(1, 10'000), "How many there are.");
  v.key(
      "placement", s.placement, any(),
      "own_nodes: each on a node of its own, like the cluster's, behind all others; with_workers: on CPUs of "
      "the job's nodes, one node after the other.");
  v.key("memory_bandwidth", s.memory_bandwidth, kBandwidth,
        "Of a server's host: what summing gradients and updating parameters read and write goes by it. "
        "Default: four channels of DDR4-2400, one socket.");
}

template <class V>
void describe(V& v, ParameterServerSpec& s) {
  v.key("servers", s.servers, any(), "The servers, and where they stand.");
  v.key(
      "consistency", s.consistency, any(),
      "When a worker is answered. sync: when the gradients of all workers are in the update; async: when its "
      "own are; {\"stale\": s}: when its own are, and no worker has pushed more than s times less often.");
  v.key("backup", s.backup, between(0, kMostRanks),
        "With sync: an update takes the first gradients, of so many workers less than all; later ones of the "
        "same step are dropped.");
  v.key("partition", s.partition, kSize,
        "Gradients are cut into partitions of at most this size, each for the next server (BytePS: \"4.096 "
        "MB\"); left out: whole tensors, each for the server that has least.");
  v.key("overlap", s.overlap, any(),
        "none: push after the backward pass, pull before the forward pass; by_tensor: push when a gradient "
        "exists, pull before the layer that needs it; priority: likewise, and of what waits, front layers "
        "first.");
  v.key("node", s.node, any(),
        "each: every GPU pushes and pulls for itself (tf_cnn_benchmarks' parameter_server on one node, with "
        "one server with_workers); aggregate: gradients of a node are summed on one of its GPUs (each tensor "
        "on the next), which pushes, pulls and copies for all (its distributed_replicated).");
}

template <class V>
void describe(V& v, DataParallelSpec& s) {
  v.key("transfers", s.transfers, any(),
        "How parameters get to the other GPUs before each forward pass, and gradients back: with nccl's "
        "broadcast and reduce, or copies from GPU to GPU, one after the other (a PyTorch without NCCL).");
}

template <class V>
void describe(V& v, MirroredSpec& s) {
  v.key("cross_device_ops", s.cross_device_ops, any(),
        "Who reduces gradients. nccl: NcclAllReduce, when the last gradient exists (tf_cnn_benchmarks' "
        "replicated with NCCL: num_packs 0); reduction_to_one_device: copies to the first GPU, which sums "
        "and copies to all; copy_to_devices: likewise, each gradient to the next GPU (tf_cnn_benchmarks' "
        "replicated without NCCL); hierarchical_copy: HierarchicalCopyAllReduce, within halves of the GPUs "
        "and between two of them; multi_worker: MultiWorkerMirroredStrategy's packs, each when its last "
        "gradient exists; nccl_then_ring: tf_cnn_benchmarks' distributed_all_reduce with nccl/xring, each "
        "gradient in the nodes, in a ring of their first GPUs, and back.");
  v.key("num_packs", s.num_packs, between(0, 10'000),
        "Of nccl and hierarchical_copy: all gradients are joined and cut into as many equal packs; 0: each "
        "gradient is reduced by itself, when it exists; left out: 1.");
  v.key("bytes_per_pack", s.bytes_per_pack, between(0, kMostBytes),
        "Of multi_worker: a pack is closed when it holds more; left out, or 0: one pack.");
}

template <class V>
void describe(V& v, HorovodSpec& s) {
  v.key("version", s.version, text(20),
        "The Horovod whose rules hold: \"0.9\" to \"0.28\". Up to 0.20 the threshold is 64 MiB and the cycle "
        "5 ms, from 0.21 on 128 MiB and 1 ms; up to 0.22 the background thread waits until gradients exist.");
  v.key("fusion_threshold", s.fusion_threshold, between(0, kMostBytes),
        "HOROVOD_FUSION_THRESHOLD: tensors that are queued are reduced together up to this size; 0: each "
        "alone. Left out: as the version has it.");
  v.key("cycle_time", s.cycle_time, between(0, 100),
        "HOROVOD_CYCLE_TIME: how often ranks agree on what is queued everywhere. Left out: as the version "
        "has it.");
  v.key("negotiation", s.negotiation, between(1e-6, 10),
        "What agreeing takes, beyond the wait for the last rank: an all-reduce of some bytes among hosts.");
  v.key("fp16", s.fp16, any(),
        "Compression.fp16: gradients are cast before they are queued, and back afterwards.");
  v.key("async_completion", s.async_completion, any(),
        "HOROVOD_ENABLE_ASYNC_COMPLETION: the host goes on to the optimizer, and its stream alone waits.");
  v.key(
      "hierarchical", s.hierarchical, any(),
      "HOROVOD_HIERARCHICAL_ALLREDUCE, since 0.15: NCCL reduces and scatters in each node, MPI reduces "
      "between hosts what is copied there, NCCL gathers in each node; the background thread waits for MPI.");
  v.key("torus", s.torus, any(),
        "HOROVOD_TORUS_ALLREDUCE, since 0.26: likewise, but NCCL reduces between nodes, and nothing is "
        "copied to hosts.");
  v.key("memory_bandwidth", s.memory_bandwidth, between(1e6, 1e15),
        "Of a CPU's memory, which hierarchical's copies between GPUs and host share.");
}

template <class V>
void describe(V& v, LocalSgdSpec& s) {
  v.key("period", s.period, between(1, 100'000),
        "Parameters are averaged over all GPUs after every so many steps; a run's steps are rounded up to "
        "whole periods.");
  v.key("warm_up", s.warm_up, between(0, 1e12),
        "Steps of DDP before them: a run's warm-up, which doesn't count, is then DDP's first step.");
  v.key("group", s.group, any(),
        "node: the GPUs of each node all-reduce their gradients in every step, in buckets as ddp says "
        "(post-local SGD); none: a step between two averages exchanges nothing.");
  v.key("copy_back", s.copy_back, any(),
        "Averaged parameters are copied to where they were; false: they become views of the buffer that was "
        "averaged, as PyTorch leaves them.");
}

template <class V>
void describe(V& v, HostSpec& s) {
  v.key("kernel_launch", s.kernel_launch, between(0, 10), "Time of the host to launch a kernel.");
  v.key("collective_launch", s.collective_launch, between(0, 10), "Time of the host to launch a collective.");
  v.key("runs_ahead", s.runs_ahead, between(0, 1000), "Steps that the host may be ahead of its GPU.");
  v.key("unused_search", s.unused_search, between(0, 10),
        "Time of the host to look for a parameter in the autograd graph, with find_unused_parameters.");
}

template <class V>
void describe(V& v, InputSpec& s) {
  v.key("rate", s.rate, kSampleRate,
        "Samples that the data loader of one process makes per second: of one GPU, with data_parallel of "
        "all.",
        required());
  v.key("prefetch", s.prefetch, between(1, 10'000), "Batches that may wait for the GPU.");
  v.key("jitter", s.jitter, any(), "Variation of the time that the loader takes for a batch.");
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
}

template <class V>
void describe(V& v, Correction& s) {
  v.key("collective", s.kind, any(), "Which collective.", required());
  v.key("bytes", s.bytes, kSize, "Its size, as nccl-tests counts it.", required());
  v.key("factor", s.factor, above(0, 1000), "What its time is multiplied by.", required());
}

template <class V>
void describe(V& v, CollectiveSpec& s) {
  v.key("library", s.library, any(),
        "nccl; mpi: OpenMPI's ring over TCP; gloo: as PyTorch's process groups run it over TCP; tensorflow: "
        "MultiWorkerMirroredStrategy's CommunicationImplementation.RING. For the last three only `costs` "
        "counts of these keys.");
  v.key(
      "nccl", s.nccl, text(20),
      "The NCCL whose tuner and graph search decide: \"2.12\" to \"2.30\"; left out in training: PyTorch's.");
  v.key("algorithm", s.algorithm, text(200, 0),
        "NCCL_ALGO: \"ring\", \"^nvls,nvlstree\", \"allreduce:tree\" ...; or \"hierarchical\"; left out: the "
        "tuner chooses.");
  v.key("protocol", s.protocol, text(200, 0),
        "NCCL_PROTO: \"simple\", \"^ll128\" ...; left out: the tuner chooses.");
  v.key("min_channels", s.min_channels, between(1, 64).absent_at_zero(),
        "NCCL_MIN_NCHANNELS, of rings and trees; left out: NCCL's.");
  v.key("max_channels", s.max_channels, between(1, 64).absent_at_zero(),
        "NCCL_MAX_NCHANNELS, of NVLS too, as NCCL_MAX_CTAS; left out: NCCL's.");
  v.key("cross_nic", s.cross_nic, between(0, 2),
        "NCCL_CROSS_NIC: 0: rings keep to their rail; 1: they may leave it; 2: NCCL decides.");
  v.key("pxn", s.pxn, any(), "Reach a NIC through a GPU that is nearer to it (NCCL_PXN_DISABLE=0).");
  v.key("socket_threads", s.socket_threads, between(1, 16),
        "NCCL_SOCKET_NTHREADS: threads of a channel that send over TCP sockets.");
  v.key("sockets_per_thread", s.sockets_per_thread, between(1, 64),
        "NCCL_NSOCKS_PERTHREAD: TCP sockets of each of them.");
  v.key("nvls", s.nvls, any(), "Use NVLink SHARP where there is (NCCL_NVLS_ENABLE).");
  v.key("buffer", s.sizes.buffer, between(64e3, 1e9).absent_at_zero(),
        "NCCL_BUFFSIZE; left out, here and below: what the network's plugin sets, else NCCL's.");
  v.key("nvls_chunk", s.sizes.nvls_chunk, between(16e3, 64e6).absent_at_zero(), "NCCL_NVLS_CHUNKSIZE.");
  v.key("nvls_tree_chunk", s.sizes.nvls_tree_chunk, between(16e3, 64e6).absent_at_zero(),
        "NCCL_NVLSTREE_MAX_CHUNKSIZE.");
  v.key("peer_chunk", s.sizes.peer_chunk, between(4e3, 64e6).absent_at_zero(), "NCCL_P2P_NET_CHUNKSIZE.");
  v.key("limited_fifos", s.limited_fifos, any(),
        "A sender waits for its receiver when NCCL's buffer between them is full; false: buffers never "
        "fill.");
  v.key("costs", s.costs, any(),
        "Values of cost parameters by name; the others keep their defaults, which follow GPU, CPU and "
        "network. No other than that of a profile that is fitted to it.");
  v.key("choose", s.choose, any(),
        "Who chooses algorithm and protocol: NCCL's tuner, or a choice that is always the fastest.");
  v.key("fastest_from", s.fastest_from, between(0, kMostChosen),
        "With fastest: of collectives of so many bytes on; the tuner chooses for smaller ones.");
  v.key("fastest_to", s.fastest_to, between(0, kMostChosen), "Likewise: up to so many bytes.");
  v.key("corrections", s.corrections, list(0, 10'000),
        "Factors on the times of collectives by kind and ascending size, log-linear between the sizes: what "
        "a profile has beyond costs.");
  v.settle([&](const Spot& spot) { require_ascending(s.corrections, spot); });
}

template <class V>
void describe(V& v, MeasuredRate& s) {
  v.key("rate", s.rate, kSampleRate, "Samples of one GPU per second, or \"tokens/s\".", required());
  v.key("batch_per_gpu", s.batch_per_gpu, between(1, 1'000'000).absent_at_zero(),
        "The batch_per_gpu that it was measured with; left out: the training's.");
  v.key("accumulation", s.accumulation, between(1, kMostPasses).absent_at_zero(),
        "The accumulation that it was measured with; left out: the training's.");
  v.key("activation_checkpointing", s.activation_checkpointing, any(),
        "With which activation checkpointing it was measured; left out: the training's.");
  v.key("recompute_every", s.recompute_every, between(1, 1000).absent_at_zero(),
        "The recompute_every that it was measured with; left out: the training's.");
}

template <class V>
void describe(V& v, TrainingSpec& s) {
  v.key("batch_per_gpu", s.batch_per_gpu, between(1, 1'000'000), "Samples of one forward pass on one GPU.",
        required());
  v.key("batches", s.batches, between(1, 1e9).length(0, 1'000'000),
        "The batch of each GPU, where they differ: together as many samples as batch_per_gpu says; a "
        "gradient counts by its samples.");
  v.key("balance", s.balance, any(),
        "Every so many steps the batches are set in proportion to the speeds that the GPUs have shown, "
        "together as many samples as before.");
  v.key("accumulation", s.accumulation, between(1, kMostPasses),
        "Forward and backward passes per optimizer step; all but the last exchange nothing unless `no_sync` "
        "says otherwise, but with data_parallel, which has nothing of the kind.");
  v.key(
      "no_sync", s.no_sync, any(),
      "With accumulation. true: passes but the last run under no_sync. false: each reduces its gradients, as "
      "PyTorch's DDP and FSDP do unless they are told otherwise, and DeepSpeed's ZeRO 2 and 3 always; FSDP "
      "and those then keep no whole gradients. Left out: false with zero, else true. Other strategies, ZeRO "
      "1, and DDP with another `reduction` don't use it.");
  v.key(
      "activation_checkpointing", s.activation_checkpointing, any(),
      "full: a block keeps its inputs alone, and runs forward again before its backward pass. selective_op: "
      "it keeps what attention, products with a bias or in fp8, and every other of the rest wrote, too; "
      "all else runs again (torchtitan's selective checkpointing by operators). Blocks are consecutive "
      "layers whose names agree up to their first number, with full FSDP's units where it shards; what is in "
      "no block never runs again.");
  v.key("recompute_every", s.recompute_every, between(1, 1000),
        "With full activation checkpointing: of so many blocks only the last runs forward again, the others "
        "keep what they wrote (torchtitan's selective checkpointing by layers, its option \"2\" for every "
        "other block).");
  v.key("precision", s.precision, any(),
        "Number format of the kernels: it decides their peak rate and their bytes.");
  v.key("gradients", s.gradients, any(), "Number format of gradients in memory and on the wire.");
  v.key("parameters", s.parameters, any(),
        "Number format of the optimizer's state in memory and of the parameters that it updates: fp32 with "
        "mixed precision, whatever the kernels' precision; bf16 where the whole model was cast.");
  v.key("optimizer", s.optimizer, any(),
        "It decides its memory and traffic. sgd: with momentum; lamb, lars: with a norm of each tensor and "
        "its gradient; adam_8bit: moments of one byte and a constant for each 256 (bitsandbytes).");
  v.key("optimizer_kernels", s.optimizer_kernels, any(),
        "How the optimizer runs. fused: as PyTorch's fused=True and Apex; foreach (PyTorch's own default on "
        "GPUs): operation by operation, all tensors at once; for_loop: each tensor by itself. adam_8bit "
        "always has one kernel for each tensor.");
  v.key("clip_norm", s.clip_norm, any(),
        "Clip gradients by their norm: all of them are read once more, scaled, and, where they are sharded, "
        "a number is all-reduced, before the update.");
  v.key("measured", s.measured, any().length(0, 100),
        "What one GPU reaches, step and optimizer included: layer times are scaled to reach it exactly. A "
        "rate, or with the batch and accumulation that it was measured with, or a list with several batches; "
        "left out: layer times stay the roofline's, an estimate.");
  v.key(
      "layer_times", s.layer_times, list(0, 10'000),
      "Measured times, one entry per layer of the model in its order, instead of the roofline; of GPUs that "
      "are alike and have equal batches.");
  v.key("roofline", s.roofline, any(), "How much of a GPU's peak rates kernels reach.");
  v.key("slowdown_while_communicating", s.slowdown_while_communicating, between(1, 100),
        "Kernels take this many times as long while a collective runs on their GPU: 1.21, or \"121/100\".");
  v.key("pytorch", s.pytorch, text(20),
        "The PyTorch whose rules hold: \"1.13\", \"2.0\" to \"2.15\"; from 2.4 on a bucket_cap that is given "
        "is the first bucket's too. Its packages' NCCL runs where \"collective\" has no \"nccl\".");
  v.settle([&](const Spot& spot) { settle_pytorch(s, spot); });
  v.key(
      "strategy", s.strategy, any(),
      "How GPUs share the work: PyTorch's DistributedDataParallel, its fully_shard, ZeRO, parameter servers, "
      "torch.nn.DataParallel on one node, TensorFlow's mirrored strategies, Horovod, or local SGD. Options "
      "of the others may stand beside.");
  v.key("compression", s.compression, any(),
        "DDP's communication hook: what it computes to send less. A name, or an object with options.");
  v.key("ddp", s.ddp, any(), "PyTorch DistributedDataParallel's options.");
  v.key("fsdp", s.fsdp, any(), "PyTorch fully_shard's options.");
  v.key("zero", s.zero, any(), "ZeRO's options.");
  v.key("parameter_server", s.parameter_server, any(), "Options of parameter servers.");
  v.key("data_parallel", s.data_parallel, any(), "torch.nn.DataParallel's options.");
  v.key("mirrored", s.mirrored, any(),
        "Options of TensorFlow's MirroredStrategy and MultiWorkerMirroredStrategy.");
  v.key("horovod", s.horovod, any(), "Horovod's options.");
  v.key("local_sgd", s.local_sgd, any(), "Options of local SGD.");
  v.key("host", s.host, any(), "The host thread that launches work on its GPU.");
  v.key("input", s.input, any(),
        "The data loader, of GPUs with equal batches; left out: it is never the bottleneck.");
  v.key("collective", s.collective, any(), "How collectives run: library, algorithm, costs.");
  v.settle([&](const Spot& spot) { require_distinct_batches(s, spot); });
}

// ---- variability, background, run ----

template <class V>
void describe(V& v, SlowGpus& s) {
  v.key("ranks", s.ranks, between(0, kMostRanks - 1).length(0, 1'000'000),
        "The ranks of the slow GPUs. Give either `ranks` or `fraction`.");
  v.key("fraction", s.fraction, between(0, 1).absent_at_zero(),
        "The probability that a GPU is slow, drawn for each of them.");
  v.key("factor", s.factor, kFactor, "Their kernels take this many times as long: 1.15 is 15 % slower.",
        required());
  v.settle([&](const Spot& spot) {
    if (s.ranks.empty() == (s.fraction == 0)) {
      throw InputError(
          "expected either ranks or fraction, found " + std::string(s.ranks.empty() ? "neither" : "both"),
          spot.place);
    }
  });
}

template <class V>
void describe(V& v, TransientSlowdown& s) {
  v.key("probability", s.probability, between(0, 1),
        "The probability that a GPU becomes slow in a step, drawn for each GPU and step.", required());
  v.key("length", s.length, between(1, 1'000'000), "Steps that it stays slow.");
  v.key("factor", s.factor, kFactor, "Meanwhile its kernels take this many times as long.", required());
}

template <class V>
void describe(V& v, DelaySpec& s) {
  v.key("per_step", s.per_step, kDuration, "What every step takes longer where there are several GPUs.");
  v.key("per_doubling", s.per_doubling, between(-0.1, 1),
        "Layers take so much longer for each doubling of the GPUs; with accumulation less, by its root.");
}

template <class V>
void describe(V& v, VariabilitySpec& s) {
  v.key("per_operation", s.per_operation, any(), "Variation of every kernel's time, drawn for each kernel.");
  v.key("per_iteration", s.per_iteration, any(),
        "Variation of all kernels of a GPU together: one draw for each GPU and step.");
  v.key("per_step", s.per_step, any(),
        "Variation of all kernels of all GPUs together: one draw for each step, whose work differs from the "
        "next one's.");
  v.key("slow_gpus", s.slow_gpus, list(0, 1000), "GPUs that are always slow.");
  v.key("transient", s.transient, list(0, 100), "GPUs that become slow for a while.");
  v.key("spared_gpus", s.spared_gpus, between(0, kMostRanks - 1).length(0, 100'000),
        "Ranks that stay as fast as the others, whatever slow_gpus and transient say: what if this GPU were "
        "healthy?");
  v.key("delays", s.delays, any(),
        "What steps of several GPUs lose beside communication, the same for all; as `calibrate fit` finds "
        "it. Left out: none, or the profile's.");
}

template <class V>
void describe(V& v, BackgroundFlow& s) {
  const Limits rank = between(0, kMostRanks - 1);
  v.key("from", s.from, rank, "The rank whose GPU sends.", required());
  v.key("to", s.to, rank, "The rank whose GPU receives.", required());
  v.key("rate", s.rate, kBandwidth, "Its bandwidth; less where its fair share of a link is less.",
        required());
  v.key("nic", s.nic, between(0, 255), "Through which NIC of both nodes, counted from 0 and round.");
}

template <class V>
void describe(V& v, OtherJob& s) {
  v.key("first_node", s.first_node, between(0, kMostRanks),
        "The first of its nodes, which are among those that job_nodes leaves.", required());
  v.key("nodes", s.nodes, between(2, 100'000), "How many nodes it has, from there on.", required());
  v.key("rate", s.rate, kBandwidth,
        "What each of its NICs sends to the next node's; less where its fair share of a link is less.",
        required());
}

template <class V>
void describe(V& v, RunSpec& s) {
  v.key("iterations", s.iterations, between(1, 100'000),
        "Steps to simulate, after one for warm-up; with local_sgd rounded up to whole periods.");
  v.key("seed", s.seed, between(0, 18446744073709551615.0),
        "Seed of all random draws: the same seed, the same run.");
  v.key("engine", s.engine, any(),
        "vector: fast, refused where it isn't exact; event: every transfer is an event; auto: vector where "
        "exact.");
}

template <class V>
void describe(V& v, ScenarioFile& s) {
  v.key("description", s.scenario.description, text(10'000, 0), "The question that the scenario answers.");
  v.key("cluster", s.cluster, any(),
        "The machines: the name of a node preset or of a built-in cluster, a file, or their parts.",
        required());
  v.key("model", s.scenario.model, any(),
        "What is trained: a name (see `paceline presets`), a file, or its layers.", required());
  v.key("training", s.scenario.training, any(), "How it is trained.", required());
  v.key("variability", s.scenario.variability, any(), "What makes one GPU slower than another.");
  v.key("background", s.scenario.background, list(0, 10'000),
        "Traffic of others: endless flows between two GPUs.");
  v.key("other_jobs", s.scenario.other_jobs, list(0, 100),
        "Jobs on other nodes of the same fabric that reduce all the time.");
  v.key("run", s.scenario.run, any(), "The simulation itself.");
  v.key("faults", s.scenario.faults, any(), "Days of training with failures: what survives of the steps.");
  v.settle([&](const Spot& spot) { settle_scenario(s, spot); });
}

// The preset that a name stands for, by the type that is expected.
inline GpuSpec named_value(const GpuSpec*, const std::string& name) { return gpu_preset(name); }
inline NodeSpec named_value(const NodeSpec*, const std::string& name) { return node_preset(name); }
inline Distribution named_value(const Distribution*, const std::string& name) { return step_spread(name); }
inline std::vector<std::string> known_names(const Distribution*) { return step_spread_names(); }
inline std::vector<std::string> known_names(const GpuSpec*) { return gpu_preset_names(); }
inline std::vector<std::string> known_names(const NodeSpec*) { return node_preset_names(); }

// Collects a struct's keys.
class KeyNames {
 public:
  template <class T>
  void key(const char* name, const T&, const Limits&, const char*, const Need& = {}) {
    names_.emplace_back(name);
  }
  template <class T>
  bool preset(const T&, const char*) {
    names_.emplace_back("preset");
    return true;
  }
  template <class F>
  void settle(const F&) {}
  bool lists_all() const { return true; }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
};

}  // namespace paceline
