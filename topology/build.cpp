#include <boost/iterator/transform_iterator.hpp>
#include <boost/range/iterator_range.hpp>
#include <utility>

#include "core/error.h"
#include "topology/boost_graph.h"
#include "topology/check.h"
#include "topology/topology.h"

namespace paceline {
namespace {

constexpr std::uint64_t kMostLinks = std::uint64_t{1} << 23;  // directed; a million GPUs, 800 MB

struct Sizes {
  std::uint64_t devices = 0, links = 0;
};

// In 64 bits and from the layouts' factors, as their own sums are only right when the cluster is small
// enough.
Sizes sizes_of(const NodeLayout& node, const FabricLayout& f) {
  const std::uint64_t nodes = f.nodes, leaves = std::uint64_t{f.groups} * f.rails;
  const std::uint64_t spines = std::uint64_t{f.pods} * f.spines_per_pod;
  const std::uint64_t cores = std::uint64_t{f.spines_per_pod} * f.cores_per_plane;
  return {
      nodes * node.devices() + leaves + spines + cores,
      nodes * (node.links.size() + f.nics) + 2 * leaves * f.spines_per_pod + 2 * spines * f.cores_per_plane};
}

void append_node_links(const NodeLayout& node, const FabricLayout& fabric, std::vector<Link>& links) {
  const std::uint32_t first_leaf = fabric.nodes * node.devices();
  for (std::uint32_t n = 0; n < fabric.nodes; ++n) {
    const std::uint32_t base = n * node.devices();
    std::uint32_t nic = 0;  // the cables of a node's NICs come in the NICs' order
    for (const Link& local : node.links) {
      Link& link = links.emplace_back(local);
      link.from.value += base;
      link.to = local.to == kOutside ? DeviceId(first_leaf + fabric.leaf_of(n, nic++))
                                     : DeviceId(local.to.value + base);
    }
  }
}

struct FabricIds {
  std::uint32_t leaf, spine, core;  // first of each
};

void append_leaf_links(const NodeLayout& node, const FabricLayout& f, const FabricIds& ids,
                       std::vector<Link>& links) {
  for (std::uint32_t leaf = 0; leaf < f.leaves(); ++leaf) {
    const DeviceId from(ids.leaf + leaf);
    for (std::uint32_t port = 0; port < f.ports_in_use(leaf); ++port) {
      const std::uint32_t n = f.node_at(leaf / f.rails, port / f.ports_per_node());
      const std::uint32_t nic = port % f.ports_per_node() * f.rails + leaf % f.rails;
      const DeviceId to(n * node.devices() + node.device(DeviceKind::nic, nic).value);
      const Link& up = node.links[node.uplink[nic]];
      links.push_back({from, to, LinkKind::network, up.bandwidth, up.latency});
    }
    const std::uint32_t first_spine = ids.spine + leaf / f.leaves_per_pod * f.spines_per_pod;
    for (std::uint32_t s = 0; s < f.spines_per_pod; ++s) {
      links.push_back({from, DeviceId(first_spine + s), LinkKind::network, f.uplink, f.switch_latency});
    }
  }
}

void append_spine_and_core_links(const FabricLayout& f, const FabricIds& ids, std::vector<Link>& links) {
  const auto push = [&](std::uint32_t from, std::uint32_t to, BytesPerSecond bandwidth) {
    links.push_back({DeviceId(from), DeviceId(to), LinkKind::network, bandwidth, f.switch_latency});
  };
  for (std::uint32_t spine = 0; spine < f.spines(); ++spine) {
    const std::uint32_t pod = spine / f.spines_per_pod, plane = spine % f.spines_per_pod;
    for (std::uint32_t l = 0; l < f.leaves_in(pod); ++l) {
      push(ids.spine + spine, ids.leaf + pod * f.leaves_per_pod + l, f.uplink);
    }
    for (std::uint32_t c = 0; c < f.cores_per_plane; ++c) {
      push(ids.spine + spine, ids.core + plane * f.cores_per_plane + c, f.core_link);
    }
  }
  for (std::uint32_t core = 0; core < f.cores(); ++core) {
    for (std::uint32_t pod = 0; pod < f.pods; ++pod) {
      push(ids.core + core, ids.spine + pod * f.spines_per_pod + core / f.cores_per_plane, f.core_link);
    }
  }
}

// In the order of their sources, so that a link's place is its edge's place in the CSR graph.
std::vector<Link> make_links(const NodeLayout& node, const FabricLayout& fabric, Sizes sizes) {
  std::vector<Link> links;
  links.reserve(sizes.links);
  append_node_links(node, fabric, links);
  const std::uint32_t leaf = fabric.nodes * node.devices(), spine = leaf + fabric.leaves();
  const FabricIds ids{leaf, spine, spine + fabric.spines()};
  append_leaf_links(node, fabric, ids, links);
  append_spine_and_core_links(fabric, ids, links);
  assert(links.size() == sizes.links);
  return links;
}

std::shared_ptr<const BoostGraph> make_graph(const std::vector<Link>& links, Sizes sizes) {
  const auto ends = [](const Link& link) { return std::pair(link.from.value, link.to.value); };
  return std::make_shared<const BoostGraph>(
      boost::edges_are_sorted, boost::make_transform_iterator(links.begin(), ends),
      boost::make_transform_iterator(links.end(), ends), static_cast<std::uint32_t>(sizes.devices),
      static_cast<std::uint32_t>(sizes.links));
}

DeviceId degraded_device(const Topology& topology, const std::string& name, const std::string& place) {
  try {
    return topology.device_named(name);
  } catch (const InputError& error) {
    throw error.at(place);
  }
}

void degrade(Link& link, const DegradedLink& by) {
  link.bandwidth = link.bandwidth * by.bandwidth_factor;
  link.latency = link.latency + by.extra_latency;
}

void degrade_links(const Topology& topology, std::size_t index, std::vector<Link>& links) {
  const DegradedLink& by = topology.spec().degraded[index];
  const std::string place = "/cluster/degraded/" + std::to_string(index);
  const DeviceId from = degraded_device(topology, by.from, place + "/from");
  const auto both_ways = [&](LinkId forth) {
    degrade(links[forth.index()], by);
    degrade(links[topology.link_between(links[forth.index()].to, from)->index()], by);
  };
  if (by.to) {
    const std::optional<LinkId> link =
        topology.link_between(from, degraded_device(topology, *by.to, place + "/to"));
    if (!link) {
      throw InputError("expected a device with a link to \"" + by.from + "\", found \"" + *by.to + "\"",
                       place + "/to");
    }
    both_ways(*link);
    return;
  }
  for (const auto& edge : boost::make_iterator_range(boost::out_edges(from.value, topology.graph()))) {
    both_ways(LinkId(edge.idx));
  }
}

// Where devices and cables are listed, GPUs and NICs in use may be apart, or very far apart.
void check_routes(const NodeLayout& node) {
  constexpr std::size_t kInFabric = 6;  // NIC, leaf, spine, core, spine, leaf, NIC
  constexpr std::size_t kLongestToNic = (Route::kLongest - kInFabric) / 2;
  const std::uint32_t gpus = node.count(DeviceKind::gpu);
  const auto check = [&](std::uint32_t gpu, std::uint32_t to, std::size_t longest) {
    const std::size_t length = node.route(gpu, to).size();
    if (length > 0 && length <= longest) {
      return;
    }
    const std::string ends = " from gpu" + std::to_string(gpu) + " to " +
                             (to < gpus ? "gpu" + std::to_string(to) : "nic" + std::to_string(to - gpus));
    throw InputError("expected cables that join the GPUs and NICs in use, at most " +
                         std::to_string(longest) + " in a row, found " +
                         (length == 0 ? "no way" : std::to_string(length)) + ends,
                     "/cluster/node/cables");
  };
  for (const std::uint32_t gpu : node.gpus_in_use) {
    for (const std::uint32_t other : node.gpus_in_use) {
      if (other != gpu) {
        check(gpu, other, Route::kLongest);
      }
    }
    for (std::uint32_t nic = 0; nic < node.nics_in_use; ++nic) {
      check(gpu, node.endpoint_of_nic(nic), kLongestToNic);
    }
  }
}

}  // namespace

Topology build_topology(const ClusterSpec& spec) {
  check_cluster(spec);
  Topology t;
  t.spec_ = spec;
  const int in_use = spec.gpus_per_node == 0 ? spec.node.gpus : spec.gpus_per_node;
  t.node_ = make_node_layout(spec.node, static_cast<std::uint32_t>(in_use));
  check_routes(t.node_);
  t.fabric_ = make_fabric_layout(spec);
  const Sizes sizes = sizes_of(t.node_, t.fabric_);
  if (sizes.links > kMostLinks) {
    throw InputError("expected a cluster of at most " + std::to_string(kMostLinks) +
                         " directed links, found " + std::to_string(sizes.links) + " for " +
                         std::to_string(spec.nodes) + " nodes",
                     "/cluster/nodes");
  }
  t.links_ = make_links(t.node_, t.fabric_, sizes);
  t.graph_ = make_graph(t.links_, sizes);
  for (std::size_t i = 0; i < spec.degraded.size(); ++i) {
    degrade_links(t, i, t.links_);
  }
  return t;
}

}  // namespace paceline
