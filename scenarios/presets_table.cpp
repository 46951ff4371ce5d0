#include <cstdint>
#include <string>
#include <vector>

#include "kernels/gpu.h"
#include "kernels/model.h"
#include "scenarios/json.h"
#include "scenarios/readable.h"
#include "scenarios/scenario.h"
#include "scenarios/tables.h"

namespace paceline {
namespace {

std::string gpu_lines() {
  std::string text = "GPUs (\"gpu\")\n";
  for (const std::string& name : gpu_preset_names()) {
    const GpuSpec gpu = gpu_preset(name);
    text += "  " + padded_right(name, 18) +
            padded(fixed(static_cast<double>(gpu.memory.value) / (1 << 30), 0), 4) + " GiB at " +
            readable_rate(gpu.memory_bandwidth) + ", TFLOP/s:";
    for (const auto& [precision_name, precision] : kNames<Precision>) {
      const FlopsPerSecond peak = gpu.peak[static_cast<std::size_t>(precision)];
      if (peak.value > 0) {
        text += ' ' + std::string(precision_name) + ' ' + number_text(peak.value / 1e12);
      }
    }
    text += '\n';
  }
  return text;
}

// "8 NICs at 200 Gb/s", "8 NICs at 2 x 100 Gb/s".
std::string nics_text(const NodeSpec& node) {
  constexpr double kGigabits = 8e-9;
  const std::string ports = node.nic_ports == 1 ? "" : std::to_string(node.nic_ports) + " x ";
  return plural(node.nics, "NIC") + " at " + ports +
         number_text(node.nic_bandwidth.value / node.nic_ports * kGigabits) + " Gb/s";
}

std::string node_lines(const std::string& heading, const std::vector<std::string>& names) {
  std::string text = '\n' + heading + '\n';
  for (const std::string& name : names) {
    const NodeSpec node = node_preset(name);
    text += "  " + padded_right(name, 20) + padded(std::to_string(node.gpus), 3) + " x " +
            padded_right(node.gpu, 16);
    text += node.wiring == NvlinkWiring::none
                ? "PCIe at " + readable_rate(node.pcie_bandwidth)
                : (node.wiring == NvlinkWiring::mesh ? "NVLink mesh at " : "NVSwitch at ") +
                      readable_rate(node.nvlink_bandwidth) +
                      (node.wiring == NvlinkWiring::mesh ? " a link" : " a GPU");
    text += ", " + nics_text(node) + '\n';
  }
  return text;
}

std::string model_lines() {
  std::string text = "\nModels (\"model\")\n";
  for (const std::string& name : model_names()) {
    const Model model = builtin_model(name);
    text += "  " + padded_right(name, 24) +
            padded(readable_large(static_cast<double>(parameter_count(model))), 9) + " parameters, " +
            padded(readable_large(static_cast<double>(forward_macs(model))), 9) + " MACs per sample (" +
            model.input + ")\n";
  }
  return text;
}

std::string cluster_lines() {
  std::string text = "\nClusters (\"cluster\")\n";
  for (const std::string& name : cluster_names()) {
    const ClusterSpec cluster = load_cluster(name);
    text += "  " + padded_right(name, 18) + plural(cluster.nodes, "node") + " (" + cluster.node.name + "), " +
            plural(std::int64_t{cluster.nodes} * cluster.gpus_per_node, "GPU") + ", " +
            with_spaces(name_of(cluster.fabric.kind)) + '\n';
  }
  return text;
}

}  // namespace

std::string presets_table() {
  return gpu_lines() +
         node_lines("Nodes (\"node\", and \"cluster\" for one of them): machines", machine_preset_names()) +
         node_lines("Nodes (likewise): as clouds rent them", cloud_preset_names()) + model_lines() +
         cluster_lines();
}

}  // namespace paceline
