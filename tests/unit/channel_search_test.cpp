#include "topology/channel_search.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <initializer_list>
#include <map>
#include <numeric>
#include <random>
#include <sstream>
#include <utility>

#include "tests/dice.h"
#include "topology/channel_paths.h"

using namespace paceline;
using namespace paceline::units;

namespace {

using Orders = std::vector<std::vector<int>>;

NodeSpec node(const std::string& preset, int compute_capability, CpuVendor cpu = CpuVendor::intel) {
  NodeSpec spec = node_preset(preset);
  spec.compute_capability = compute_capability;
  spec.cpu = cpu;
  return spec;
}
NodeSpec dgx1_p100() { return node("dgx1-p100", 60); }
NodeSpec dgx1_v100() { return node("dgx1-v100", 70); }
NodeSpec dgx_a100() { return node("dgx-a100", 80, CpuVendor::amd); }
NodeSpec dgx_h100() { return node("dgx-h100", 90); }

ChannelGraphs graphs(const NodeSpec& spec, int gpus, int nodes, const SearchSpec& search = {}) {
  return search_channels(make_node_layout(spec, static_cast<std::uint32_t>(gpus)), spec, nodes, search);
}

SearchSpec version(int minor) {
  SearchSpec search;
  search.nccl_minor = minor;
  return search;
}
SearchSpec crossing(int cross_nic) {
  SearchSpec search;
  search.cross_nic = cross_nic;
  return search;
}

// "8 x 48/48 NVL/PIX pattern 4 crossNic 2", as NCCL's log has it.
std::string text(const ChannelGraph& graph) {
  std::ostringstream out;
  const auto name = [](PathType type) { return name_of(type); };
  out << graph.channels.size() << " x " << graph.bw_intra << "/" << graph.bw_inter << " "
      << name(graph.type_intra) << "/" << name(graph.type_inter) << " pattern "
      << static_cast<int>(graph.pattern) << " crossNic " << graph.cross_nic;
  return out.str();
}

std::string ring_of(const NodeSpec& spec, int gpus, int nodes = 1, const SearchSpec& search = {}) {
  return text(graphs(spec, gpus, nodes, search).ring);
}

Orders orders(const ChannelGraph& graph) {
  Orders all;
  for (const NodeChannel& channel : graph.channels) {
    all.push_back(channel.gpus);
  }
  return all;
}

std::vector<std::pair<int, int>> nics(const ChannelGraph& graph) {
  std::vector<std::pair<int, int>> all;
  for (const NodeChannel& channel : graph.channels) {
    all.emplace_back(channel.nic_in, channel.nic_out);
  }
  return all;
}

bool all_permutations(const ChannelGraph& graph, int gpus) {
  std::vector<int> all(static_cast<std::size_t>(gpus));
  std::iota(all.begin(), all.end(), 0);
  return std::ranges::all_of(graph.channels, [&](const NodeChannel& channel) {
    return std::ranges::is_permutation(channel.gpus, all);
  });
}

// Counts again, path by path, what rings take from each link.
class Usage {
 public:
  explicit Usage(const CountedNode& counted) : counted_(counted), used_(counted.links.size(), 0.0) {}

  void add(std::uint32_t from, std::uint32_t to, double rate) {
    const CountedPath& path = counted_.path(from, to);
    for (const std::uint32_t k : path.links) {
      const bool costly = path.type == PathType::phb && counted_.is_gpu(from) &&
                          counted_.links[k].type == PathType::pix && counted_.cpu == CpuVendor::intel;
      used_[k] += costly ? rate * 1.2 : rate;
    }
  }

  void add_ring(const ChannelGraph& graph, const NodeChannel& channel) {
    for (std::size_t i = 0; i + 1 < channel.gpus.size(); ++i) {
      add(counted_.gpu(channel.gpus[i]), counted_.gpu(channel.gpus[i + 1]), graph.bw_intra);
    }
    if (channel.nic_in >= 0) {
      add(counted_.port(channel.nic_in), counted_.gpu(channel.gpus.front()), graph.bw_inter);
      add(counted_.gpu(channel.gpus.back()), counted_.port(channel.nic_out), graph.bw_inter);
    } else {
      add(counted_.gpu(channel.gpus.back()), counted_.gpu(channel.gpus.front()), graph.bw_intra);
    }
  }

  bool fits() const {
    for (std::size_t k = 0; k < used_.size(); ++k) {
      if (used_[k] > static_cast<double>(counted_.links[k].rate) + 0.01) {
        return false;
      }
    }
    return true;
  }

 private:
  const CountedNode& counted_;
  std::vector<double> used_;
};

bool rings_fit(const NodeSpec& spec, int gpus, int nodes, const SearchSpec& search,
               const ChannelGraph& ring) {
  if (ring.bw_intra < 0.11) {  // no path was found: the simple order
    return true;
  }
  const NodeLayout layout = make_node_layout(spec, static_cast<std::uint32_t>(gpus));
  const CountedNode counted = count_node(layout, spec, nodes, search);
  Usage usage(counted);
  for (const NodeChannel& channel : ring.channels) {
    usage.add_ring(ring, channel);
  }
  return usage.fits();
}

// Under crossNic 2, channels 2k and 2k + 1 use the same two NICs, the other way round.
bool paired(const ChannelGraph& ring) {
  for (std::size_t c = 1; c < ring.channels.size(); c += 2) {
    const NodeChannel &even = ring.channels[c - 1], &odd = ring.channels[c];
    if (even.nic_in != odd.nic_out || even.nic_out != odd.nic_in) {
      return false;
    }
  }
  return true;
}

struct Draws {
  std::mt19937 random;
  int below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
  double one_of(std::initializer_list<double> values) {
    return *(values.begin() + below(static_cast<int>(values.size())));
  }
};

NodeSpec random_node(Draws& dice) {
  NodeSpec spec;
  spec.gpus = 1 + dice.below(8);
  spec.compute_capability = static_cast<int>(dice.one_of({0, 60, 70, 80, 86, 90, 100}));
  spec.cpu = static_cast<CpuVendor>(dice.below(5));
  spec.sockets = 1 + dice.below(2);
  spec.pcie_switches = spec.sockets * (1 + dice.below(2));
  spec.socket_bandwidth = BytesPerSecond(dice.one_of({6e9, 10e9, 16e9, 40e9}));
  spec.pcie_bandwidth = BytesPerSecond(dice.one_of({12e9, 24e9, 48e9}));
  spec.nics = 1 + dice.below(8);
  spec.nic_bandwidth = BytesPerSecond(dice.one_of({1.25e9, 12.5e9, 25e9, 50e9, 100e9}));
  spec.wiring = static_cast<NvlinkWiring>(dice.below(3));
  if (spec.wiring == NvlinkWiring::nvswitch) {
    spec.nvlink_bandwidth = BytesPerSecond(dice.one_of({75e9, 240e9, 370.8e9, 721.8e9}));
  } else if (spec.wiring == NvlinkWiring::mesh) {
    spec.nvlink_bandwidth = 20.0_GBps;
    for (int a = 0; a < spec.gpus; ++a) {
      for (int b = a + 1; b < spec.gpus; ++b) {
        if (dice.below(2) == 0) {
          spec.mesh.push_back({a, b, 1 + dice.below(2)});
        }
      }
    }
  }
  return spec;
}

}  // namespace

TEST_CASE("hybrid cube meshes carry as many rings as their NVLinks allow", "[channels]") {
  CHECK(ring_of(dgx1_v100(), 2) == "1 x 20/20 NVL/PIX pattern 4 crossNic 0");
  CHECK(ring_of(dgx1_v100(), 4) == "4 x 20/20 NVL/PIX pattern 4 crossNic 0");
  CHECK(ring_of(dgx1_v100(), 8) == "6 x 20/20 NVL/PIX pattern 4 crossNic 0");
  CHECK(ring_of(dgx1_p100(), 8) == "4 x 18/18 NVL/PIX pattern 4 crossNic 0");
  // The rates of the NCCL that the machine was measured with.
  CHECK(ring_of(dgx1_v100(), 8, 1, version(12)) == "6 x 22/22 NVL/PIX pattern 4 crossNic 0");
  const ChannelGraphs v100 = graphs(dgx1_v100(), 8, 1);
  CHECK(v100.channels == 12);
  CHECK(orders(v100.ring) == Orders{{0, 3, 2, 1, 5, 6, 7, 4},
                                    {0, 3, 2, 1, 5, 6, 7, 4},
                                    {0, 4, 7, 6, 5, 1, 2, 3},
                                    {0, 4, 7, 6, 5, 1, 2, 3},
                                    {0, 1, 3, 7, 5, 4, 6, 2},
                                    {0, 2, 6, 4, 5, 7, 3, 1}});
  CHECK(nics(v100.ring) == std::vector<std::pair<int, int>>(6, {-1, -1}));
}

TEST_CASE("where NVLinks close no ring a GPU forwards, or links are shared", "[channels]") {
  CHECK(ring_of(dgx1_v100(), 3) == "2 x 20/20 NVL/PIX pattern 4 crossNic 0");
  CHECK(ring_of(dgx1_v100(), 5) == "2 x 20/20 NVB/PIX pattern 4 crossNic 0");
  CHECK(ring_of(dgx1_v100(), 6) == "2 x 20/20 NVL/PIX pattern 4 crossNic 0");
  CHECK(ring_of(dgx1_v100(), 7) == "4 x 20/20 NVL/PIX pattern 4 crossNic 0");
  CHECK(ring_of(dgx1_p100(), 4) == "6 x 9/9 NVL/PIX pattern 4 crossNic 0");
  CHECK(ring_of(dgx1_p100(), 5) == "1 x 18/18 NVB/PIX pattern 4 crossNic 0");
}

TEST_CASE("a mesh without enough NVLinks falls back to PCIe", "[channels]") {
  NodeSpec spec = dgx1_v100();
  spec.gpus = 4;
  spec.pcie_switches = 2;
  spec.sockets = 1;
  spec.mesh = {{0, 1, 2}, {2, 3, 2}};
  const ChannelGraph ring = graphs(spec, 4, 1).ring;
  CHECK(ring.type_intra == PathType::phb);
  CHECK(ring.channels.size() >= 2);  // two NVLink islands: trees want two
}

TEST_CASE("NVSwitch nodes", "[channels]") {
  for (int gpus = 2; gpus <= 8; ++gpus) {
    CHECK(ring_of(dgx_a100(), gpus) == "12 x 20/20 NVL/PIX pattern 4 crossNic 0");
    CHECK(ring_of(dgx_h100(), gpus) == "12 x 30/30 NVL/PIX pattern 4 crossNic 0");
  }
  const ChannelGraphs a100 = graphs(dgx_a100(), 8, 1), h100 = graphs(dgx_h100(), 8, 1);
  CHECK(a100.channels == 24);
  CHECK(h100.channels == 24);
  CHECK(text(a100.tree) == "12 x 20/20 NVL/PIX pattern 1 crossNic 0");
  CHECK(a100.nvls.channels.empty());
  CHECK(a100.nvls_channels == 0);
  CHECK(h100.nvls.channels.size() == 8);
  CHECK(h100.nvls_channels == 16);
}

TEST_CASE("a published log of 2 x 8 H100 with a NIC of 400 Gb/s each", "[channels]") {
  const ChannelGraphs g = graphs(dgx_h100(), 8, 2);
  CHECK(text(g.ring) == "8 x 48/48 NVL/PIX pattern 4 crossNic 2");
  CHECK(g.channels == 16);
  CHECK(nics(g.ring) ==
        std::vector<std::pair<int, int>>{{0, 1}, {1, 0}, {2, 3}, {3, 2}, {4, 5}, {5, 4}, {6, 7}, {7, 6}});
  CHECK(g.ring.channels[0].gpus == std::vector<int>{0, 7, 6, 5, 4, 3, 2, 1});
  CHECK(g.ring.channels[1].gpus == std::vector<int>{1, 2, 3, 4, 5, 6, 7, 0});
  CHECK(text(g.tree) == "8 x 48/48 NVL/PIX pattern 3 crossNic 0");
  CHECK(g.nvls_channels == 16);
}

TEST_CASE("a published log of 24 H100: rails are kept through NVLink", "[channels]") {
  NodeSpec spec = dgx_h100();
  spec.nic_bandwidth = 200.0_Gbps;
  const ChannelGraphs g = graphs(spec, 8, 3, version(22));
  CHECK(text(g.ring) == "8 x 24/24 NVL/PXN pattern 4 crossNic 0");
  CHECK(g.channels == 16);
  CHECK(g.tree.pattern == GraphPattern::tree);
  // "Channel 05/16 : 0 7 6 13 12 11 10 9 8 15 14 21": each node is entered at its GPU 5 and left at 6.
  CHECK(g.ring.channels[5].gpus == std::vector<int>{5, 4, 3, 2, 1, 0, 7, 6});
  CHECK(nics(g.ring)[5] == std::pair(5, 5));
}

TEST_CASE("two DGX A100", "[channels]") {
  const ChannelGraphs g = graphs(dgx_a100(), 8, 2);
  CHECK(text(g.ring) == "8 x 24/24 NVL/PIX pattern 4 crossNic 0");
  CHECK(text(g.tree) == "8 x 30/24 NVL/PIX pattern 1 crossNic 0");
  CHECK(g.channels == 16);
}

TEST_CASE("crossNic and PXN", "[channels]") {
  CHECK(ring_of(dgx_h100(), 8, 2, crossing(0)) == "8 x 45/45 NVL/PXN pattern 4 crossNic 0");
  CHECK(graphs(dgx_h100(), 8, 2, crossing(1)).ring.cross_nic == 1);
  SearchSpec direct = crossing(0);
  direct.pxn = false;
  const ChannelGraph ring = graphs(dgx_h100(), 8, 2, direct).ring;
  CHECK(ring.type_inter >= PathType::phb);
  CHECK(static_cast<double>(ring.channels.size()) * ring.bw_inter < 8 * 45);
}

TEST_CASE("one GPU per node", "[channels]") {
  CHECK(ring_of(dgx_a100(), 1, 2) == "1 x 24/24 LOC/PIX pattern 4 crossNic 0");
  CHECK(ring_of(dgx_h100(), 1, 2) == "2 x 24/24 LOC/PIX pattern 4 crossNic 0");
  CHECK(graphs(dgx_h100(), 1, 2).tree.pattern == GraphPattern::tree);
  CHECK(graphs(dgx_h100(), 1, 1).ring.channels.size() == 32);
}

TEST_CASE("fewer NICs than GPUs", "[channels]") {
  NodeSpec spec = dgx_a100();
  spec.nics = 4;
  CHECK(ring_of(spec, 8, 2) == "4 x 24/24 NVL/PIX pattern 4 crossNic 0");
  spec.nics = 1;
  const ChannelGraph one = graphs(spec, 8, 2).ring;
  CHECK(text(one) == "1 x 24/24 NVL/PIX pattern 4 crossNic 0");
  CHECK(nics(one) == std::vector<std::pair<int, int>>{{0, 0}});
}

TEST_CASE("the two ports of a card are one NIC from 2.20 on, adapters that a plugin joins always",
          "[channels]") {
  const auto ring = [](const char* preset, int minor) {
    return graphs(node_preset(preset), 8, 2, version(minor)).ring;
  };
  const auto used = [](const ChannelGraph& graph) {  // how often each NIC is entered and left
    std::map<int, int> times;
    for (const auto& [in, out] : nics(graph)) {
      ++times[in];
      ++times[out];
    }
    return times;
  };
  const auto evenly = [](int times) {
    std::map<int, int> all;
    for (int nic = 0; nic < 8; ++nic) {
      all[nic] = times;
    }
    return all;
  };
  const ChannelGraph apart = ring("oci-bm.gpu.b4.8", 19), one = ring("oci-bm.gpu.b4.8", 20);
  CHECK(text(apart).starts_with("16 x 12/12 "));  // a port each
  CHECK(used(apart) == evenly(4));
  CHECK(text(one).starts_with("8 x 24/24 "));
  CHECK(used(one) == evenly(2));
  for (const int minor : {18, 20, 30}) {
    CHECK(text(ring("aws-p5", minor)).starts_with("8 x 4"));  // all four adapters of a GPU
    CHECK(used(ring("aws-p5", minor)) == evenly(2));
  }
  CHECK(text(ring("aws-p5en", 19)) == text(ring("aws-p5en", 20)));
  NodeSpec sockets = node_preset("oci-bm.gpu.b4.8");
  sockets.network = NetworkKind::tcp;
  CHECK(text(graphs(sockets, 8, 2, version(30)).ring).starts_with("16 x 12/12 "));
  // On one node there are no NICs, whatever their ports.
  CHECK(nics(graphs(node_preset("oci-bm.gpu.b4.8"), 8, 1, version(19)).ring).front() == std::pair(-1, -1));
}

TEST_CASE("rings of clouds' nodes: NVLink inside where there is one, all NICs alike between two",
          "[channels]") {
  for (const std::string& preset : cloud_preset_names()) {
    const NodeSpec spec = node_preset(preset);
    CAPTURE(preset);
    const ChannelGraph inside = graphs(spec, 8, 1).ring, between = graphs(spec, 8, 2).ring;
    const auto width = [](const ChannelGraph& graph, double of_channel) {
      return static_cast<double>(graph.channels.size()) * of_channel;
    };
    if (spec.wiring == NvlinkWiring::none) {
      CHECK(inside.type_intra == PathType::phb);
      CHECK(width(inside, inside.bw_intra) <= spec.pcie_bandwidth.value / 1e9);
    } else {
      CHECK(inside.type_intra == PathType::nvl);
      const double nvlinks = spec.wiring == NvlinkWiring::mesh ? 6 * 20 : spec.nvlink_bandwidth.value / 1e9;
      CHECK(width(inside, inside.bw_intra) > 0.9 * nvlinks);
      CHECK(width(inside, inside.bw_intra) <= nvlinks);
    }
    const double of_nics = spec.nics * spec.nic_bandwidth.value / 1e9;
    CHECK(width(between, between.bw_inter) >= 0.95 * of_nics);
    CHECK(width(between, between.bw_inter) <= of_nics);
    std::map<int, int> in, out;
    for (const auto& [from, to] : nics(between)) {
      ++in[from];
      ++out[to];
    }
    CHECK(in == out);
    CHECK(in.size() == static_cast<std::size_t>(spec.nics));
  }
}

TEST_CASE("two A100 PCIe on two AMD sockets", "[channels]") {
  NodeSpec spec = node("pcie-a100", 80, CpuVendor::amd);
  spec.gpus = spec.pcie_switches = 2;
  CHECK(ring_of(spec, 2, 1, version(15)) == "2 x 12/12 SYS/PIX pattern 4 crossNic 0");
  CHECK(ring_of(spec, 2, 1) == "1 x 15/15 SYS/PIX pattern 4 crossNic 0");
}

TEST_CASE("NCCL_P2P_LEVEL: GPUs that are no peers are as far apart as the memory of their CPU",
          "[channels]") {
  NodeSpec spec = node("pcie-a100", 80);
  spec.nics = 0;
  const auto path = [&](P2pLevel level, int switches, int sockets) {
    spec.p2p_level = level;
    spec.pcie_switches = switches;
    spec.sockets = sockets;
    const NodeLayout layout = make_node_layout(spec, 2);
    const CountedNode counted = count_node(layout, spec, 1, {});
    return counted.path(counted.gpu(0), counted.gpu(1));
  };
  CHECK(path(P2pLevel::pix, 1, 1).type == PathType::pix);
  CHECK(path(P2pLevel::loc, 1, 1).type == PathType::phb);
  CHECK(path(P2pLevel::loc, 1, 1).links.size() == 4);  // to the CPU and back
  const int all = spec.gpus;
  CHECK(path(P2pLevel::by_cpu, all, 1).type == PathType::phb);
  CHECK(path(P2pLevel::by_cpu, all, all).type == PathType::sys);
  CHECK(path(P2pLevel::sys, all, all).type == PathType::sys);
}

TEST_CASE("Intel CPUs take a fifth more PCIe bandwidth between GPUs", "[channels]") {
  NodeSpec spec = node("pcie-a100", 80, CpuVendor::intel);
  spec.sockets = 1;
  spec.pcie_switches = 8;
  const ChannelGraph intel = graphs(spec, 8, 1).ring;
  spec.cpu = CpuVendor::amd;
  const ChannelGraph amd = graphs(spec, 8, 1).ring;
  CHECK(text(intel) == "1 x 20/20 PHB/PIX pattern 4 crossNic 0");
  CHECK(text(amd) == "2 x 12/12 PHB/PIX pattern 4 crossNic 0");
}

TEST_CASE("PCIe counts as NCCL counts its generation, whatever payload or raw rate prices it", "[channels]") {
  NodeSpec spec = dgx_h100();
  const auto ring = [&](double carried) {
    spec.pcie_bandwidth = BytesPerSecond(carried * 1e9);
    return ring_of(spec, 8, 2);
  };
  CHECK(ring(53) == ring_of(dgx_h100(), 8, 2));
  for (const double carried : {24.0, 26.5, 31.5, 32.0}) {
    CHECK(ring(carried) == "8 x 24/24 NVL/PXN pattern 4 crossNic 0");
  }
  CHECK(ring(16) == "8 x 12/12 NVL/PXN pattern 4 crossNic 0");
  CHECK(ring(16.1) == "8 x 15/15 NVL/PXN pattern 4 crossNic 0");  // of no generation: as it is
  CHECK(ring(40) == "8 x 40/40 NVL/PXN pattern 4 crossNic 0");
}

TEST_CASE("an NVL72", "[channels]") {
  NodeSpec spec;
  spec.gpus = spec.nics = spec.pcie_switches = 72;
  spec.sockets = 36;
  spec.compute_capability = 100;
  spec.cpu = CpuVendor::arm;
  spec.wiring = NvlinkWiring::nvswitch;
  spec.nvlink_bandwidth = 40.1_GBps * 18;
  spec.pcie_bandwidth = 48.0_GBps;
  spec.socket_bandwidth = 6.0_GBps;
  spec.nic_bandwidth = 400.0_Gbps;
  const ChannelGraphs g = graphs(spec, 72, 1);
  CHECK(text(g.ring) == "16 x 45/45 NVL/PIX pattern 4 crossNic 0");
  CHECK(g.channels == 32);
  CHECK(g.nvls.channels.size() == 32);
  CHECK(g.nvls_channels == 24);
  CHECK(all_permutations(g.ring, 72));
}

TEST_CASE("a GPU on its CPU's coherent link reaches the NIC through that CPU", "[channels]") {
  NodeSpec spec;
  spec.compute_capability = 90;
  spec.cpu = CpuVendor::arm;
  spec.gpus = spec.nics = 1;
  spec.nic_bandwidth = 400.0_Gbps;
  spec.devices = {{NodePart::gpu, "gpu", {}},
                  {NodePart::cpu, "cpu", {}},
                  {NodePart::pcie_switch, "pcie", {}},
                  {NodePart::nic, "nic", spec.nic_bandwidth}};
  spec.cables = {{0, 1, CableKind::pcie, 48.0_GBps},
                 {0, 1, CableKind::c2c, 450.0_GBps},
                 {2, 1, CableKind::pcie, 48.0_GBps},
                 {3, 2, CableKind::pcie, 48.0_GBps}};
  CHECK(graphs(spec, 1, 2).ring.type_inter == PathType::p2c);
}

TEST_CASE("SHARP and sockets", "[channels]") {
  SearchSpec search;
  search.sharp = true;
  const ChannelGraphs g = graphs(dgx_h100(), 8, 2, search);
  CHECK(g.collnet_chain.pattern == GraphPattern::tree);
  CHECK(g.collnet_chain.channels.size() == 8);
  CHECK(g.collnet_direct.pattern == GraphPattern::collnet_direct);
  CHECK(all_permutations(g.collnet_direct, 8));
  CHECK(graphs(dgx_h100(), 8, 1, search).collnet_chain.channels.empty());
  SearchSpec sockets;
  sockets.gdr = false;
  CHECK(graphs(dgx_h100(), 8, 2, sockets).ring.type_inter >= PathType::phb);
}

TEST_CASE("chunks of NVLS on Blackwell between nodes follow GPUs and NICs since 2.30", "[channels]") {
  const auto chunks = [](int gpus, int nodes, double gigabits, int minor = 30) {
    NodeSpec spec = node("dgx-b200", 100);
    spec.gpus = spec.nics = spec.pcie_switches = gpus;
    spec.nic_bandwidth = BytesPerSecond(gigabits / 8 * 1e9);
    spec.pcie_bandwidth = 112.0_GBps;
    const ChannelGraphs g = graphs(spec, gpus, nodes, version(minor));
    REQUIRE(g.nvls.type_inter <= PathType::pxb);
    return std::pair(g.nvls_chunk.value >> 10, g.nvls_tree_chunk.value >> 10);
  };
  using KiB = std::pair<std::int64_t, std::int64_t>;
  CHECK(chunks(4, 2, 400) == KiB{256, 256});
  CHECK(chunks(8, 2, 400) == KiB{128, 64});
  CHECK(chunks(8, 2, 800) == KiB{128, 128});
  CHECK(chunks(16, 2, 800) == KiB{128, 64});
  CHECK(chunks(8, 4, 400) == KiB{128, 64});
  CHECK(chunks(8, 4, 800) == KiB{256, 256});
  CHECK(chunks(16, 4, 800) == KiB{128, 128});
  CHECK(chunks(8, 2, 200) == KiB{128, 0});
  CHECK(chunks(8, 2, 400, 29) == KiB{0, 0});
}

TEST_CASE("the user's numbers of channels", "[channels]") {
  SearchSpec search;
  search.max_channels = 4;
  CHECK(graphs(dgx_h100(), 8, 1, search).channels == 4);
  search = {};
  search.min_channels = 32;
  CHECK(graphs(dgx_h100(), 8, 1, search).channels == 32);
  search = {};
  search.nvls = false;
  CHECK(graphs(dgx_h100(), 8, 1, search).nvls_channels == 0);
}

TEST_CASE("graphs that are given run on as many channels as those that are found", "[channels]") {
  constexpr int kApart = 7;  // every seventh: two of each preset, each setting and version on three or more
  int combinations = 0;
  for (const std::string& preset : node_preset_names()) {
    const NodeSpec spec = node_preset(preset);
    const NodeLayout layout = make_node_layout(spec, static_cast<std::uint32_t>(spec.gpus));
    for (const int minor : {14, 18, 22, 27, 30}) {
      for (const auto& [least, most] : {std::pair(0, 64), std::pair(12, 64), std::pair(0, 6)}) {
        if (++combinations % kApart != 0) {
          continue;
        }
        SearchSpec search = version(minor);
        search.min_channels = least;
        search.max_channels = most;
        const int nodes = spec.nics > 0 ? 2 : 1;
        CAPTURE(preset, minor, least, most);
        const ChannelGraphs found = search_channels(layout, spec, nodes, search);
        ChannelGraphs given = found;
        given.channels = given.nvls_channels = 0;
        given.nvls_chunk = given.nvls_tree_chunk = Bytes(0);
        count_channels(given, layout, spec, nodes, search);
        CHECK(given == found);
        search.sharp = true;
        given = search_channels(layout, spec, nodes, search);
        given.channels = 0;
        search.nvls = search.sharp = false;
        count_channels(given, layout, spec, nodes, search);
        CHECK(given == search_channels(layout, spec, nodes, search));
      }
    }
  }
}

TEST_CASE("NVLinks are counted whatever payload rate prices them", "[channels]") {
  for (const double rate : {18.0, 20.0, 22.0, 25.0}) {
    NodeSpec v100 = dgx1_v100(), a100 = dgx_a100();
    v100.nvlink_bandwidth = BytesPerSecond(rate * 1e9);
    a100.nvlink_bandwidth = BytesPerSecond(12 * rate * 1e9);
    CHECK(ring_of(v100, 8) == "6 x 20/20 NVL/PIX pattern 4 crossNic 0");
    CHECK(ring_of(a100, 8) == "12 x 20/20 NVL/PIX pattern 4 crossNic 0");
  }
}

TEST_CASE("a topology's channels are its node's", "[channels]") {
  ClusterSpec cluster;
  cluster.node = dgx_h100();
  cluster.nodes = 2;
  const Topology topology = build_topology(cluster);
  const ChannelGraphs a = search_channels(topology, {}), b = graphs(cluster.node, 8, 2);
  CHECK(text(a.ring) == text(b.ring));
  CHECK(orders(a.ring) == orders(b.ring));
}

TEST_CASE("random nodes: permutations, links within their rates, pairs under crossNic 2", "[channels]") {
  Draws dice{std::mt19937(11)};
  for (std::uint64_t i = 0; i < rounds(300); ++i) {
    const NodeSpec spec = random_node(dice);
    SearchSpec search = crossing(dice.below(3));
    search.pxn = dice.below(3) != 0;
    search.gdr = dice.below(4) != 0;
    search.sharp = dice.below(4) == 0;
    search.nccl_minor = static_cast<int>(dice.one_of({8, 12, 18, 22, 27, 30}));
    const int gpus = 1 + dice.below(spec.gpus), nodes = 1 + dice.below(3);
    INFO("node " << i << ", " << gpus << " GPUs, " << nodes << " nodes");
    const ChannelGraphs g = graphs(spec, gpus, nodes, search);
    INFO(text(g.ring));
    REQUIRE(!g.ring.channels.empty());
    CHECK(g.ring.channels.size() == g.tree.channels.size());
    CHECK(g.channels >= static_cast<int>(g.ring.channels.size()));
    CHECK((all_permutations(g.ring, gpus) && all_permutations(g.tree, gpus)));
    CHECK((all_permutations(g.nvls, gpus) && all_permutations(g.collnet_direct, gpus)));
    CHECK(rings_fit(spec, gpus, nodes, search, g.ring));
    for (const auto& [in, out] : nics(g.ring)) {
      CHECK((nodes > 1 ? in >= 0 && in < spec.nics && out >= 0 && out < spec.nics : in == -1 && out == -1));
      CHECK((g.ring.cross_nic != 0 || in == out || g.ring.bw_intra < 0.11));
    }
    CHECK((g.ring.cross_nic != 2 || paired(g.ring)));
  }
}
