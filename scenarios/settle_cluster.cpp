#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "scenarios/named_json.h"
#include "scenarios/readable.h"
#include "scenarios/reader.h"
#include "topology/nccl_xml.h"
#include "topology/topology.h"

namespace paceline {
namespace {

GpuSpec gpu_of_node(const NodeSpec& node, const Spot& spot) {
  if (node.gpu.empty()) {
    throw InputError("missing key \"gpu\", as the node has none: add it beside \"node\"", spot.place);
  }
  try {
    return gpu_preset(node.gpu);
  } catch (const InputError& error) {
    throw error.at(below(below(spot, "node"), "gpu").place);
  }
}

// What the node doesn't say of its GPUs follows from which they are; what a preset says of its own is of those.
void place_gpu(const GpuSpec& gpu, NodeSpec& node) {
  const std::vector<std::string> presets = gpu_preset_names();
  const bool of_its_own = gpu.compute_capability > 0 && std::ranges::count(presets, node.gpu) > 0 &&
                          node.compute_capability == gpu_preset(node.gpu).compute_capability;
  node.gpu = gpu.name;
  if (node.compute_capability == 0 || of_its_own) {
    node.compute_capability = gpu.compute_capability;
  }
}

// Whether NCCL sees them differently in one node.
bool unlike(const std::vector<GpuKind>& kinds, const NodeSpec& node) {
  return std::ranges::any_of(kinds, [&](const GpuKind& kind) {
    NodeSpec first = node, own = node;
    place_gpu(kinds.front().gpu, first);
    place_gpu(kind.gpu, own);
    return own.compute_capability != first.compute_capability;
  });
}

// Kinds with nodes of their own, or GPUs of other compute capabilities, make runs of nodes. The cluster's node is the
// first one's where it isn't told.
void settle_nodes(Cluster& cluster, const Spot& spot) {
  ClusterSpec& spec = cluster.spec;
  const auto has_node = [](const GpuKind& kind) { return kind.node.has_value(); };
  const bool told = !spec.node.name.empty();
  const bool all_own = std::ranges::all_of(cluster.gpus, has_node);
  if (!told && (cluster.gpus.empty() || !all_own)) {
    throw InputError("missing key \"node\"", spot.place);
  }
  for (std::size_t k = 0; k < cluster.gpus.size(); ++k) {
    GpuKind& kind = cluster.gpus[k];
    if (!kind.node && kind.gpu.name.empty()) {
      kind.gpu = gpu_of_node(spec.node, below(below(spot, "gpus"), k));
    }
  }
  if (std::ranges::none_of(cluster.gpus, has_node) && !unlike(cluster.gpus, spec.node)) {
    return;
  }
  if (!told) {
    spec.node = *cluster.gpus.front().node;
  }
  for (std::size_t k = 0; k < cluster.gpus.size(); ++k) {
    GpuKind& kind = cluster.gpus[k];
    const Spot place = below(below(spot, "gpus"), k);
    if (kind.node) {
      // The GPU is the node's; a result has it in full beside it.
      if (kind.gpu.name.empty()) {
        kind.gpu = gpu_of_node(*kind.node, place);
      } else if (kind.gpu.name != kind.node->gpu) {
        throw InputError("expected either gpu or node, found both", place.place);
      }
    }
    spec.runs.push_back({kind.nodes, kind.node.value_or(spec.node)});
    place_gpu(kind.gpu, spec.runs.back().node);
    kind.node.reset();
  }
}

// The first kind stands for all where one GPU is asked for.
void settle_kinds(Cluster& cluster, const Spot& spot) {
  settle_nodes(cluster, spot);
  int nodes = 0;
  for (const GpuKind& kind : cluster.gpus) {
    nodes += kind.nodes;
  }
  cluster.spec.nodes = cluster.nodes > 0 ? cluster.nodes : std::max(nodes, 1);
  if (cluster.gpus.empty()) {
    return;
  }
  if (nodes != nodes_of_job(cluster.spec)) {
    fail_at(below(spot, "gpus"), "the GPUs of " + plural(nodes_of_job(cluster.spec), "node"),
            "those of " + std::to_string(nodes));
  }
  if (!cluster.gpu.name.empty() && cluster.gpu.name != cluster.gpus.front().gpu.name) {
    throw InputError("expected either gpu or gpus, found both", spot.place);
  }
  cluster.gpu = cluster.gpus.front().gpu;
}

// Nodes of one job have much in common.
void check_runs(const ClusterSpec& spec, const Spot& spot) {
  for (std::size_t k = 0; k < spec.runs.size(); ++k) {
    const NodeSpec& node = spec.runs[k].node;
    const Spot place = below(below(below(spot, "gpus"), k), "node");
    if (spec.gpus_per_node > node.gpus) {
      fail_at(place, std::to_string(spec.gpus_per_node) + " GPUs in use in every node",
              std::to_string(node.gpus) + " in " + node.name);
    }
    if (node.network != spec.runs.front().node.network) {
      fail_at(place,
              "one kind of network for all nodes, " + std::string(name_of(spec.runs.front().node.network)),
              std::string(name_of(node.network)) + " in " + node.name);
    }
  }
}

}  // namespace

void settle_cluster(Cluster& cluster, const Spot& spot) {
  ClusterSpec& spec = cluster.spec;
  if (!cluster.nccl_graph.empty()) {
    const auto [text, path] = text_in_file(cluster.nccl_graph, below(spot, "nccl_graph"));
    if (spec.graphs) {
      throw InputError("expected either nccl_graph or graphs, found both", spot.place);
    }
    // A node that came from a topology file knows that file's numbers.
    const bool numbered =
        std::ranges::any_of(spec.node.devices, [](const NodeDevice& d) { return d.number >= 0; });
    spec.graphs = read_nccl_graphs(text, path, numbered ? &spec.node : nullptr);
    cluster.nccl_graph.clear();
  }
  settle_kinds(cluster, spot);
  if (cluster.gpu.name.empty()) {
    cluster.gpu = gpu_of_node(spec.node, spot);
  }
  place_gpu(cluster.gpu, spec.node);
  if (spec.gpus_per_node > spec.node.gpus) {
    fail_at(below(spot, "gpus_per_node"), "at most the " + std::to_string(spec.node.gpus) + " GPUs of a node",
            std::to_string(spec.gpus_per_node));
  }
  if (spec.gpus_per_node == 0) {
    spec.gpus_per_node = spec.node.gpus;
    for (std::size_t k = 0; k < spec.runs.size(); ++k) {
      if (spec.runs[k].node.gpus != spec.node.gpus) {
        fail_at(below(below(below(spot, "gpus"), k), "node"),
                "as many GPUs as in other nodes, " + std::to_string(spec.node.gpus) +
                    ", or `gpus_per_node`, how many of each the job uses",
                std::to_string(spec.runs[k].node.gpus) + " in " + spec.runs[k].node.name);
      }
    }
  }
  check_runs(spec, spot);
  if (spec.job_nodes > spec.nodes) {
    fail_at(below(spot, "job_nodes"), "at most the cluster's " + std::to_string(spec.nodes) + " nodes",
            std::to_string(spec.job_nodes));
  }
  const std::int64_t ranks = std::int64_t{spec.nodes} * spec.gpus_per_node;
  if (ranks > kMostRanks) {
    fail_at(below(spot, "nodes"), "a job of at most " + std::to_string(kMostRanks) + " GPUs",
            std::to_string(ranks));
  }
}

}  // namespace paceline
