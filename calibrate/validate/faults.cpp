#include "calibrate/validate/faults.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/gpu.h"
#include "topology/node_layout.h"

namespace paceline {
namespace {

using Change = std::function<bool(MeasuredPlace&)>;

std::string node_name(int node) { return "node" + std::to_string(node); }

// The job goes on without it: NCCL gives every node as many channels as the poorest has.
bool lose_nic(MeasuredPlace& place) {
  NodeSpec& node = place.cluster.node;
  if (place.nodes() < 2 || node.nics < 2) {
    return false;
  }
  if (node.devices.empty()) {
    node = with_devices(node);
  }
  const auto lost = std::ranges::find(node.devices, NodePart::nic, &NodeDevice::kind);
  const auto number = static_cast<int>(lost - node.devices.begin());
  std::erase_if(node.cables, [&](const NodeCable& c) { return c.a == number || c.b == number; });
  for (NodeCable& cable : node.cables) {
    cable.a -= cable.a > number ? 1 : 0;
    cable.b -= cable.b > number ? 1 : 0;
  }
  node.devices.erase(lost);
  --node.nics;
  return true;
}

Change slow_nic(int node, double factor) {
  return [=](MeasuredPlace& place) {
    if (place.nodes() < 2 || place.cluster.node.nics < 1) {
      return false;
    }
    place.cluster.degraded.push_back({node_name(node) + "/nic0", {}, factor, {}});
    return true;
  };
}

// Of one GPU to the switch, or of the first pair of the mesh that has two links.
Change slow_nvlink(int node, double factor) {
  return [=](MeasuredPlace& place) {
    const NodeSpec& spec = place.cluster.node;
    if (node >= place.nodes() || place.gpus_per_node() < 2) {
      return false;
    }
    const Topology topology = build_topology(place.cluster);
    if (topology.node().count(DeviceKind::nvswitch) == 0) {
      const auto pair = std::ranges::find_if(spec.mesh, [&](const NvlinkPair& p) {
        return p.count > 1 && std::max(p.a, p.b) < place.gpus_per_node();
      });
      if (pair == spec.mesh.end()) {
        return false;
      }
      place.cluster.degraded.push_back({node_name(node) + "/gpu" + std::to_string(pair->a),
                                        node_name(node) + "/gpu" + std::to_string(pair->b),
                                        factor,
                                        {}});
      return true;
    }
    place.cluster.degraded.push_back({node_name(node) + "/gpu0", node_name(node) + "/nvswitch", factor, {}});
    return true;
  };
}

// Of a GPU, to the switch or CPU above it.
Change slow_pcie(int node, double factor) {
  return [=](MeasuredPlace& place) {
    if (node >= place.nodes()) {
      return false;
    }
    const Topology topology = build_topology(place.cluster);
    const std::string gpu = node_name(node) + "/gpu0";
    const DeviceId from = topology.device_named(gpu);
    for (std::size_t k = 0; k < topology.links(); ++k) {
      const Link& link = topology.link(LinkId(static_cast<std::uint32_t>(k)));
      if (link.from == from && link.kind == LinkKind::pcie) {
        place.cluster.degraded.push_back({gpu, topology.device_name(link.to), factor, {}});
        return true;
      }
    }
    return false;
  };
}

Change forced(std::string CollectiveSpec::* setting, const std::string& value) {
  return [=](MeasuredPlace& place) {
    std::string& own = place.spec.*setting;
    return own.empty() && std::exchange(own, value) != value;
  };
}

Change most_channels(int most) {
  return [=](MeasuredPlace& place) {
    return place.spec.max_channels == 0 && std::exchange(place.spec.max_channels, most) != most;
  };
}

Change socket_threads(int threads, int sockets) {
  return [=](MeasuredPlace& place) {
    const bool by_sockets = place.nodes() > 1 && place.cluster.node.network == NetworkKind::tcp;
    const bool told = place.spec.socket_threads > 0 || place.spec.sockets_per_thread > 1;
    place.spec.socket_threads = threads;
    place.spec.sockets_per_thread = sockets;
    return by_sockets && !told;
  };
}

Change other_node(const std::string& name) {
  return [=](MeasuredPlace& place) {
    const NodeSpec other = node_preset(name);
    const bool fits = other.gpus >= place.gpus_per_node() && (place.nodes() == 1 || other.nics > 0);
    place.cluster.node = other;
    return fits && place.cluster.degraded.empty();
  };
}

struct Slow {
  FaultFamily family;
  const char* name;
  double factor;
  const char* look;
};
constexpr const char* kLookAtNics =
    "ibstat and perfquery, or ethtool, of every NIC; the NIC's PCIe link in lspci -vv (LnkSta); cable and "
    "switch port";
constexpr const char* kLookAtNvlink = "nvidia-smi nvlink -s and -e of every GPU; the fabric manager's log";
constexpr const char* kLookAtPcie =
    "nvidia-smi -q -d PCIE and lspci -vv (LnkSta) of every GPU: link width and generation";
constexpr const char* kNicBarely = "one NIC at a tenth of its rate or less";
constexpr std::array kSlow{
    Slow{FaultFamily::nic, "one NIC at half its rate", 0.5, kLookAtNics},
    Slow{FaultFamily::nic, "one NIC at a quarter of its rate", 0.25, kLookAtNics},
    Slow{FaultFamily::nic, kNicBarely, 0.1, kLookAtNics},
    Slow{FaultFamily::nic, kNicBarely, 0.03, kLookAtNics},
    Slow{FaultFamily::nic, kNicBarely, 0.01, kLookAtNics},
    Slow{FaultFamily::nic, kNicBarely, 0.001, kLookAtNics},
    Slow{FaultFamily::nvlink, "a quarter of one GPU's NVLinks lost", 0.75, kLookAtNvlink},
    Slow{FaultFamily::nvlink, "half of one GPU's NVLinks lost", 0.5, kLookAtNvlink},
    Slow{FaultFamily::pcie, "one GPU's PCIe link at half its rate", 0.5, kLookAtPcie},
    Slow{FaultFamily::pcie, "one GPU's PCIe link at a quarter of its rate", 0.25, kLookAtPcie}};

Change slow(FaultFamily family, int node, double factor) {
  return family == FaultFamily::nic      ? slow_nic(node, factor)
         : family == FaultFamily::nvlink ? slow_nvlink(node, factor)
                                         : slow_pcie(node, factor);
}

// Of a mesh: between two GPUs that have two. 0: not known.
int nvlinks_of_gpu(const NodeSpec& node) {
  if (node.wiring == NvlinkWiring::mesh) {
    const bool two = std::ranges::any_of(node.mesh, [](const NvlinkPair& pair) { return pair.count == 2; });
    return two ? 2 : 0;
  }
  constexpr std::array<std::pair<int, int>, 5> kLinks{{{70, 6}, {80, 12}, {90, 18}, {100, 18}, {103, 18}}};
  const auto of = std::ranges::find(kLinks, node.compute_capability, &std::pair<int, int>::first);
  return of == kLinks.end() ? 0 : of->second;
}

// In a ring all links of a kind are alike; in a tree the nodes aren't: of few nodes each is tried, of many two.
constexpr int kFewNodes = 8, kOfMany = 2;
Change on(int node, Change fault) {
  return [node, fault = std::move(fault)](MeasuredPlace& place) {
    const bool tried = node < (place.nodes() > kFewNodes ? kOfMany : place.nodes());
    return tried && fault(place);
  };
}

void add_links(const ClusterSpec& cluster, std::vector<Fault>& faults) {
  faults.push_back({FaultFamily::nic, "one NIC down",
                    std::string(kLookAtNics) + "; NCCL_IB_HCA, and the NICs that NCCL's log lists",
                    lose_nic});
  std::vector<std::pair<Slow, std::string>> all;
  for (const Slow& each : kSlow) {
    all.emplace_back(each, each.name);
  }
  if (const int lanes = nvlinks_of_gpu(cluster.node); lanes > 1) {
    const bool mesh = cluster.node.wiring == NvlinkWiring::mesh;
    std::erase_if(all, [&](const auto& s) { return mesh && s.first.family == FaultFamily::nvlink; });
    all.push_back({{FaultFamily::nvlink, "", (lanes - 1.0) / lanes, kLookAtNvlink},
                   mesh ? "one of two NVLinks between two GPUs lost"
                        : "one of " + std::to_string(lanes) + " NVLinks of one GPU lost"});
  }
  for (const auto& [each, name] : all) {
    for (int node = 0; node < kFewNodes; ++node) {
      faults.push_back({each.family, name, each.look, on(node, slow(each.family, node, each.factor))});
    }
  }
}

void add_features(std::vector<Fault>& faults) {
  faults.push_back({FaultFamily::nvls, "no NVLS", "NCCL_NVLS_ENABLE; NCCL's log (\"NVLS multicast support\")",
                    [](MeasuredPlace& place) { return std::exchange(place.spec.nvls, false); }});
  faults.push_back(
      {FaultFamily::pxn, "no PXN", "NCCL_PXN_DISABLE; NVLink between the GPUs of a node",
       [](MeasuredPlace& place) { return place.nodes() > 1 && std::exchange(place.spec.pxn, false); }});
  faults.push_back({FaultFamily::gpu_direct, "no GPUDirect RDMA",
                    "the module nvidia_peermem or dma-buf; NCCL_NET_GDR_LEVEL; \"GDRDMA\" in NCCL's log; ACS",
                    [](MeasuredPlace& place) {
                      return place.nodes() > 1 && std::exchange(place.cluster.node.gpu_direct, false);
                    }});
  faults.push_back({FaultFamily::ll128, "no LL128", "NCCL_PROTO; NCCL_LL128_BUFFSIZE; the network plugin",
                    forced(&CollectiveSpec::protocol, "^LL128")});
}

void add_settings(std::vector<Fault>& faults) {
  for (const char* const algorithm : {"RING", "TREE", "NVLS", "NVLSTREE"}) {
    faults.push_back({FaultFamily::algorithm, std::string("NCCL_ALGO=") + algorithm,
                      "the environment and nccl.conf; the tuner plugin",
                      forced(&CollectiveSpec::algorithm, algorithm)});
  }
  for (const char* const protocol : {"SIMPLE", "LL128", "LL"}) {
    faults.push_back({FaultFamily::protocol, std::string("NCCL_PROTO=") + protocol,
                      "the environment and nccl.conf; the tuner plugin",
                      forced(&CollectiveSpec::protocol, protocol)});
  }
  for (const int channels : {1, 2, 4, 8}) {
    faults.push_back({FaultFamily::channels, "NCCL_MAX_NCHANNELS=" + std::to_string(channels),
                      "the environment and nccl.conf (NCCL_MAX_NCHANNELS, NCCL_MAX_CTAS)",
                      most_channels(channels)});
  }
  constexpr std::array<std::pair<int, int>, 2> kSockets{{{2, 8}, {4, 1}}};  // on EC2, in Google's cloud
  for (const auto& [threads, sockets] : kSockets) {
    faults.push_back({FaultFamily::socket_threads,
                      "NCCL_SOCKET_NTHREADS=" + std::to_string(threads) +
                          (sockets > 1 ? " and NCCL_NSOCKS_PERTHREAD=" + std::to_string(sockets) : ""),
                      "the environment and nccl.conf; NCCL's log (\"NET/Socket: Using\"); --set "
                      "socket_threads and sockets_per_thread",
                      socket_threads(threads, sockets)});
  }
}

}  // namespace

std::vector<Fault> faults_of(const ClusterSpec& cluster, std::string_view gpu) {
  std::vector<Fault> faults;
  add_links(cluster, faults);
  add_features(faults);
  add_settings(faults);
  for (const std::string& name : node_preset_names()) {
    const NodeSpec other = node_preset(name);
    if (other.gpus == cluster.node.gpus && name != cluster.node.name && may_be_gpu(gpu, other.gpu)) {
      faults.push_back({FaultFamily::machine, "another machine: " + name, "--cluster; nvidia-smi topo -m",
                        other_node(name)});
    }
  }
  return faults;
}

}  // namespace paceline
