#include "topology/topology.h"

#include <algorithm>
#include <boost/range/iterator_range.hpp>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "core/error.h"
#include "tests/dice.h"
#include "tests/names_on.h"
#include "topology/boost_graph.h"
#include "topology/nccl_xml.h"

using namespace paceline;
using namespace paceline::units;

namespace {

constexpr std::array kFabrics{FabricKind::single_switch, FabricKind::leaf_spine, FabricKind::rail_optimized,
                              FabricKind::fat_tree};
constexpr std::array kPlacements{Placement::packed, Placement::striped};

ClusterSpec cluster(const std::string& preset, int nodes, FabricKind kind = FabricKind::single_switch,
                    Placement placement = Placement::packed) {
  ClusterSpec spec;
  spec.node = node_preset(preset);
  spec.nodes = nodes;
  spec.fabric.kind = kind;
  spec.fabric.nodes_per_leaf = 3;
  spec.fabric.leaves_per_pod = 2;
  spec.fabric.placement = placement;
  return spec;
}

// Every machine, fabric and placement; sizes that fill no leaf and no pod evenly among them. Clouds' nodes are
// machines with other counts.
void for_each_cluster(const std::function<void(const ClusterSpec&)>& check) {
  for (const std::string& preset : machine_preset_names()) {
    for (const FabricKind kind : kFabrics) {
      for (const Placement placement : kPlacements) {
        for (const int nodes : {1, 2, 3, 6, 11, 16}) {
          if (kSanitized && nodes > 3) {
            break;
          }
          check(cluster(preset, nodes, kind, placement));
        }
      }
    }
  }
}

std::string text(const ClusterSpec& spec) {
  std::ostringstream out;
  out << spec.node.name << " nodes " << spec.nodes << " gpus " << spec.gpus_per_node << " fabric "
      << static_cast<int>(spec.fabric.kind) << " placement " << static_cast<int>(spec.fabric.placement)
      << " leaf " << spec.fabric.nodes_per_leaf << " pod " << spec.fabric.leaves_per_pod << " over "
      << spec.fabric.oversubscription;
  return out.str();
}

using Names = std::vector<std::string>;

std::vector<DeviceId> devices_of(const Topology& t, DeviceKind kind) {
  std::vector<DeviceId> found;
  for (std::uint32_t d = 0; d < t.devices(); ++d) {
    if (t.device_kind(DeviceId(d)) == kind) {
      found.emplace_back(d);
    }
  }
  return found;
}

std::vector<LinkId> links_out(const Topology& t, DeviceId device) {
  std::vector<LinkId> found;
  for (std::uint32_t k = 0; k < t.links(); ++k) {
    if (t.link(LinkId(k)).from == device) {
      found.emplace_back(k);
    }
  }
  return found;
}

std::string node_of(const std::string& device) { return device.substr(0, device.find('/')); }

// "" or what is wrong with the route.
std::string fault(const Topology& t, const Route& route, Rank from, Rank to, int channel) {
  if (route.size == 0 || t.link(*route.begin()).from != t.gpu_of(from)) {
    return "does not start at its rank";
  }
  std::set<DeviceId> seen{t.gpu_of(from)};
  DeviceId at = t.gpu_of(from);
  std::size_t nics = 0;
  for (const LinkId id : route) {
    const Link& link = t.link(id);
    if (link.from != at || !seen.insert(link.to).second) {
      return "is broken, or comes twice to a device";
    }
    at = link.to;
    const bool crosses =
        (t.device_kind(link.from) == DeviceKind::nic) != (t.device_kind(link.to) == DeviceKind::nic);
    const DeviceId nic = t.device_kind(link.from) == DeviceKind::nic ? link.from : link.to;
    if (crosses && link.kind == LinkKind::network) {
      ++nics;
      const std::string name = t.device_name(nic);
      if (name.substr(name.find('/')) != "/nic" + std::to_string(channel % t.spec().node.nics)) {
        return "uses another NIC than its channel's";
      }
    }
  }
  const bool inside = node_of(t.device_name(t.gpu_of(from))) == node_of(t.device_name(t.gpu_of(to)));
  if (nics != (inside ? 0U : 2U)) {
    return "does not leave and enter nodes through one NIC each";
  }
  return at == t.gpu_of(to) ? "" : "does not end at its rank";
}

std::string place_of_error(const ClusterSpec& spec) {
  try {
    build_topology(spec);
  } catch (const InputError& error) {
    return error.place();
  }
  return "no error";
}

}  // namespace

TEST_CASE("every device's name leads back to its number and its kind") {
  const std::array<std::string, 8> words{"gpu", "nvswitch", "pcie", "cpu", "nic", "leaf", "spine", "core"};
  for_each_cluster([&](const ClusterSpec& spec) {
    const Topology t = build_topology(spec);
    CAPTURE(text(spec));
    std::set<std::string> names;
    bool right = true;
    for (std::uint32_t d = 0; d < t.devices(); ++d) {
      const std::string name = t.device_name(DeviceId(d));
      names.insert(name);
      const std::string last = name.substr(name.find('/') + 1);
      right = right && t.device_named(name) == DeviceId(d) &&
              last.substr(0, last.find_first_of("0123456789")) ==
                  words[static_cast<std::size_t>(t.device_kind(DeviceId(d)))];
    }
    CHECK(right);
    CHECK(names.size() == t.devices());
  });
}

TEST_CASE("names that are no device of the cluster are errors that say what there is") {
  const Topology t = build_topology(cluster("dgx-h100", 4, FabricKind::leaf_spine));
  for (const char* name : {"", "/", "node0", "gpu0", "node4/gpu0", "node0/gpu8", "node0/gpu08", "node00/gpu0",
                           "leaf2", "node0/leaf0", "leaf", "core0", "node0/nvswitch0", "node0/gpu0x",
                           "nod0/gpu0", "node0/gpu-1", "node0/gpu99999999999999999999", "node0/gpu0/gpu0"}) {
    CAPTURE(name);
    CHECK_THROWS_AS(t.device_named(name), InputError);
  }
  CHECK_THROWS_WITH(t.device_named("node9/gpu0"),
                    Catch::Contains("node0 to node3 / gpu0 to gpu7, nvswitch, ") &&
                        Catch::Contains("found \"node9/gpu0\""));
}

TEST_CASE("a link is its edge in the CSR graph and has a twin the other way") {
  for_each_cluster([](const ClusterSpec& spec) {
    const Topology t = build_topology(spec);
    CAPTURE(text(spec));
    REQUIRE(boost::num_vertices(t.graph()) == t.devices());
    REQUIRE(boost::num_edges(t.graph()) == t.links());
    bool same = true, twins = true;
    for (const auto& edge : boost::make_iterator_range(boost::edges(t.graph()))) {
      const Link& link =
          t.link(LinkId(static_cast<std::size_t>(boost::get(boost::edge_index, t.graph(), edge))));
      same = same && link.from.value == boost::source(edge, t.graph()) &&
             link.to.value == boost::target(edge, t.graph());
      const std::optional<LinkId> back = t.link_between(link.to, link.from);
      twins = twins && back && t.link(*back).bandwidth == link.bandwidth &&
              t.link(*back).latency == link.latency && t.link(*back).kind == link.kind;
    }
    CHECK(same);
    CHECK(twins);
  });
}

TEST_CASE("routes lead from rank to rank through the NICs of their channel, in every fabric") {
  std::mt19937 random(7);  // NOLINT: the same pairs in every run
  for_each_cluster([&](ClusterSpec spec) {
    for (const int gpus : {0, 1, 3}) {
      spec.gpus_per_node = gpus;
      const Topology t = build_topology(spec);
      if (t.ranks() < 2) {
        continue;
      }
      CAPTURE(text(spec));
      const int nics = gpus == 0 ? spec.node.nics : 1;  // of three GPUs or one: channel 0 tells
      for (int i = 0; i < 60; ++i) {
        const Rank from(random() % t.ranks());
        const Rank to((from.index() + 1 + random() % (t.ranks() - 1)) % t.ranks());
        const int channel = gpus == 0 ? static_cast<int>(random() % 24) : 0;
        const std::string wrong = fault(t, t.route(from, to, channel % nics), from, to, channel % nics);
        if (!wrong.empty()) {
          FAIL_CHECK("route of channel " << channel << " from rank " << from.value << " to " << to.value
                                         << " " << wrong);
        }
        CHECK(t.route(from, to, channel).size == t.route(from, to, channel % nics).size);
      }
    }
  });
}

TEST_CASE("between any GPUs and CPUs there is a way of links that join, in every fabric") {
  for_each_cluster([](const ClusterSpec& spec) {
    const Topology t = build_topology(spec);
    CAPTURE(text(spec));
    std::vector<DeviceId> ends;
    for (std::size_t node = 0; node < std::min<std::size_t>(2, static_cast<std::size_t>(spec.nodes));
         ++node) {
      for (std::uint32_t d = 0; d < t.node().devices(); ++d) {
        const DeviceKind kind = t.node().kind_of(DeviceId(d));
        const std::uint32_t number = d - t.node().device(kind, 0).value;
        const bool used =
            kind == DeviceKind::cpu
                ? number < t.node().count(kind)
                : kind == DeviceKind::gpu && std::ranges::binary_search(t.node().gpus_in_use, number);
        if (used && (number < 2 || number % 7 == 6)) {
          ends.emplace_back(node * t.node().devices() + d);
        }
      }
    }
    for (const DeviceId from : ends) {
      for (const DeviceId to : ends) {
        if (from == to || (t.node().nics_in_use == 0 && t.device_name(from)[4] != t.device_name(to)[4])) {
          continue;
        }
        const Route route = t.route_between(from, to, 0, 0);
        INFO(t.device_name(from) << " to " << t.device_name(to));
        if (spec.node.name.ends_with("-nvl72") &&
            route.size == 0) {  // trays share no CPU, and CPUs have no NVLink
          CHECK((t.device_kind(from) == DeviceKind::cpu || t.device_kind(to) == DeviceKind::cpu));
          continue;
        }
        REQUIRE(route.size > 0);
        CHECK(t.link(*route.begin()).from == from);
        CHECK(t.link(*(route.end() - 1)).to == to);
        for (const LinkId* link = route.begin(); link + 1 != route.end(); ++link) {
          CHECK(t.link(*link).to == t.link(*(link + 1)).from);
        }
      }
    }
  });
  const Topology pcie = build_topology(cluster("pcie-a100", 1));
  const Route route =
      pcie.route_between(pcie.device_named("node0/gpu7"), pcie.device_named("node0/cpu0"), 0, 0);
  CHECK(names_on(pcie, route) == Names{"node0/gpu7", "node0/pcie3", "node0/cpu1", "node0/cpu0"});
}

TEST_CASE("inside a node NVLink comes first, one GPU may stand between, PCIe is left") {
  const Topology switched = build_topology(cluster("dgx-h100", 1));
  CHECK(names_on(switched, switched.route(Rank(1), Rank(6), 0)) ==
        Names{"node0/gpu1", "node0/nvswitch", "node0/gpu6"});

  const Topology v100 = build_topology(cluster("dgx1-v100", 1));
  CHECK(names_on(v100, v100.route(Rank(0), Rank(3), 0)) == Names{"node0/gpu0", "node0/gpu3"});
  // By way of 3 the narrowest pair has one link, by way of 4 two.
  CHECK(names_on(v100, v100.route(Rank(0), Rank(7), 0)) == Names{"node0/gpu0", "node0/gpu4", "node0/gpu7"});
  // By way of 2 or 4 one link is the narrowest: the lower number.
  CHECK(names_on(v100, v100.route(Rank(0), Rank(6), 0)) == Names{"node0/gpu0", "node0/gpu2", "node0/gpu6"});

  const Topology pcie = build_topology(cluster("pcie-a100", 1));
  CHECK(names_on(pcie, pcie.route(Rank(0), Rank(1), 0)) == Names{"node0/gpu0", "node0/pcie0", "node0/gpu1"});
  CHECK(names_on(pcie, pcie.route(Rank(0), Rank(7), 0)) ==
        Names{"node0/gpu0", "node0/pcie0", "node0/cpu0", "node0/cpu1", "node0/pcie3", "node0/gpu7"});

  ClusterSpec chain = cluster("dgx1-p100", 1);  // 0 - 1 - 2 - 3: two GPUs between the ends are one too many
  chain.node.mesh = {{0, 1, 1}, {1, 2, 1}, {2, 3, 1}};
  const Topology t = build_topology(chain);
  CHECK(t.hop_kind(t.route(Rank(0), Rank(2), 0)) == HopKind::nvlink);
  CHECK(t.hop_kind(t.route(Rank(0), Rank(3), 0)) == HopKind::pcie);
}

TEST_CASE("a GPU reaches another GPU's NIC through that GPU, not over the CPUs") {
  const Topology h100 = build_topology(cluster("dgx-h100", 2));
  CHECK(names_on(h100, h100.route(Rank(2), Rank(8 + 5), 3)) ==
        Names{"node0/gpu2", "node0/nvswitch", "node0/gpu3", "node0/pcie3", "node0/nic3", "leaf0",
              "node1/nic3", "node1/pcie3", "node1/gpu3", "node1/nvswitch", "node1/gpu5"});
  CHECK(h100.hop_kind(h100.route(Rank(2), Rank(13), 3)) == HopKind::network);

  const Topology a100 = build_topology(cluster("dgx-a100", 2));
  CHECK(names_on(a100, a100.route(Rank(6), Rank(8), 7)) ==  // its own PCIe switch; then NIC 7's own GPU
        Names{"node0/gpu6", "node0/pcie3", "node0/nic7", "leaf0", "node1/nic7", "node1/pcie3", "node1/gpu7",
              "node1/nvswitch", "node1/gpu0"});

  const Topology v100 = build_topology(cluster("dgx1-v100", 2));
  CHECK(names_on(v100, v100.route(Rank(0), Rank(8), 2)) ==  // 0 and 4 are neighbours, 0 and 6 or 7 are not
        Names{"node0/gpu0", "node0/gpu4", "node0/pcie2", "node0/nic2", "leaf0", "node1/nic2", "node1/pcie2",
              "node1/gpu4", "node1/gpu0"});
  CHECK(names_on(v100, v100.route(Rank(0), Rank(14), 3)) ==
        Names{"node0/gpu0", "node0/pcie0", "node0/cpu0", "node0/cpu1", "node0/pcie3", "node0/nic3", "leaf0",
              "node1/nic3", "node1/pcie3", "node1/gpu6"});
}

TEST_CASE("without GPUDirect the network passes through the memory of the GPU's CPU") {
  ClusterSpec spec = cluster("dgx-h100", 2);
  spec.node.gpu_direct = false;
  const Topology h100 = build_topology(spec);
  CHECK(names_on(h100, h100.route(Rank(2), Rank(8 + 5), 5)) ==  // NIC 5 hangs on the other CPU
        Names{"node0/gpu2", "node0/pcie2", "node0/cpu0", "node0/cpu1", "node0/pcie5", "node0/nic5", "leaf0",
              "node1/nic5", "node1/pcie5", "node1/cpu1", "node1/pcie5", "node1/gpu5"});
  CHECK(h100.hop_kind(h100.route(Rank(2), Rank(13), 5)) == HopKind::network);
  CHECK(names_on(h100, h100.route(Rank(1), Rank(6), 0)) ==  // inside a node all is as before
        Names{"node0/gpu1", "node0/nvswitch", "node0/gpu6"});
  CHECK(h100.route(Rank(0), Rank(8), 0).size ==
        build_topology(cluster("dgx-h100", 2)).route(Rank(0), Rank(8), 0).size + 4);
}

TEST_CASE("GPUs that the job does not use forward nothing, and NICs far from the used ones stay idle") {
  ClusterSpec spec = cluster("dgx-a100", 2);
  spec.gpus_per_node = 3;  // PCIe switches 0 and 1, NICs 0 to 3
  const Topology t = build_topology(spec);
  CHECK(t.ranks() == 6);
  CHECK(t.gpus_per_node() == 3);
  CHECK(t.device_name(t.gpu_of(Rank(5))) == "node1/gpu2");
  CHECK(t.node().nics_in_use == 4);
  CHECK(names_on(t, t.route(Rank(0), Rank(3), 3)).at(2) ==
        "node0/gpu2");  // not GPU 3, though NIC 3 is its own
  CHECK(names_on(t, t.route(Rank(0), Rank(3), 4)) == names_on(t, t.route(Rank(0), Rank(3), 0)));

  ClusterSpec mesh = cluster("dgx1-v100", 1);
  mesh.gpus_per_node = 8;
  CHECK(build_topology(mesh).route(Rank(0), Rank(5), 0).size == 2);
  mesh.node.mesh = {{0, 7, 1}, {7, 1, 1}};
  CHECK(build_topology(mesh).route(Rank(0), Rank(1), 0).size == 2);
  mesh.gpus_per_node = 2;
  const Topology two = build_topology(mesh);
  CHECK(two.hop_kind(two.route(Rank(0), Rank(1), 0)) == HopKind::pcie);
}

TEST_CASE("the length of a route does not depend on the size of the cluster") {
  const auto lengths = [](FabricKind kind, int nodes) {
    const Topology t = build_topology(cluster("dgx-h100", nodes, kind));
    const std::array<Rank, 3> ends{Rank(8), Rank(24), Rank(static_cast<std::size_t>(8 * nodes - 1))};
    std::array<std::size_t, 3> sizes{};
    for (std::size_t i = 0; i < ends.size(); ++i) {
      sizes[i] = t.route(Rank(0), ends[i], 1).size;
    }
    return sizes;
  };
  for (const FabricKind kind : kFabrics) {
    CHECK(lengths(kind, 12) == lengths(kind, 1200));
  }
  // 4 + 4 links inside the nodes; 2 to 6 in the fabric: the same leaf, the same pod, another pod.
  CHECK(lengths(FabricKind::single_switch, 12) == std::array<std::size_t, 3>{10, 10, 10});
  CHECK(lengths(FabricKind::fat_tree, 12) == std::array<std::size_t, 3>{10, 12, 14});
}

TEST_CASE("a leaf's cables up sum to its ports' bandwidth over the oversubscription") {
  for (const FabricKind kind : {FabricKind::leaf_spine, FabricKind::rail_optimized, FabricKind::fat_tree}) {
    for (const double over : {1.0, 1.6, 3.0, 1000.0}) {
      for (const int per_leaf : {1, 5, 20}) {
        ClusterSpec spec = cluster("dgx-h100", 3 * per_leaf + 1, kind);
        spec.fabric.nodes_per_leaf = per_leaf;
        spec.fabric.oversubscription = over;
        CAPTURE(text(spec));
        const Topology t = build_topology(spec);
        const int ports = per_leaf * (kind == FabricKind::rail_optimized ? 1 : 8);
        const double expected = ports * spec.node.nic_bandwidth.value / over;
        const auto spines = static_cast<double>(devices_of(t, DeviceKind::spine).size());
        const double pods = kind == FabricKind::fat_tree ? 2 : 1;
        CHECK(spines / pods == std::clamp(std::ceil(ports / over - 1e-6), 1.0, 64.0));
        for (const DeviceId leaf : devices_of(t, DeviceKind::leaf)) {
          double up = 0;
          for (const LinkId id : links_out(t, leaf)) {
            up += t.device_kind(t.link(id).to) == DeviceKind::spine ? t.link(id).bandwidth.value : 0;
          }
          CHECK(up == Approx(expected).epsilon(1e-12));
        }
      }
    }
  }
}

TEST_CASE("a fat tree's spines have as much bandwidth up as down") {
  const ClusterSpec spec = cluster("dgx-a100", 24, FabricKind::fat_tree);
  const Topology t = build_topology(spec);
  REQUIRE(devices_of(t, DeviceKind::core).size() > 0);
  for (const DeviceId spine : devices_of(t, DeviceKind::spine)) {
    std::map<DeviceKind, double> sum;
    for (const LinkId id : links_out(t, spine)) {
      sum[t.device_kind(t.link(id).to)] += t.link(id).bandwidth.value;
    }
    CHECK(sum[DeviceKind::core] == Approx(sum[DeviceKind::leaf]).epsilon(1e-12));
  }
}

TEST_CASE("without oversubscription the flows of a shifted permutation share no cable") {
  for (const FabricKind kind : kFabrics) {
    for (const Placement placement : kPlacements) {
      const ClusterSpec spec = cluster("dgx-h100", 12, kind, placement);
      const Topology t = build_topology(spec);
      for (const std::size_t shift : {1U, 3U, 5U, 6U}) {
        CAPTURE(text(spec), shift);
        std::map<LinkId, double> load;  // B/s that the NICs could send over a link
        for (std::size_t n = 0; n < 12; ++n) {
          for (std::size_t c = 0; c < 8; ++c) {
            const Rank from(8 * n + c), to(8 * ((n + shift) % 12) + c);
            for (const LinkId id : t.route(from, to, static_cast<int>(c))) {
              if (t.link(id).kind == LinkKind::network) {
                load[id] += spec.node.nic_bandwidth.value;
              }
            }
          }
        }
        CHECK(std::ranges::all_of(
            load, [&](const auto& l) { return l.second <= t.link(l.first).bandwidth.value; }));
      }
    }
  }
}

TEST_CASE("rail-optimized: NIC i of every node of a pod hangs on the pod's leaf i") {
  const Topology t = build_topology(cluster("dgx-h100", 7, FabricKind::rail_optimized));
  const auto leaf_of = [&](int node, int nic) {
    const DeviceId device = t.device_named("node" + std::to_string(node) + "/nic" + std::to_string(nic));
    for (const LinkId id : links_out(t, device)) {
      if (t.link(id).kind == LinkKind::network) {
        return t.device_name(t.link(id).to);
      }
    }
    return std::string();
  };
  for (int node = 0; node < 7; ++node) {
    for (int nic = 0; nic < 8; ++nic) {
      CHECK(leaf_of(node, nic) == "leaf" + std::to_string(node / 3 * 8 + nic));
    }
  }
  ClusterSpec one_rail = cluster("pcie-a100", 3, FabricKind::rail_optimized);
  CHECK(devices_of(build_topology(one_rail), DeviceKind::leaf).size() == 1);
  CHECK(devices_of(build_topology(one_rail), DeviceKind::spine).empty());
  CHECK(!devices_of(build_topology(cluster("dgx-h100", 3, FabricKind::rail_optimized)), DeviceKind::spine)
             .empty());
}

TEST_CASE("striped placement puts consecutive nodes on different leaves and fills every port once") {
  for (const std::string& preset : {std::string("dgx-h100"), std::string("pcie-a100")}) {
    for (const FabricKind kind : {FabricKind::leaf_spine, FabricKind::rail_optimized, FabricKind::fat_tree}) {
      for (const int nodes : {4, 7, 9, 20}) {
        const ClusterSpec spec = cluster(preset, nodes, kind, Placement::striped);
        const Topology t = build_topology(spec);
        CAPTURE(text(spec));
        std::vector<DeviceId> leaf;
        for (int n = 0; n < nodes; ++n) {
          for (const LinkId id : links_out(t, t.device_named("node" + std::to_string(n) + "/nic0"))) {
            if (t.link(id).kind == LinkKind::network) {
              leaf.push_back(t.link(id).to);
            }
          }
        }
        REQUIRE(leaf.size() == static_cast<std::size_t>(nodes));
        CHECK(std::ranges::adjacent_find(leaf) == leaf.end());
        std::map<DeviceId, int> on;
        for (const DeviceId l : leaf) {
          ++on[l];
        }
        CHECK(static_cast<int>(on.size()) == (nodes + 2) / 3);
        CHECK(std::ranges::all_of(on, [](const auto& l) { return l.second <= 3; }));
      }
    }
  }
}

TEST_CASE("a degraded link is slower in both directions, and nothing else is") {
  ClusterSpec spec = cluster("dgx-h100", 4, FabricKind::leaf_spine);
  const Topology plain = build_topology(spec);
  const auto changed = [&](const Topology& t) {
    std::set<std::string> names;
    for (std::uint32_t k = 0; k < t.links(); ++k) {
      const Link &was = plain.link(LinkId(k)), &is = t.link(LinkId(k));
      if (was.bandwidth != is.bandwidth || was.latency != is.latency) {
        CHECK(is.bandwidth.value == was.bandwidth.value * 0.25);
        CHECK(is.latency.value == was.latency.value + 3e-6);
        names.insert(t.link_name(LinkId(k)));
      }
    }
    return names;
  };
  spec.degraded = {{"leaf1", "node3/nic5", 0.25, 3.0_us}};
  CHECK(changed(build_topology(spec)) == std::set<std::string>{"leaf1 - node3/nic5", "node3/nic5 - leaf1"});
  spec.degraded = {{"node2/nic0", std::nullopt, 0.25, 3.0_us}};
  CHECK(changed(build_topology(spec)) == std::set<std::string>{"leaf0 - node2/nic0", "node2/nic0 - leaf0",
                                                               "node2/nic0 - node2/pcie0",
                                                               "node2/pcie0 - node2/nic0"});
  spec.degraded = {{"spine3", std::nullopt, 0.25, 3.0_us}};
  CHECK(changed(build_topology(spec)).size() == 4);

  spec.degraded = {{"node0/gpu0", "node0/nvswitch", 0.5, 1.0_us},
                   {"node0/nvswitch", "node0/gpu0", 0.5, 2.0_us}};
  CHECK(changed(build_topology(spec)).size() == 2);  // two reports of one cable add up
}

TEST_CASE("a degraded link leaves every route as it was") {
  ClusterSpec spec = cluster("dgx1-v100", 4, FabricKind::fat_tree);
  const Topology plain = build_topology(spec);
  spec.degraded = {{"node0/gpu4", std::nullopt, 0.01, {}}, {"spine0", std::nullopt, 0.01, {}}};
  const Topology slow = build_topology(spec);
  for (std::uint32_t r = 1; r < plain.ranks(); ++r) {
    CHECK(names_on(plain, plain.route(Rank(0), Rank(r), 0)) ==
          names_on(slow, slow.route(Rank(0), Rank(r), 0)));
  }
}

TEST_CASE("a spec without meaning is an error that names its place") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<std::string, std::function<void(ClusterSpec&)>>> bad{
      {"/nodes", [](ClusterSpec& s) { s.nodes = 0; }},
      {"/nodes", [](ClusterSpec& s) { s.nodes = std::numeric_limits<int>::max(); }},
      {"/nodes", [](ClusterSpec& s) { s.nodes = 9'000'000; }},  // too many links
      {"/gpus_per_node", [](ClusterSpec& s) { s.gpus_per_node = 9; }},
      {"/gpus_per_node", [](ClusterSpec& s) { s.gpus_per_node = -1; }},
      {"/node/gpus", [](ClusterSpec& s) { s.node.gpus = 0; }},
      {"/node/pcie_switches", [](ClusterSpec& s) { s.node.pcie_switches = 0; }},
      {"/node/sockets", [](ClusterSpec& s) { s.node.sockets = -2; }},
      {"/node/nics", [](ClusterSpec& s) { s.node.nics = -1; }},
      {"/node/nics", [](ClusterSpec& s) { s.node.nics = 0; }},
      {"/node/nic_ports", [](ClusterSpec& s) { s.node.nic_ports = 0; }},
      {"/node/nic_ports", [](ClusterSpec& s) { s.node.nic_ports = 17; }},
      {"/node/nic_bandwidth", [](ClusterSpec& s) { s.node.nic_bandwidth = BytesPerSecond(0); }},
      {"/node/pcie_bandwidth", [=](ClusterSpec& s) { s.node.pcie_bandwidth = BytesPerSecond(inf); }},
      {"/node/nvlink_bandwidth", [](ClusterSpec& s) { s.node.nvlink_bandwidth = BytesPerSecond(-1); }},
      {"/node/socket_bandwidth", [=](ClusterSpec& s) { s.node.socket_bandwidth = BytesPerSecond(nan); }},
      {"/node/nic_latency", [](ClusterSpec& s) { s.node.nic_latency = Seconds(-1e-9); }},
      {"/node/pcie_latency", [=](ClusterSpec& s) { s.node.pcie_latency = Seconds(nan); }},
      {"/node/nvlink_latency", [=](ClusterSpec& s) { s.node.nvlink_latency = Seconds(inf); }},
      {"/node/socket_latency", [](ClusterSpec& s) { s.node.socket_latency = Seconds(-1); }},
      {"/node/mesh/1/a", [](ClusterSpec& s) { s.node.mesh[1].a = 8; }},
      {"/node/mesh/2/b", [](ClusterSpec& s) { s.node.mesh[2].b = -1; }},
      {"/node/mesh/0/count", [](ClusterSpec& s) { s.node.mesh[0].count = 0; }},
      {"/node/mesh/3", [](ClusterSpec& s) { s.node.mesh[3].b = s.node.mesh[3].a; }},
      {"/node/mesh/16", [](ClusterSpec& s) { s.node.mesh.push_back({1, 0, 1}); }},
      {"/node/mesh", [](ClusterSpec& s) { s.node.mesh.clear(); }},
      {"/node/mesh", [](ClusterSpec& s) { s.node.wiring = NvlinkWiring::nvswitch; }},
      {"/fabric/nodes_per_leaf", [](ClusterSpec& s) { s.fabric.nodes_per_leaf = 0; }},
      {"/fabric/leaves_per_pod", [](ClusterSpec& s) { s.fabric.leaves_per_pod = -3; }},
      {"/fabric/oversubscription", [](ClusterSpec& s) { s.fabric.oversubscription = 0.99; }},
      {"/fabric/oversubscription", [=](ClusterSpec& s) { s.fabric.oversubscription = nan; }},
      {"/fabric/oversubscription", [=](ClusterSpec& s) { s.fabric.oversubscription = inf; }},
      {"/fabric/switch_latency", [](ClusterSpec& s) { s.fabric.switch_latency = Seconds(-1); }},
      {"/degraded/0/from", [](ClusterSpec& s) { s.degraded = {{"node4/nic0", std::nullopt, 1, {}}}; }},
      {"/degraded/1/to",
       [](ClusterSpec& s) { s.degraded = {{"leaf0", std::nullopt, 1, {}}, {"node0/nic0", "lief0", 1, {}}}; }},
      {"/degraded/0/to", [](ClusterSpec& s) { s.degraded = {{"node0/gpu0", "node1/gpu0", 1, {}}}; }},
      {"/degraded/0/bandwidth_factor", [](ClusterSpec& s) { s.degraded = {{"leaf0", std::nullopt, 0, {}}}; }},
      {"/degraded/0/bandwidth_factor",
       [](ClusterSpec& s) { s.degraded = {{"leaf0", std::nullopt, 1.5, {}}}; }},
      {"/degraded/0/extra_latency",
       [](ClusterSpec& s) { s.degraded = {{"leaf0", std::nullopt, 1, Seconds(-1)}}; }},
  };
  const ClusterSpec good = cluster("dgx1-v100", 4);
  CHECK(place_of_error(good) == "no error");
  for (const auto& [place, spoil] : bad) {
    ClusterSpec spec = good;
    spoil(spec);
    CHECK(place_of_error(spec) == "/cluster" + place);
  }
  ClusterSpec none = good;
  none.nodes = 0;
  CHECK_THROWS_WITH(build_topology(none), "/cluster/nodes: expected 1 to 10000000 nodes, found 0");
}

namespace {

// Two channels through the first three GPUs of dgx1-v100, NICs 0 and 1.
ChannelGraphs three_gpus() {
  ChannelGraph graph;
  graph.bw_intra = graph.bw_inter = 20;
  graph.channels = {{{0, 1, 2}, 0, 0}, {{2, 1, 0}, 1, 1}};
  ChannelGraphs graphs{graph, graph, graph, graph, graph, 4, 16};
  graphs.tree.pattern = GraphPattern::balanced_tree;
  graphs.collnet_chain.pattern = GraphPattern::tree;
  graphs.collnet_direct.pattern = GraphPattern::collnet_direct;
  graphs.nvls.pattern = GraphPattern::nvls;
  return graphs;
}

}  // namespace

TEST_CASE("graphs of a job without meaning are an error that names its place") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<std::string, std::function<void(ChannelGraphs&)>>> bad{
      {"/ring/channels", [](ChannelGraphs& g) { g.ring.channels.clear(); }},
      {"/ring/channels", [](ChannelGraphs& g) { g.ring.channels.resize(65, g.ring.channels[0]); }},
      {"/nvls/channels", [](ChannelGraphs& g) { g.nvls.channels.resize(65, g.ring.channels[0]); }},
      {"/ring/channels/1/gpus", [](ChannelGraphs& g) { g.ring.channels[1].gpus.pop_back(); }},
      {"/ring/channels/0/gpus", [](ChannelGraphs& g) { g.ring.channels[0].gpus.push_back(3); }},
      {"/ring/channels/0/gpus", [](ChannelGraphs& g) { g.ring.channels[0].gpus.clear(); }},
      {"/tree/channels/0/gpus", [](ChannelGraphs& g) { g.tree.channels[0].gpus[0] = 1; }},
      {"/tree/channels/1/gpus", [](ChannelGraphs& g) { g.tree.channels[1].gpus[2] = -1; }},
      {"/collnet_chain/channels/0/gpus", [](ChannelGraphs& g) { g.collnet_chain.channels[0].gpus[0] = 3; }},
      {"/nvls/channels/1/gpus", [](ChannelGraphs& g) { g.nvls.channels[1].gpus.resize(1); }},
      {"/ring/channels/0/nic_in", [](ChannelGraphs& g) { g.ring.channels[0].nic_in = -1; }},
      {"/collnet_direct/channels/1/nic_out",
       [](ChannelGraphs& g) { g.collnet_direct.channels[1].nic_out = 4; }},
      {"/ring/bw_intra", [](ChannelGraphs& g) { g.ring.bw_intra = 0; }},
      {"/tree/bw_intra", [=](ChannelGraphs& g) { g.tree.bw_intra = nan; }},
      {"/nvls/bw_inter", [=](ChannelGraphs& g) { g.nvls.bw_inter = inf; }},
      {"/tree/bw_inter", [](ChannelGraphs& g) { g.tree.bw_inter = -1; }},
      {"/ring/bw_inter", [](ChannelGraphs& g) { g.ring.bw_inter = 0; }},
      {"/ring/latency_inter", [=](ChannelGraphs& g) { g.ring.latency_inter = nan; }},
      {"/ring/cross_nic", [](ChannelGraphs& g) { g.ring.cross_nic = 3; }},
      {"/channels", [](ChannelGraphs& g) { g.channels = -1; }},
      {"/nvls_channels", [](ChannelGraphs& g) { g.channels = 0; }},
      {"/channels", [](ChannelGraphs& g) { g.channels = 65; }},
      {"/nvls_channels", [](ChannelGraphs& g) { g.nvls_channels = 0; }},
      {"/nvls_channels", [](ChannelGraphs& g) { g.nvls_channels = 65; }},
  };
  ClusterSpec good = cluster("dgx1-v100", 2);
  good.gpus_per_node = 3;
  good.graphs = three_gpus();
  CHECK(place_of_error(good) == "no error");
  ClusterSpec uncounted = good;
  uncounted.graphs->channels = uncounted.graphs->nvls_channels = 0;
  CHECK(place_of_error(uncounted) == "no error");
  for (std::size_t i = 0; i < bad.size(); ++i) {
    CAPTURE(i);
    ClusterSpec spec = good;
    bad[i].second(*spec.graphs);
    CHECK(place_of_error(spec) == "/cluster/graphs" + bad[i].first);
  }
  ClusterSpec other_gpus = good;
  other_gpus.gpus_per_node = 0;
  CHECK_THROWS_WITH(
      build_topology(other_gpus),
      "/cluster/graphs/ring/channels/0/gpus: expected each GPU 0 to 7 once, as these are in use, "
      "found 0 1 2");
}

TEST_CASE("channels of a graph file that are given by their heads go on with the other GPUs in order") {
  const auto text = [](const std::string& head) {
    const auto channel = [](const std::string& gpus) { return "<channel>" + gpus + "</channel>"; };
    const std::string gpu0 = R"(<gpu dev="0"/>)", gpu1 = R"(<gpu dev="1"/>)", gpu2 = R"(<gpu dev="2"/>)";
    return R"(<graphs version="1"><graph id="3" speedintra="20" speedinter="20">)" + channel(head) +
           R"(</graph><graph id="4" speedintra="20" speedinter="20">)" + channel(gpu2) + channel(gpu0) +
           R"(</graph><graph id="0" speedintra="20" speedinter="20">)" + channel(gpu1 + gpu2 + gpu0) +
           "</graph></graphs>";
  };
  ClusterSpec spec = cluster("dgx1-v100", 1);
  spec.gpus_per_node = 3;
  spec.node = with_devices(spec.node);
  int gpus = 0;
  for (NodeDevice& device : spec.node.devices) {
    device.number = device.kind == NodePart::gpu ? gpus++ : device.number;
  }
  spec.graphs = read_nccl_graphs(text(R"(<gpu dev="1"/>)"), "", &spec.node);
  CHECK(spec.graphs->nvls.channels.at(0).gpus == std::vector{1, 0, 2});
  CHECK(spec.graphs->collnet_direct.channels.at(0).gpus == std::vector{2, 0, 1});
  CHECK(spec.graphs->collnet_direct.channels.at(1).gpus == std::vector{0, 1, 2});
  CHECK(place_of_error(spec) == "no error");
  CHECK(read_nccl_graphs(text(R"(<gpu dev="2"/>)"), "").nvls.channels.at(0).gpus == std::vector{2, 0, 1});
  CHECK_THROWS_WITH(read_nccl_graphs(text(R"(<gpu dev="3"/>)"), "g.xml", &spec.node),
                    Catch::Contains("expected one of the first 3 GPUs at the head"));
}

TEST_CASE("graphs of a job may lack what the job does without") {
  ClusterSpec spec = cluster("dgx1-v100", 1);
  spec.gpus_per_node = 3;
  spec.graphs = three_gpus();
  for (NodeChannel& channel : spec.graphs->ring.channels) {
    channel.nic_in = channel.nic_out = -1;
  }
  spec.graphs->nvls.bw_inter = 0;
  CHECK(place_of_error(spec) == "no error");
  const ChannelGraph ring = spec.graphs->ring;
  spec.graphs.emplace();
  spec.graphs->ring = ring;
  spec.graphs->channels = 4;
  CHECK(place_of_error(spec) == "no error");
  CHECK(build_topology(spec).spec().graphs->ring.channels.size() == 2);
}

TEST_CASE("one node needs no NIC") {
  ClusterSpec spec = cluster("dgx-h100", 1);
  spec.node.nics = 0;
  const Topology t = build_topology(spec);
  CHECK(t.devices() == 8 + 1 + 8 + 2);
  CHECK(t.node().nics_in_use == 0);
  CHECK(t.hop_kind(t.route(Rank(0), Rank(7), 0)) == HopKind::nvlink);
}

TEST_CASE("the closed form of the bisection bandwidth is the maximum flow", "[release]") {
  for_each_cluster([](ClusterSpec spec) {
    for (const double over : {1.0, 2.5, 40.0}) {
      spec.fabric.oversubscription = over;
      CAPTURE(text(spec));
      const Topology t = build_topology(spec);
      CHECK(bisection_closed_form(spec).value == Approx(bisection_by_max_flow(t).value).epsilon(1e-9));
    }
  });
}

TEST_CASE("the closed form holds for random nodes and fabrics") {
  std::mt19937 random(11);  // NOLINT: the same specs in every run
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (std::uint64_t i = 0; i < rounds(300); ++i) {
    ClusterSpec spec = cluster("dgx-h100", 2 + below(14), kFabrics[random() % 4], kPlacements[random() % 2]);
    spec.node.gpus = 1 + below(6);
    spec.node.pcie_switches = 1 + below(4);
    spec.node.sockets = 1 + below(2);
    spec.node.nics = spec.fabric.kind == FabricKind::rail_optimized ? spec.node.gpus : 1 + below(6);
    spec.node.nic_bandwidth = BytesPerSecond(1e9 * (1 + below(60)));
    if (spec.fabric.kind == FabricKind::rail_optimized) {
      spec.node.pcie_switches = spec.node.gpus;  // every NIC beside a GPU: all can be fed alike
    }
    spec.fabric.nodes_per_leaf = 1 + below(5);
    spec.fabric.leaves_per_pod = 1 + below(4);
    spec.fabric.oversubscription = 1 + 0.1 * below(50);
    CAPTURE(text(spec), spec.node.gpus, spec.node.pcie_switches, spec.node.sockets, spec.node.nics);
    const Topology t = build_topology(spec);
    CHECK(bisection_closed_form(spec).value == Approx(bisection_by_max_flow(t).value).epsilon(1e-9));
  }
}

TEST_CASE("bisection bandwidths that can be worked out by hand") {
  const auto of = [](const ClusterSpec& spec) { return bisection_bandwidth(build_topology(spec)).value; };
  CHECK(of(cluster("dgx-h100", 2)) == Approx(8 * 50e9));
  CHECK(of(cluster("dgx-a100", 5)) == Approx(2 * 8 * 24e9));  // of five nodes two
  CHECK(of(cluster("pcie-a100", 4)) == Approx(2 * 24e9));
  // Between GPUs 0-3 and 4-7 of a cube mesh: 0-4, 1-5 (two links each), 2-6, 3-7; and over the sockets.
  CHECK(of(cluster("dgx1-v100", 1)) == Approx(6 * 22e9 + 6e9));
  CHECK(of(cluster("dgx-h100", 1)) == Approx(4 * 370.8e9 + 22e9));
  ClusterSpec spec = cluster("dgx-h100", 6, FabricKind::leaf_spine);  // two leaves of three
  spec.fabric.oversubscription = 4;
  CHECK(of(spec) == Approx(24 * 50e9 / 4));
  spec.fabric.placement = Placement::striped;  // halves 0 1 2 and 3 4 5: two and one on a leaf, one and two
  CHECK(of(spec) == Approx(2 * 8 * 50e9 + std::min(8 * 50e9, 24 * 50e9 / 4)));
  spec = cluster("dgx-h100", 6, FabricKind::leaf_spine);
  spec.degraded = {{"node0/nic0", std::nullopt, 0.5, {}}};
  CHECK(of(spec) == Approx(3 * 8 * 50e9 - 25e9));
}

TEST_CASE("a graph too large for the maximum flow gets the closed form") {
  const ClusterSpec spec = cluster("dgx-h100", 300, FabricKind::rail_optimized);
  const Topology t = build_topology(spec);
  REQUIRE(t.devices() > kMaxFlowDevices);
  CHECK(bisection_bandwidth(t) == bisection_closed_form(spec));
}

TEST_CASE("the drawing has every device once and every cable once") {
  ClusterSpec spec = cluster("dgx-a100", 4, FabricKind::fat_tree);
  const Topology t = build_topology(spec);
  std::ostringstream out;
  write_graphviz(t, out);
  std::istringstream lines(out.str());
  std::size_t edges = 0, devices = 0, clusters = 0;
  int depth = 0;
  bool quoted = true;
  for (std::string line; std::getline(lines, line);) {
    edges += line.find(" -- ") != std::string::npos ? 1 : 0;
    devices += line.find("shape=") != std::string::npos ? 1 : 0;
    clusters += line.find("subgraph \"cluster_") != std::string::npos ? 1 : 0;
    depth += static_cast<int>(std::ranges::count(line, '{') - std::ranges::count(line, '}'));
    quoted = quoted && std::ranges::count(line, '"') % 2 == 0;
    CHECK(depth >= 0);
  }
  CHECK(depth == 0);
  CHECK(quoted);
  CHECK(out.str().starts_with("graph paceline {\n"));
  CHECK(out.str().ends_with("}\n"));
  CHECK(edges == t.links() / 2);
  CHECK(devices == t.devices());
  CHECK(clusters == 4);
  CHECK_THAT(out.str(), Catch::Contains(R"("node1/gpu2" -- "node1/nvswitch" [label="240 GB/s")"));
}

TEST_CASE("presets are sorted by name, known by name, and build") {
  const std::vector<std::string> names = node_preset_names();
  CHECK(std::ranges::is_sorted(names));
  CHECK(machine_preset_names() == Names{"dgx-a100", "dgx-a100-40gb", "dgx-b200", "dgx-b300", "dgx-h100",
                                        "dgx-h200", "dgx1-p100", "dgx1-v100", "dgx2-v100", "gb200-nvl72",
                                        "gb300-nvl72", "pcie-a100"});
  CHECK(cloud_preset_names() ==
        Names{"aws-p2.8xlarge", "aws-p3.16xlarge", "aws-p3dn", "aws-p4d", "aws-p4de", "aws-p5", "aws-p5en",
              "aws-p6-b200", "azure-nd-a100-v4", "azure-nd-h100-v5", "azure-nd-h200-v5", "azure-ndm-a100-v4",
              "gcp-a3-highgpu-8g", "gcp-a3-megagpu-8g", "gcp-a3-ultragpu-8g", "gcp-a4-highgpu-8g",
              "gcp-n1-standard-32-k80x8", "oci-bm.gpu.b4.8", "oci-bm.gpu.h100.8"});
  CHECK(names.size() == machine_preset_names().size() + cloud_preset_names().size());
  for (const std::string& name : names) {
    const NodeSpec node = node_preset(name);
    CHECK(node.name == name);
    CHECK(node.compute_capability >= 37);
    CHECK(build_topology(cluster(name, 2)).ranks() == 2 * static_cast<std::size_t>(node.gpus));
  }
  CHECK_THROWS_WITH(node_preset("dgx-h10"), Catch::Contains("dgx-h100"));
  CHECK_THROWS_AS(node_preset("dgx-h10"), InputError);
}

TEST_CASE("clouds' nodes are laid out as their providers say") {
  // GPUs, NICs, ports and rate of each, NUMA nodes, GPUs and NICs of each PCIe switch, PCIe; cloud_presets.cpp
  // has the sources.
  struct Published {
    const char* name;
    const char* gpu;
    int nics, ports;
    double gigabits;  // of a port
    int sockets, gpus_below, nics_below;
    double pcie;  // GB/s
    CpuVendor cpu;
  };
  using enum CpuVendor;
  for (const Published& is :
       std::initializer_list<Published>{{"aws-p4d", "A100-40GB", 4, 1, 100, 2, 2, 1, 12, intel},
                                        {"aws-p4de", "A100-80GB", 4, 1, 100, 2, 2, 1, 12, intel},
                                        {"aws-p5", "H100", 8, 4, 100, 2, 1, 1, 53, amd},
                                        {"aws-p5en", "H200", 8, 2, 200, 2, 2, 2, 53, intel},
                                        {"aws-p6-b200", "B200", 8, 1, 400, 2, 2, 2, 53, intel},
                                        {"azure-nd-a100-v4", "A100-40GB", 8, 1, 200, 4, 2, 2, 24, amd},
                                        {"azure-ndm-a100-v4", "A100-80GB", 8, 1, 200, 4, 2, 2, 24, amd},
                                        {"azure-nd-h100-v5", "H100", 8, 1, 400, 2, 1, 1, 53, intel},
                                        {"azure-nd-h200-v5", "H200", 8, 1, 400, 2, 1, 1, 53, intel},
                                        {"gcp-a3-highgpu-8g", "H100", 4, 1, 200, 2, 2, 1, 53, intel},
                                        {"gcp-a3-megagpu-8g", "H100", 8, 1, 200, 2, 2, 2, 53, intel},
                                        {"gcp-a3-ultragpu-8g", "H200", 8, 1, 400, 2, 1, 1, 53, intel},
                                        {"gcp-a4-highgpu-8g", "B200", 8, 1, 400, 2, 1, 1, 53, intel},
                                        {"oci-bm.gpu.b4.8", "A100-40GB", 8, 2, 100, 4, 2, 2, 24, amd},
                                        {"oci-bm.gpu.h100.8", "H100", 8, 2, 200, 2, 1, 1, 53, intel}}) {
    CAPTURE(is.name);
    const NodeSpec node = node_preset(is.name);
    CHECK(node.gpu == is.gpu);
    CHECK(node.gpus == 8);
    CHECK(node.cpu == is.cpu);
    CHECK(node.nic_ports == is.ports);
    const Topology t = build_topology(cluster(is.name, 1));
    CHECK(devices_of(t, DeviceKind::cpu).size() == static_cast<std::size_t>(is.sockets));
    CHECK(devices_of(t, DeviceKind::nic).size() == static_cast<std::size_t>(is.nics));
    for (const DeviceId pcie_switch : devices_of(t, DeviceKind::pcie_switch)) {
      std::map<DeviceKind, int> below;
      for (const auto& edge : boost::make_iterator_range(boost::out_edges(pcie_switch.value, t.graph()))) {
        ++below[t.device_kind(t.link(LinkId(edge.idx)).to)];
        CHECK(t.link(LinkId(edge.idx)).bandwidth.value == Approx(is.pcie * 1e9));
      }
      CHECK(below[DeviceKind::gpu] == is.gpus_below);
      CHECK(below[DeviceKind::nic] == is.nics_below);
      CHECK(below[DeviceKind::cpu] == 1);
    }
    for (int nic = 0; nic < is.nics; ++nic) {
      const DeviceId leaf = devices_of(t, DeviceKind::leaf).front();
      const LinkId cable = *t.link_between(t.device_named("node0/nic" + std::to_string(nic)), leaf);
      CHECK(t.link(cable).bandwidth.value == Approx(is.ports * is.gigabits / 8 * 1e9));
      // Some GPU is beside it.
      const auto length = [&](std::uint32_t gpu) { return t.to_fabric(Rank(gpu), nic).size; };
      CHECK(length(static_cast<std::uint32_t>(nic * 8 / is.nics)) == 3);
    }
  }
  for (const auto& [name, gigabits] :
       {std::pair("aws-p2.8xlarge", 10.0), std::pair("gcp-n1-standard-32-k80x8", 32.0)}) {
    CAPTURE(name);
    const NodeSpec node = node_preset(name);
    CHECK(node.gpu == "K80");
    CHECK(node.wiring == NvlinkWiring::none);
    CHECK_FALSE(node.gpu_direct);
    CHECK(node.network == NetworkKind::tcp);
    CHECK(node.nic_bandwidth.value == Approx(gigabits / 8 * 1e9));
    const Topology t = build_topology(cluster(name, 1));
    CHECK(devices_of(t, DeviceKind::cpu).size() == 1);
    CHECK(devices_of(t, DeviceKind::pcie_switch).size() == 4);  // boards of two GPUs
  }
  const NodeSpec p3dn = node_preset("aws-p3dn");
  CHECK(p3dn.mesh == node_preset("dgx1-v100").mesh);
  CHECK(p3dn.gpu == "V100-32GB");
  CHECK(p3dn.nics == 1);
  CHECK(p3dn.nic_bandwidth.value == 12.5e9);
  const NodeSpec p3 = node_preset("aws-p3.16xlarge");
  CHECK(p3.mesh == p3dn.mesh);
  CHECK(p3.gpu == "V100-16GB");
  CHECK(p3.network == NetworkKind::tcp);
  CHECK_FALSE(p3.gpu_direct);
  CHECK(p3.nic_bandwidth.value == 3.125e9);
}

TEST_CASE("a node with listed devices has the routes of the numbers that it follows from") {
  for (const std::string& preset : node_preset_names()) {
    for (const int gpus : {0, 3}) {
      ClusterSpec spec = cluster(preset, 2, FabricKind::rail_optimized);
      if (!spec.node.devices.empty()) {
        continue;
      }
      spec.gpus_per_node = gpus;
      const Topology numbers = build_topology(spec);
      spec.node = with_devices(spec.node);
      const Topology listed = build_topology(spec);
      CAPTURE(preset, gpus);
      REQUIRE(listed.devices() == numbers.devices());
      REQUIRE(listed.links() == numbers.links());
      REQUIRE(listed.node().nics_in_use == numbers.node().nics_in_use);
      const auto nics = static_cast<int>(numbers.node().nics_in_use);
      bool same = true;
      for (std::uint32_t a = 0; a < numbers.ranks(); ++a) {
        for (std::uint32_t b = 0; b < numbers.ranks(); ++b) {
          for (int c = 0; a != b && c < nics; ++c) {
            const Route one = numbers.route(Rank(a), Rank(b), c), other = listed.route(Rank(a), Rank(b), c);
            same = same && std::ranges::equal(one, other);
            for (const LinkId id : one) {
              same = same && numbers.link(id).bandwidth == listed.link(id).bandwidth &&
                     numbers.link(id).latency == listed.link(id).latency;
            }
          }
        }
      }
      CHECK(same);
      CHECK(bisection_bandwidth(listed) == bisection_bandwidth(numbers));
    }
  }
}

TEST_CASE("routes over named NICs, and the parts that make them up") {
  for (const char* preset : {"dgx-h100", "dgx1-v100", "gb200-nvl72", "pcie-a100"}) {
    const Topology t = build_topology(cluster(preset, 8, FabricKind::fat_tree));
    CAPTURE(preset);
    const int nics = t.spec().node.nics;
    const Rank from(1), to(t.ranks() - 2);
    for (int out = 0; out < nics; ++out) {
      const int in = (out + 1) % nics;
      const Names names = names_on(t, t.route_over_nics(from, to, out, in));
      const Names first = names_on(t, t.to_fabric(from, out)), last = names_on(t, t.from_fabric(to, in));
      REQUIRE(names.size() > first.size() + last.size() - 2);
      CHECK(std::equal(first.begin(), first.end(), names.begin()));
      CHECK(std::equal(last.rbegin(), last.rend(), names.rbegin()));
      CHECK(names_on(t, t.route_over_nics(from, to, out, out)) == names_on(t, t.route(from, to, out)));
    }
    CHECK(names_on(t, t.route_over_nics(from, Rank(0), 0, 0)) == names_on(t, t.route(from, Rank(0), 0)));
  }
  const Topology h100 = build_topology(cluster("dgx-h100", 2));
  CHECK(names_on(h100, h100.to_nvswitch(Rank(9))) == Names{"node1/gpu1", "node1/nvswitch"});
  CHECK(names_on(h100, h100.from_nvswitch(Rank(9))) == Names{"node1/nvswitch", "node1/gpu1"});
  CHECK(names_on(h100, h100.to_fabric(Rank(9), 1)) ==
        Names{"node1/gpu1", "node1/pcie1", "node1/nic1", "leaf0"});
}

namespace {

// GPU 0 and NIC 0 on a switch inside a switch, where NIC 2 is; GPU 1 and NIC 1 on the second CPU; NVLink
// between the GPUs.
NodeSpec nested_node() {
  NodeSpec node = node_preset("pcie-a100");
  node.gpus = 2;
  node.nics = 3;
  const BytesPerSecond port(10e9), wide(24e9);
  node.devices = {{NodePart::gpu, "gpu 0", {}, 0},          {NodePart::gpu, "gpu 1", {}, 1},
                  {NodePart::pcie_switch, "inner", {}, -1}, {NodePart::pcie_switch, "outer", {}, -1},
                  {NodePart::cpu, "cpu 0", {}, -1},         {NodePart::cpu, "cpu 1", {}, -1},
                  {NodePart::nic, "nic 0", port, 0},        {NodePart::nic, "nic 1", port * 2, 1},
                  {NodePart::nic, "nic 2", port * 3, 2}};
  node.cables = {{0, 2, CableKind::pcie, wide},       {6, 2, CableKind::pcie, wide},
                 {2, 3, CableKind::pcie, wide},       {8, 3, CableKind::pcie, wide},
                 {3, 4, CableKind::pcie, wide},       {5, 1, CableKind::pcie, wide},
                 {5, 7, CableKind::pcie, wide},       {4, 5, CableKind::socket, BytesPerSecond(16e9)},
                 {0, 1, CableKind::nvlink, wide * 10}};
  return node;
}

}  // namespace

TEST_CASE("NICs are reached through switches inside switches, NVLink and a GPU, or the CPUs, in this order") {
  ClusterSpec spec;
  spec.node = nested_node();
  spec.nodes = 2;
  const Topology t = build_topology(spec);
  CHECK(names_on(t, t.to_fabric(Rank(0), 2)) ==
        Names{"node0/gpu0", "node0/pcie0", "node0/pcie1", "node0/nic2", "leaf0"});
  CHECK(names_on(t, t.to_fabric(Rank(1), 2)) ==
        Names{"node0/gpu1", "node0/gpu0", "node0/pcie0", "node0/pcie1", "node0/nic2", "leaf0"});
  // GPU 1 reaches NIC 1 over the CPU: then it doesn't forward to it.
  CHECK(names_on(t, t.to_fabric(Rank(0), 1)) ==
        Names{"node0/gpu0", "node0/pcie0", "node0/pcie1", "node0/cpu0", "node0/cpu1", "node0/nic1", "leaf0"});
  CHECK(t.node().first_gpu == std::vector<std::uint32_t>{0, 1, 0});
  const auto port = [&](const char* nic) {
    return t.link(*t.link_between(t.device_named("leaf0"), t.device_named(nic))).bandwidth.value;
  };
  CHECK(port("node1/nic0") == 10e9);
  CHECK(port("node1/nic2") == 30e9);

  spec.gpus_per_node = 1;
  CHECK(build_topology(spec).node().nics_in_use == 1);  // NIC 0 alone is nearest to GPU 0
  spec.gpus_per_node = 0;
  spec.fabric.kind = FabricKind::leaf_spine;
  spec.fabric.nodes_per_leaf = 1;
  const Topology two_leaves = build_topology(spec);
  double up = 0;
  for (const LinkId id : links_out(two_leaves, two_leaves.device_named("leaf0"))) {
    up += two_leaves.device_kind(two_leaves.link(id).to) == DeviceKind::spine
              ? two_leaves.link(id).bandwidth.value
              : 0;
  }
  CHECK(up == Approx(60e9));  // the mean of the ports, three times
}

TEST_CASE("the trays of an NVL72 are one node") {
  const Topology t = build_topology(cluster("gb200-nvl72", 2));
  CHECK(t.gpus_per_node() == 72);
  CHECK(t.node().nics_in_use == 72);
  CHECK(names_on(t, t.route(Rank(0), Rank(71), 0)) == Names{"node0/gpu0", "node0/nvswitch", "node0/gpu71"});
  CHECK(names_on(t, t.to_fabric(Rank(5), 5)) == Names{"node0/gpu5", "node0/cpu2", "node0/nic5", "leaf0"});
  CHECK(names_on(t, t.to_fabric(Rank(5), 70)) ==
        Names{"node0/gpu5", "node0/nvswitch", "node0/gpu70", "node0/cpu35", "node0/nic70", "leaf0"});
  CHECK(t.hop_kind(t.to_fabric(Rank(5), 5)) == HopKind::network);
  ClusterSpec tray = cluster("gb200-nvl72", 2);
  tray.gpus_per_node = 4;
  const Topology four = build_topology(tray);
  CHECK(four.node().nics_in_use == 4);
  CHECK(four.route(Rank(0), Rank(7), 3).size > 0);
}

TEST_CASE("a list of devices without meaning is an error that names its place") {
  const BytesPerSecond wide(1e9);
  const std::vector<std::pair<std::string, std::function<void(NodeSpec&)>>> bad{
      {"/node/gpus", [](NodeSpec& n) { n.gpus = 3; }},
      {"/node/gpus", [](NodeSpec& n) { n.gpus = 0; }},
      {"/node/nics", [](NodeSpec& n) { n.nics = 2; }},
      {"/node/devices/6/bandwidth", [](NodeSpec& n) { n.devices[6].bandwidth = BytesPerSecond(0); }},
      {"/node/devices",
       [](NodeSpec& n) { n.devices.insert(n.devices.end(), 2, {NodePart::nvswitch, "", {}, -1}); }},
      {"/node/devices",
       [](NodeSpec& n) { n.devices.insert(n.devices.end(), 255, {NodePart::cpu, "", {}, -1}); }},
      {"/node/cables/0/a", [](NodeSpec& n) { n.cables[0].a = 9; }},
      {"/node/cables/1/b", [](NodeSpec& n) { n.cables[1].b = -1; }},
      {"/node/cables/2", [](NodeSpec& n) { n.cables[2].b = n.cables[2].a; }},
      {"/node/cables/0", [](NodeSpec& n) { n.cables[0].kind = CableKind::c2c; }},
      {"/node/cables/0", [](NodeSpec& n) { n.cables[0].kind = CableKind::nvlink; }},
      {"/node/cables/8", [](NodeSpec& n) { n.cables[8].kind = CableKind::pcie; }},
      {"/node/cables/7/bandwidth", [](NodeSpec& n) { n.cables[7].bandwidth = BytesPerSecond(-1); }},
      {"/node/cables/9", [&](NodeSpec& n) { n.cables.push_back({2, 0, CableKind::pcie, wide}); }},
      {"/node/cables", [](NodeSpec& n) { n.cables.erase(n.cables.begin()); }},      // GPU 0 without a host
      {"/node/cables", [](NodeSpec& n) { n.cables.erase(n.cables.begin() + 3); }},  // NIC 2
      {"/node/nic_latency", [](NodeSpec& n) { n.nic_latency = Seconds(-1); }},
      {"/node/cables", [](NodeSpec& n) { n.devices.clear(); }},
      {"/node/cables",
       [&](NodeSpec& n) {  // thirteen more switches between the two
         n.cables.erase(n.cables.begin() + 2);
         int last = 2;
         for (int i = 0; i < 13; ++i) {
           n.devices.push_back({NodePart::pcie_switch, "", {}, -1});
           n.cables.push_back({last, static_cast<int>(n.devices.size()) - 1, CableKind::pcie, wide});
           last = static_cast<int>(n.devices.size()) - 1;
         }
         n.cables.push_back({last, 3, CableKind::pcie, wide});
       }},
  };
  ClusterSpec good;
  good.node = nested_node();
  good.nodes = 2;
  CHECK(place_of_error(good) == "no error");
  for (std::size_t i = 0; i < bad.size(); ++i) {
    CAPTURE(i);
    ClusterSpec spec = good;
    bad[i].second(spec.node);
    CHECK(place_of_error(spec) == "/cluster" + bad[i].first);
  }
}

TEST_CASE(
    "ECMP spreads routes over the spines by a hash: the same each time, colliding, another with the seed") {
  for (const FabricKind kind : {FabricKind::leaf_spine, FabricKind::fat_tree}) {
    ClusterSpec spec = cluster("dgx-h100", 12, kind);
    spec.fabric.nodes_per_leaf = 2;
    const Topology fixed = build_topology(spec);
    spec.fabric.routing = FabricSpec::Routing::ecmp;
    const Topology one = build_topology(spec), again = build_topology(spec);
    spec.fabric.routing_seed = 1;
    const Topology seeded = build_topology(spec);
    std::map<LinkId, int> on_leaf0, load;
    int same = 0, routes = 0;
    for (std::uint32_t n = 0; n < 2; ++n) {
      for (std::uint32_t to = 2; to < 12; ++to) {
        for (std::uint32_t c = 0; c < 8; ++c) {
          const Rank a(8 * n + c), b(8 * to + c);
          const int nic = static_cast<int>(c);
          const Route route = one.route(a, b, nic);
          CHECK(fault(one, route, a, b, nic).empty());
          CHECK(std::ranges::equal(route, again.route(a, b, nic)));
          CHECK(route.size == fixed.route(a, b, nic).size);
          same += std::ranges::equal(route, seeded.route(a, b, nic)) ? 1 : 0;
          ++routes;
          for (const LinkId id : route) {
            if (one.device_name(one.link(id).from) == "leaf0") {
              ++on_leaf0[id];
              load[id] += to == 2 + n ? 1 : 0;  // of the permutation 0 -> 2, 1 -> 3
            }
          }
        }
      }
    }
    CHECK(routes == 160);
    CHECK(same < 40);
    CHECK(on_leaf0.size() == 16);  // of 16 spines all
    CHECK(std::ranges::all_of(on_leaf0, [](const auto& use) { return use.second >= 2 && use.second <= 25; }));
    // Sixteen flows on sixteen cables: by destination one each, by a hash some share.
    CHECK(std::ranges::max_element(load, {}, [](const auto& l) { return l.second; })->second > 1);
  }
}
