#include <algorithm>
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

// Consecutive nodes of one layout.
struct Nodes {
  std::uint32_t first, count;
  const NodeLayout& layout;
};

// In 64 bits and from the layouts' factors, as their own sums are only right when the cluster is small
// enough.
Sizes sizes_of(const std::vector<Nodes>& runs, const FabricLayout& f) {
  const std::uint64_t leaves = std::uint64_t{f.groups} * f.rails;
  const std::uint64_t spines = std::uint64_t{f.pods} * f.spines_per_pod;
  const std::uint64_t cores = std::uint64_t{f.spines_per_pod} * f.cores_per_plane;
  Sizes sizes{leaves + spines + cores, 2 * leaves * f.spines_per_pod + 2 * spines * f.cores_per_plane};
  for (const auto& [first, count, layout] : runs) {
    sizes.devices += std::uint64_t{count} * layout.devices();
    sizes.links += std::uint64_t{count} * (layout.links.size() + layout.count(DeviceKind::nic));
  }
  return sizes;
}

void append_node_links(const std::vector<Nodes>& runs, const FabricLayout& fabric, std::uint32_t first_leaf,
                       std::vector<Link>& links) {
  std::uint32_t base = 0;
  for (const auto& [first, count, layout] : runs) {
    for (std::uint32_t n = first; n < first + count; ++n) {
      std::uint32_t nic = 0;  // the cables of a node's NICs come in the NICs' order
      for (const Link& local : layout.links) {
        Link& link = links.emplace_back(local);
        link.from.value += base;
        link.to = local.to == kOutside ? DeviceId(first_leaf + fabric.leaf_of(n, nic++))
                                       : DeviceId(local.to.value + base);
      }
      base += layout.devices();
    }
  }
}

struct FabricIds {
  std::uint32_t leaf, spine, core;  // first of each
};

// The NICs of a node, by node.
struct Cards {
  std::uint32_t base;  // the node's first device
  const NodeLayout* layout;
};

std::vector<Cards> cards_of(const std::vector<Nodes>& runs) {
  std::vector<Cards> cards;
  std::uint32_t base = 0;
  for (const auto& [first, count, layout] : runs) {
    for (std::uint32_t n = 0; n < count; ++n) {
      cards.push_back({base, &layout});
      base += layout.devices();
    }
  }
  return cards;
}

void append_leaf_links(const std::vector<Nodes>& runs, const FabricLayout& f, const FabricIds& ids,
                       std::vector<Link>& links) {
  const std::vector<Cards> cards = cards_of(runs);
  for (std::uint32_t leaf = 0; leaf < f.leaves(); ++leaf) {
    const DeviceId from(ids.leaf + leaf);
    const std::uint32_t group = leaf / f.rails, here = f.nodes_in(group, f.nodes);
    for (std::uint32_t place = 0; place < here; ++place) {
      const auto& [base, layout] = cards[f.node_at(group, place)];
      for (std::uint32_t nic = leaf % f.rails; nic < layout->count(DeviceKind::nic); nic += f.rails) {
        const DeviceId to(base + layout->device(DeviceKind::nic, nic).value);
        const Link& up = layout->links[layout->uplink[nic]];
        links.push_back({from, to, LinkKind::network, up.bandwidth, up.latency});
      }
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
std::vector<Link> make_links(const std::vector<Nodes>& runs, const FabricLayout& fabric, const Sizes& sizes) {
  std::vector<Link> links;
  links.reserve(sizes.links);
  const auto leaf = static_cast<std::uint32_t>(sizes.devices - fabric.devices());
  const std::uint32_t spine = leaf + fabric.leaves();
  append_node_links(runs, fabric, leaf, links);
  const FabricIds ids{leaf, spine, spine + fabric.spines()};
  append_leaf_links(runs, fabric, ids, links);
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
  link.latency = link.latency + by.extra_latency.value_or(Seconds{});
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
  const auto in_use = static_cast<std::uint32_t>(gpus_of_node(spec));
  for_each_node(spec, [&](const NodeSpec& node, std::uint32_t first, std::uint32_t) {
    const auto known = std::ranges::find(t.specs_, node);
    t.runs_.push_back({first, static_cast<std::uint32_t>(known - t.specs_.begin()), 0, 0});
    if (known == t.specs_.end()) {
      t.specs_.push_back(node);
      t.kinds_.push_back(make_node_layout(node, in_use));
      check_routes(t.kinds_.back());
    }
  });
  t.fabric_ = make_fabric_layout(spec);
  std::vector<Nodes> runs;
  for (std::size_t i = 0; i < t.runs_.size(); ++i) {
    const std::uint32_t end = i + 1 < t.runs_.size() ? t.runs_[i + 1].first : t.fabric_.nodes;
    runs.push_back({t.runs_[i].first, end - t.runs_[i].first, t.kinds_[t.runs_[i].kind]});
  }
  const Sizes sizes = sizes_of(runs, t.fabric_);
  if (sizes.links > kMostLinks) {
    throw InputError("expected a cluster of at most " + std::to_string(kMostLinks) +
                         " directed links, found " + std::to_string(sizes.links) + " for " +
                         std::to_string(spec.nodes) + " nodes",
                     "/cluster/nodes");
  }
  Topology::Run at;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    t.runs_[i].first_device = at.first_device;
    t.runs_[i].first_link = at.first_link;
    at.first_device += runs[i].count * runs[i].layout.devices();
    at.first_link += runs[i].count * static_cast<std::uint32_t>(runs[i].layout.links.size());
  }
  t.first_leaf_ = at.first_device;
  t.links_ = make_links(runs, t.fabric_, sizes);
  t.graph_ = make_graph(t.links_, sizes);
  for (std::size_t i = 0; i < spec.degraded.size(); ++i) {
    degrade_links(t, i, t.links_);
  }
  return t;
}

}  // namespace paceline
