#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "scenarios/readable.h"
#include "scenarios/tables.h"
#include "topology/channel_search.h"

namespace paceline {
namespace {

constexpr auto kDeviceTexts = names<DeviceKind>({{"GPU", DeviceKind::gpu},
                                                 {"NVSwitch", DeviceKind::nvswitch},
                                                 {"PCIe switch", DeviceKind::pcie_switch},
                                                 {"CPU socket", DeviceKind::cpu},
                                                 {"NIC", DeviceKind::nic},
                                                 {"leaf", DeviceKind::leaf},
                                                 {"spine", DeviceKind::spine},
                                                 {"core", DeviceKind::core}});
constexpr auto kLinkTexts = names<LinkKind>({{"NVLink", LinkKind::nvlink},
                                             {"PCIe", LinkKind::pcie},
                                             {"socket", LinkKind::socket},
                                             {"network", LinkKind::network},
                                             {"C2C", LinkKind::c2c}});

std::string device_lines(const Topology& topology) {
  std::map<DeviceKind, std::int64_t> count;
  for (std::uint32_t i = 0; i < topology.devices(); ++i) {
    ++count[topology.device_kind(DeviceId(i))];
  }
  std::string text = "\n  devices\n";
  for (const auto& [kind, devices] : count) {
    text += "    " + padded_right(std::string(kDeviceTexts[kind]), 14) + padded(std::to_string(devices), 10) +
            '\n';
  }
  return text;
}

struct LinkClass {
  LinkKind kind;
  double bandwidth, latency;
  friend auto operator<=>(const LinkClass&, const LinkClass&) = default;
};

// Links that are equal in kind, bandwidth and latency stand on one line.
std::string link_lines(const Topology& topology) {
  constexpr std::size_t kShown = 16;
  std::map<LinkClass, std::int64_t> count;
  for (std::uint32_t i = 0; i < topology.links(); ++i) {
    const Link& link = topology.link(LinkId(i));
    ++count[{link.kind, link.bandwidth.value, link.latency.value}];
  }
  std::string text = "\n  links (each direction counts)     bandwidth     latency\n";
  std::size_t shown = 0;
  for (const auto& [link, links] : count) {
    if (shown++ < kShown) {
      text += "    " + padded_right(std::string(kLinkTexts[link.kind]), 14) +
              padded(std::to_string(links), 10) + padded(readable_rate(BytesPerSecond(link.bandwidth)), 16) +
              padded(readable_time(Seconds(link.latency)), 12) + '\n';
    }
  }
  return text +
         (count.size() > kShown ? "    and " + std::to_string(count.size() - kShown) + " more kinds\n" : "");
}

// What NCCL's graph search finds: "12 rings of 30.00 GB/s (NVL), run on 24 channels".
std::string channels_text(const ChannelGraphs& found) {
  const ChannelGraph& ring = found.ring;
  return plural(static_cast<std::int64_t>(ring.channels.size()), "ring") + " of " +
         readable_rate(BytesPerSecond(ring.bw_intra * 1e9)) + " (" + std::string(name_of(ring.type_intra)) +
         "), run on " + plural(found.channels, "channel");
}

}  // namespace

std::string node_names(const ClusterSpec& cluster) {
  std::string names;
  for (const NodeRun& run : cluster.runs) {
    names += (names.empty() ? "" : ", ") + run.node.name + " in " + std::to_string(run.nodes);
  }
  const bool one_name = std::ranges::all_of(
      cluster.runs, [&](const NodeRun& run) { return run.node.name == cluster.node.name; });
  return one_name ? cluster.node.name : names;
}

std::string topology_table(const Topology& topology) {
  const ClusterSpec& spec = topology.spec();
  std::string text = plural(spec.nodes, "node") + " (" + node_names(spec) + "), " +
                     plural(static_cast<std::int64_t>(topology.ranks()), "GPU") + " in use" +
                     (spec.nodes > 1 ? ", " + with_spaces(name_of(spec.fabric.kind)) : "") + '\n';
  text += device_lines(topology) + link_lines(topology) + '\n';
  if (!spec.degraded.empty()) {
    text += row("degraded", plural(static_cast<std::int64_t>(spec.degraded.size()), "link") +
                                " or device, as the file says");
  }
  if (topology.ranks() > 1) {
    SearchSpec search;
    search.sharp = spec.fabric.sharp;
    ChannelGraphs graphs = spec.graphs ? *spec.graphs : search_channels(topology, search);
    if (graphs.channels == 0) {
      search.gdr = spec.node.gpu_direct;
      count_channels(graphs, topology.node(), spec.node, topology.job_nodes(), search);
    }
    text += row("channels", channels_text(graphs));
  }
  if (topology.spec().nodes > 1 || topology.spec().node.gpus > 1) {
    text += row("bisection", readable_rate(bisection_bandwidth(topology)) +
                                 ", one direction, between the halves of the " +
                                 (spec.nodes > 1 ? "nodes" : "node"));
  }
  return text;
}

}  // namespace paceline
