#include <ostream>
#include <string_view>

#include "topology/topology.h"

namespace paceline {
namespace {

constexpr std::string_view kOfFabric = "shape=ellipse, style=filled, fillcolor=\"#dae8fc\"";
constexpr auto kStyles =
    names<DeviceKind>({{"shape=box, style=filled, fillcolor=\"#d5e8d4\"", DeviceKind::gpu},
                       {"shape=hexagon", DeviceKind::nvswitch},
                       {"shape=diamond", DeviceKind::pcie_switch},
                       {"shape=box", DeviceKind::cpu},
                       {"shape=house", DeviceKind::nic},
                       {kOfFabric, DeviceKind::leaf},
                       {kOfFabric, DeviceKind::spine},
                       {kOfFabric, DeviceKind::core}});
constexpr auto kColours = names<LinkKind>({{"#2e7d32", LinkKind::nvlink},
                                           {"#9e9e9e", LinkKind::pcie},
                                           {"#b26a00", LinkKind::socket},
                                           {"#1565c0", LinkKind::network},
                                           {"#6a1b9a", LinkKind::c2c}});

// "node3/gpu5" in the cluster of node 3 is labelled "gpu5".
void write_device(const Topology& topology, DeviceId device, std::ostream& out) {
  const std::string name = topology.device_name(device);
  const std::string label = name.substr(name.find('/') + 1);  // npos + 1 == 0
  out << "  \"" << name << "\" [label=\"" << label << "\", " << kStyles[topology.device_kind(device)]
      << "];\n";
}

}  // namespace

void write_graphviz(const Topology& topology, std::ostream& out) {
  out << "graph paceline {\n";
  std::string open;  // the node whose cluster is open
  for (std::uint32_t d = 0; d < topology.devices(); ++d) {
    const std::string name = topology.device_name(DeviceId(d));
    const std::size_t slash = name.find('/');
    const std::string node = slash == std::string::npos ? "" : name.substr(0, slash);
    if (node != open) {
      out << (open.empty() ? "" : "  }\n");
      if (!node.empty()) {
        out << "  subgraph \"cluster_" << node << "\" {\n  label=\"" << node << "\";\n";
      }
      open = node;
    }
    write_device(topology, DeviceId(d), out);
  }
  out << (open.empty() ? "" : "  }\n");
  constexpr double kGiga = 1e9;
  for (std::uint32_t k = 0; k < topology.links(); ++k) {
    const Link& link = topology.link(LinkId(k));
    if (link.from < link.to) {
      out << "  \"" << topology.device_name(link.from) << "\" -- \"" << topology.device_name(link.to)
          << "\" [label=\"" << link.bandwidth.value / kGiga << " GB/s\", color=\"" << kColours[link.kind]
          << "\"];\n";
    }
  }
  out << "}\n";
}

}  // namespace paceline
