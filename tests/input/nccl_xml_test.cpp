// NCCL's topology and graph files: what is read from the structures that occur, and what bad files answer.
#include "topology/nccl_xml.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "core/error.h"
#include "sim/collective/nccl.h"
#include "tests/dice.h"
#include "tests/error_of.h"
#include "tests/files.h"
#include "tests/names_on.h"
#include "tests/processor_budget.h"
#include "topology/channel_search.h"
#include "topology/topology.h"

using namespace paceline;
using Catch::Contains;

namespace {

std::string file_text(const std::string& name) { return text_of(kSource / "tests/input/nccl" / name); }

NodeSpec node_of(const std::string& name) { return read_nccl_topology(file_text(name), name); }

Topology cluster_of(const NodeSpec& node, int nodes) {
  ClusterSpec spec;
  spec.node = node;
  spec.nodes = nodes;
  return build_topology(spec);
}

// On so many nodes, which are said to be such: what the job runs on.
ChannelGraphs counted(const ChannelGraphs& graphs, const NodeSpec& node, int nodes,
                      const char* nccl = "2.30") {
  ClusterSpec spec;
  spec.node = node;
  spec.nodes = nodes;
  spec.gpus_per_node = static_cast<int>(graphs.ring.channels.front().gpus.size());
  spec.graphs = graphs;
  CollectiveSpec how;
  how.nccl = nccl;
  return NcclCollectives(build_topology(spec), how, {}).graphs();
}

using Names = std::vector<std::string>;

std::vector<double> gigabytes_on(const Topology& t, const Route& route) {
  std::vector<double> rates;
  for (const LinkId id : route) {
    rates.push_back(t.link(id).bandwidth.value / 1e9);
  }
  return rates;
}

int count(const NodeSpec& node, NodePart kind) {
  return static_cast<int>(std::ranges::count(node.devices, kind, &NodeDevice::kind));
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

std::string once(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

// One CPU with what is given below it.
std::string system_of(const std::string& inside) {
  return "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
         "modelid=\"143\">\n" +
         inside + "</cpu>\n</system>\n";
}

std::string gpu_with(const std::string& bus, const std::string& attributes, const std::string& inside = "") {
  return "<pci busid=\"" + bus +
         "\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu " + attributes + ">" +
         inside + "</gpu></pci>\n";
}

std::string pci_switch(const std::string& bus, const std::string& attributes, const std::string& inside) {
  return "<pci busid=\"" + bus + "\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\" " +
         attributes + ">\n" + inside + "</pci>\n";
}

}  // namespace

TEST_CASE("the dump of eight H100 is the preset's machine") {
  const NodeSpec node = node_of("h100-dump.xml");
  CHECK(node.gpu == "H100");
  CHECK(node.compute_capability == 90);
  CHECK(node.cpu == CpuVendor::intel);
  CHECK(node.gpus == 8);
  CHECK(node.nics == 8);  // without the two management ports
  CHECK(node.wiring == NvlinkWiring::nvswitch);
  CHECK(count(node, NodePart::nvswitch) == 1);
  CHECK(count(node, NodePart::pcie_switch) == 8);
  CHECK(count(node, NodePart::cpu) == 2);

  const Topology dump = cluster_of(node, 2), preset = cluster_of(node_preset("dgx-h100"), 2);
  REQUIRE(dump.devices() == preset.devices());
  for (std::uint32_t a = 0; a < 16; ++a) {
    for (std::uint32_t b = 0; b < 16; ++b) {
      for (int channel = 0; a != b && channel < 8; ++channel) {
        const Route is = dump.route(Rank(a), Rank(b), channel), was = preset.route(Rank(a), Rank(b), channel);
        CHECK(names_on(dump, is) == names_on(preset, was));
        CHECK(gigabytes_on(dump, is) == gigabytes_on(preset, was));
      }
    }
  }
  const ChannelGraphs found = search_channels(dump, {}), expected = search_channels(preset, {});
  CHECK(found.channels == expected.channels);
  REQUIRE(found.ring.channels.size() == expected.ring.channels.size());
  for (std::size_t c = 0; c < found.ring.channels.size(); ++c) {
    CHECK(found.ring.channels[c].gpus == expected.ring.channels[c].gpus);
    CHECK(found.ring.channels[c].nic_in == expected.ring.channels[c].nic_in);
  }
  CHECK(bisection_bandwidth(dump).value == Approx(bisection_bandwidth(preset).value));
}

TEST_CASE("a vendor's file without <gpu> and <net> is read by class and PCI numbers") {
  const NodeSpec node = node_of("vendor-a100.xml");
  CHECK(node.gpu == "A100-40GB");
  CHECK(node.compute_capability == 80);
  CHECK(node.gpus == 8);
  CHECK(node.nics == 4);
  CHECK(node.nic_bandwidth.value == Approx(12.5e9));
  CHECK(node.wiring == NvlinkWiring::nvswitch);
  CHECK(node.nvlink_bandwidth.value == Approx(240e9));
  const Topology t = cluster_of(node, 2);
  CHECK(names_on(t, t.route(Rank(5), Rank(8), 1)) ==
        Names{"node0/gpu5", "node0/nvswitch", "node0/gpu2", "node0/pcie1", "node0/nic1", "leaf0",
              "node1/nic1", "node1/pcie1", "node1/gpu2", "node1/nvswitch", "node1/gpu0"});

  const NodeSpec bare = node_of("vendor-bare.xml");  // without PCI numbers
  CHECK(bare.gpu.empty());
  CHECK(bare.compute_capability == 0);
  CHECK(bare.wiring == NvlinkWiring::none);
  CHECK(bare.nics == 4);
  CHECK(bare.nic_bandwidth.value == Approx(12e9));  // as fast as its PCIe link
  const Topology pcie = cluster_of(bare, 1);
  CHECK(names_on(pcie, pcie.route(Rank(0), Rank(7), 0)) ==
        Names{"node0/gpu0", "node0/pcie0", "node0/cpu0", "node0/cpu1", "node0/pcie3", "node0/gpu7"});
  CHECK(gigabytes_on(pcie, pcie.route(Rank(0), Rank(7), 0)) == std::vector<double>{12, 12, 10, 12, 12});
}

TEST_CASE("the dump of a V100 cube mesh has the preset's routes") {
  const NodeSpec node = node_of("v100-mesh.xml");
  CHECK(node.wiring == NvlinkWiring::mesh);
  CHECK(node.compute_capability == 70);
  CHECK(node.gpu.empty());  // an old dump has no PCI numbers
  CHECK(count(node, NodePart::nvswitch) == 0);
  const Topology dump = cluster_of(node, 2), preset = cluster_of(node_preset("dgx1-v100"), 2);
  for (std::uint32_t a = 0; a < 8; ++a) {
    for (std::uint32_t b = 0; b < 16; ++b) {
      for (int nic = 0; a != b && nic < 4; ++nic) {
        CHECK(names_on(dump, dump.route(Rank(a), Rank(b), nic)) ==
              names_on(preset, preset.route(Rank(a), Rank(b), nic)));
      }
    }
  }
  CHECK(gigabytes_on(dump, dump.route(Rank(0), Rank(3), 0)) == std::vector<double>{40});
  CHECK(gigabytes_on(dump, dump.route(Rank(0), Rank(1), 0)) == std::vector<double>{20});
}

TEST_CASE("a machine is without GPUDirect RDMA where the file says so of all NICs, or of all GPUs") {
  const auto direct = [](const std::string& of_gpus, const std::string& of_nics) {
    std::string text = file_text("h100-dump.xml");
    for (const auto& [element, value] : {std::pair{"<gpu ", of_gpus}, {"<net ", of_nics}}) {
      for (std::size_t at = text.find(element); at != std::string::npos; at = text.find(element, at + 1)) {
        const std::size_t gdr = text.find("gdr=\"", at) + 5;
        text.replace(gdr, 1, value);
      }
    }
    return read_nccl_topology(text, "dump.xml").gpu_direct;
  };
  CHECK(direct("1", "1"));
  CHECK_FALSE(direct("1", "0"));
  CHECK_FALSE(direct("0", "1"));
  CHECK(node_of("vendor-bare.xml").gpu_direct);  // says nothing
}

TEST_CASE("PCIe cards below the CPUs of a virtual machine") {
  const NodeSpec node = node_of("pcie-vm.xml");
  CHECK(node.gpu == "A100-80GB");
  CHECK(node.cpu == CpuVendor::amd);
  CHECK(count(node, NodePart::pcie_switch) == 0);
  const Topology t = cluster_of(node, 2);
  CHECK(gigabytes_on(t, t.route(Rank(0), Rank(1), 0)) == std::vector<double>{240});  // the bridge
  CHECK(names_on(t, t.route(Rank(0), Rank(3), 0)) ==
        Names{"node0/gpu0", "node0/cpu0", "node0/cpu1", "node0/gpu3"});
  // A width of 0 is 16 lanes, an empty speed 8 GT/s; the NIC hangs on the CPU without a bottleneck.
  CHECK(gigabytes_on(t, t.route(Rank(2), Rank(4), 0)) ==
        std::vector<double>{12, 16, 5000, 12.5, 12.5, 5000, 12});
}

TEST_CASE("a GB200 tray: coherent links, invisible NVSwitches, a line break in an attribute") {
  const NodeSpec node = node_of("gb200-tray.xml");
  CHECK(node.gpu == "B200");
  CHECK(node.compute_capability == 100);
  CHECK(node.cpu == CpuVendor::arm);
  CHECK(node.nvlink_bandwidth.value == Approx(40.1e9 * 18));
  CHECK(node.pcie_bandwidth.value == Approx(53e9));
  const Topology t = cluster_of(node, 2);
  CHECK(names_on(t, t.route(Rank(0), Rank(3), 0)) == Names{"node0/gpu0", "node0/nvswitch", "node0/gpu3"});
  // Its own NIC, and another's, over the CPU that the NIC hangs on; PCIe is no cable beside c2c.
  CHECK(names_on(t, t.to_fabric(Rank(0), 0)) == Names{"node0/gpu0", "node0/cpu0", "node0/nic0", "leaf0"});
  CHECK(gigabytes_on(t, t.to_fabric(Rank(0), 0)) == std::vector<double>{44.712 * 5, 53, 50});
  CHECK(names_on(t, t.to_fabric(Rank(0), 3)) ==
        Names{"node0/gpu0", "node0/nvswitch", "node0/gpu3", "node0/cpu1", "node0/nic3", "leaf0"});
}

TEST_CASE("hosts of one NVLink domain are one node, in the order of the file") {
  const std::string tray = file_text("gb200-tray.xml");
  const std::size_t open = tray.find("  <cpu"), close = tray.find("</system>");
  const std::string second = replaced(tray.substr(open, close - open), "0x7e57000000000001", "0x1");
  const NodeSpec node = read_nccl_topology(tray.substr(0, close) + second + tray.substr(close), "two trays");
  CHECK(node.gpus == 8);
  CHECK(node.nics == 8);
  CHECK(count(node, NodePart::cpu) == 4);
  CHECK(std::ranges::count(node.cables, CableKind::socket, &NodeCable::kind) == 2);
  CHECK(node.devices[4].number == (std::int64_t{1} << 56));
  const Topology t = cluster_of(node, 1);
  CHECK(names_on(t, t.route(Rank(0), Rank(7), 0)) == Names{"node0/gpu0", "node0/nvswitch", "node0/gpu7"});
}

TEST_CASE("two-level Broadcom switches are one") {
  const std::string gpus = gpu_with("2:0", "dev=\"0\" rank=\"0\" sm=\"80\"");
  const auto below = [&](const std::string& upper, const std::string& lower) {
    return read_nccl_topology(system_of(pci_switch("1:0", upper, pci_switch("1:1", lower, gpus))), "");
  };
  const std::string gen4 =
      R"(vendor="0x1000" device="0xc010" subsystem_vendor="0x1000" subsystem_device="0xa096")";
  const std::string gen5 =
      R"(vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x)";
  CHECK(count(below(gen4, gen4), NodePart::pcie_switch) == 1);
  CHECK(count(below(gen5 + "0023\"", gen5 + "1023\""), NodePart::pcie_switch) == 1);
  CHECK(count(below(gen5 + "0023\"", gen5 + "0023\""), NodePart::pcie_switch) == 2);
  CHECK(count(below(gen4, gen5 + "1023\""), NodePart::pcie_switch) == 2);
  CHECK(count(below("", ""), NodePart::pcie_switch) == 2);
}

TEST_CASE("GPUs are in the order of dev, several ranks on one are one GPU, those without rank don't count") {
  const NodeSpec node = read_nccl_topology(
      system_of(gpu_with("5:0", R"(dev="2" rank="1" sm="90")") +
                gpu_with("6:0", R"(dev="0" rank="0" sm="80")") + gpu_with("7:0", R"(dev="1" sm="90")") +
                "<pci busid=\"8:0\" class=\"0x030200\"><gpu dev=\"3\" rank=\"2\" sm=\"90\"/>"
                "<gpu dev=\"3\" rank=\"3\" sm=\"90\"/></pci>"
                "<pci busid=\"9:0\" class=\"0x030000\" vendor=\"0x1a03\"/>"),
      "");
  REQUIRE(node.gpus == 3);
  CHECK(node.devices[0].name == "6:0");
  CHECK(node.devices[1].name == "5:0");
  CHECK(node.devices[2].number == 3);
  CHECK(node.compute_capability == 80);  // the least
}

TEST_CASE("links to what isn't there are left out, those listed by one side count, pcilink joins switches") {
  const std::string mesh = gpu_with("5:0", R"(dev="0" rank="0" sm="70")",
                                    R"(<nvlink target="6:0" count="2" tclass="0x030200"/>)"
                                    R"(<nvlink target="77:0" count="2" tclass="0x030200"/>)") +
                           gpu_with("6:0", R"(dev="1" rank="1" sm="70")");
  const NodeSpec node = read_nccl_topology(
      system_of(pci_switch("1:0", "", mesh + "<pcilink target=\"2:0\"/>\n<pcilink target=\"3:0\"/>\n") +
                pci_switch("2:0", "",
                           gpu_with("00000000:07:0", R"(dev="2" rank="2" sm="70")") +
                               "<pcilink target=\"1:0\"/>\n")),
      "");
  const Topology t = cluster_of(node, 1);
  CHECK(gigabytes_on(t, t.route(Rank(0), Rank(1), 0)) == std::vector<double>{40});
  CHECK(names_on(t, t.route(Rank(0), Rank(2), 0)) ==
        Names{"node0/gpu0", "node0/pcie0", "node0/pcie1", "node0/gpu2"});
}

TEST_CASE("ports of one adapter share its PCIe link, slow NICs and other nets don't count") {
  const std::string ports =
      "<pci busid=\"3:0\" class=\"0x020000\" link_speed=\"16 GT/s\" link_width=\"8\"><nic>"
      "<net name=\"b\" dev=\"1\" speed=\"100000\"/><net name=\"a\" dev=\"0\" speed=\"200000\"/>"
      "<net name=\"c\" dev=\"2\" speed=\"-1\"/><net name=\"d\" dev=\"3\" speed=\"400000\" net=\"0\"/>"
      "<net name=\"e\" speed=\"200000\"/></nic></pci>";
  const NodeSpec node = read_nccl_topology(system_of(gpu_with("1:0", "dev=\"0\" rank=\"0\"") + ports), "");
  REQUIRE(node.nics == 2);
  const Topology t = cluster_of(node, 2);
  CHECK(gigabytes_on(t, t.to_fabric(Rank(0), 0)) == std::vector<double>{53, 6, 25});
  CHECK(gigabytes_on(t, t.to_fabric(Rank(0), 1)) == std::vector<double>{53, 6, 12.5});
  CHECK(gigabytes_on(t, t.from_fabric(Rank(1), 1)) == std::vector<double>{12.5, 6, 53});
}

TEST_CASE("PCIe speeds and widths as the kernel writes them") {
  const auto rate = [](const std::string& speed, const std::string& width) {
    return read_nccl_topology(system_of("<pci busid=\"1:0\" class=\"0x030200\" link_speed=\"" + speed +
                                        "\" link_width=\"" + width + "\"><gpu dev=\"0\" rank=\"0\"/></pci>"),
                              "")
               .pcie_bandwidth.value /
           1e9;
  };
  CHECK(rate("2.5 GT/s", "16") == 3);
  CHECK(rate("5 GT/s", "16") == 6);
  CHECK(rate("8.0 GT/s PCIe", "8") == 6);
  CHECK(rate("16 GT/s", "16") == 24);
  CHECK(rate("32.0 GT/s PCIe", "16") == 53);  // NCCL counts 48
  CHECK(rate("64.0 GT/s PCIe", "16") == 106);
  CHECK(rate("Unknown", "63") == 12);
  CHECK(rate("", "0") == 12);
}

TEST_CASE("the graphs of two nodes of eight H100") {
  const NodeSpec node = node_of("h100-dump.xml");
  const std::string text = file_text("h100-graphs.xml");
  const ChannelGraphs graphs = read_nccl_graphs(text, "", &node);
  REQUIRE(graphs.ring.channels.size() == 8);
  CHECK(graphs.ring.pattern == GraphPattern::ring);
  CHECK(graphs.ring.cross_nic == 2);
  CHECK(graphs.ring.bw_intra == 48);
  CHECK(graphs.ring.type_intra == PathType::nvl);
  CHECK(graphs.ring.type_inter == PathType::pix);
  CHECK_FALSE(graphs.ring.same_channels);
  CHECK(graphs.ring.channels[1].gpus == std::vector{1, 7, 6, 5, 4, 3, 2, 0});
  CHECK(graphs.ring.channels[1].nic_in == 1);
  CHECK(graphs.ring.channels[1].nic_out == 0);
  CHECK(graphs.tree.pattern == GraphPattern::balanced_tree);
  CHECK(graphs.tree.channels[3].gpus.front() == 3);
  CHECK(graphs.collnet_chain.channels.empty());
  REQUIRE(graphs.nvls.channels.size() == 8);
  CHECK(graphs.nvls.channels[5].gpus == std::vector{5, 0, 1, 2, 3, 4, 6, 7});  // the head first
  CHECK(graphs.channels == 0);
  CHECK(graphs.nvls_channels == 0);
  // The node from its topology file, or by a preset's name, whose GPUs have no numbers.
  for (const ChannelGraphs& on :
       {counted(graphs, node, 2), counted(read_nccl_graphs(text, ""), node_preset("dgx-h100"), 2)}) {
    CHECK(on.channels == 16);
    CHECK(on.nvls_channels == 16);
    CHECK(on.nvls_chunk.value == 0);
  }
  const ChannelGraphs on_blackwell = counted(read_nccl_graphs(text, ""), node_preset("dgx-b200"), 2);
  CHECK(on_blackwell.nvls_channels == 32);
  CHECK(on_blackwell.nvls_chunk == Bytes(128 << 10));
  CHECK(counted(read_nccl_graphs(text, ""), node_preset("dgx-b200"), 2, "2.26").nvls_chunk.value == 0);
}

TEST_CASE("a graph file of a part of a node, or with few channels") {
  const std::string two = R"(<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="48" speedinter="48" typeintra="NVL" typeinter="P2C" samechannels="1">
    <channel> <net dev="0x2"/> <gpu dev="0xa"/> <gpu dev="b"/> <net dev="0x2"/> </channel>
  </graph>
</graphs>)";
  const ChannelGraphs graphs = read_nccl_graphs(two, "");
  CHECK(graphs.ring.channels[0].gpus == std::vector{0, 1});
  CHECK(graphs.ring.channels[0].nic_in == 2);
  CHECK(graphs.ring.type_inter == PathType::p2c);

  NodeSpec node = node_preset("dgx-h100");
  node.devices = {{NodePart::gpu, "", {}, 10}, {NodePart::gpu, "", {}, 11}, {NodePart::nic, "", {}, 2}};
  CHECK(read_nccl_graphs(two, "", &node).ring.channels[0].nic_out == 0);
  ChannelGraphs first_nic = read_nccl_graphs(two, "", &node);
  CHECK(counted(first_nic, node_preset("dgx-a100"), 2).channels == 2);
  CHECK(counted(first_nic, node_preset("dgx-h100"), 2).channels ==
        4);  // Hopper on several nodes doubles again
  CHECK(counted(first_nic, node_preset("dgx-h100"), 2, "2.17").channels == 2);
  first_nic.channels = 3;  // said: not counted
  CHECK(counted(first_nic, node_preset("dgx-h100"), 2).channels == 3);
  node.devices.pop_back();
  CHECK_THROWS_WITH(read_nccl_graphs(two, "g.xml", &node),
                    "g.xml: line 3: expected the dev of a NIC of the node, found \"0x2\"");
}

TEST_CASE("bad topology files say what was expected, and where") {
  const std::string good = file_text("h100-dump.xml");
  const std::string gpu = gpu_with("1:0", "dev=\"0\" rank=\"0\" sm=\"90\"");
  const auto with = [&](const std::string& attribute, const std::string& by) {
    return once(good, attribute, by);
  };
  std::string deep, wide;
  for (int i = 0; i < 100'000; ++i) {
    deep += "<pci>";
  }
  for (int i = 0; i < 10'000; ++i) {
    wide += gpu_with("0:" + std::to_string(i), "rank=\"0\" dev=\"" + std::to_string(i) + "\"");
  }
  std::string bomb = "<!DOCTYPE system [<!ENTITY a \"ha\">";
  for (char c = 'b'; c < 'm'; ++c) {
    const std::string one(1, static_cast<char>(c - 1)), entity = "&" + one + ";&" + one + ";";
    bomb += "<!ENTITY " + std::string(1, c) + " \"" + entity + entity + entity + entity + entity + "\">";
  }
  bomb += "]>" + good;
  const std::vector<std::pair<std::string, std::string>> bad{
      {"", "line 1: expected XML"},
      {"hello", "line 1: expected XML"},
      {"{\"system\": 1}", "line 1: expected XML"},
      {good.substr(0, good.size() / 2), "expected XML"},
      {good.substr(0, good.size() - 3), "expected XML"},
      {"<graphs version=\"1\"/>", "line 1: expected the element <system>, found <graphs>"},
      {good + "\n<system version=\"1\"/>", ": expected nothing after </system>, found <system>"},
      {with("version=\"1\"", "version=\"2\""), "line 1: expected version 1 of the format, found 2"},
      {with("version=\"1\"", "version=\"x\""), "line 1: expected a whole number as version of <system>"},
      {"<system version=\"1\"/>", "line 1: expected a machine with a GPU, found none"},
      {system_of(""), "line 1: expected a machine with a GPU, found none"},
      {bomb, "line 1: expected no DOCTYPE, found one"},
      {std::string(kLargestXml + 1, ' '), "expected at most 16777216 bytes, found 16777217"},
      {std::string(100u << 20, '<'), "expected at most 16777216 bytes"},
      {std::string(kLargestXml, '<'), "expected at most 500000 elements, found more"},
      {std::string(kLargestXml, '='), "expected at most 2000000 attributes, found more"},
      {system_of(deep), "expected XML"},
      {system_of(deep + replaced(deep, "<", "</")), "line 3: expected at most 64 elements inside each other"},
      {good + std::string(1, '\0'), "expected text, found a byte 0"},
      {system_of(wide), ": expected at most 256 GPUs, found 10000"},
      {system_of(gpu + gpu), "line 4: expected each busid once, found \"1:0\" again"},
      {system_of(gpu + gpu_with("2:0", "dev=\"0\" rank=\"1\"")),
       "line 4: expected each GPU of a host to have its own dev, found 0 again"},
      {with("dev=\"3\" speed", "dev=\"2\" speed"),
       ": expected each NIC of a host to have its own dev, found 2"},
      {system_of(gpu_with("", "dev=\"0\"")),
       "line 3: expected a PCI bus id such as \"0000:0f:00.0\" as busid of <pci>"},
      {system_of(gpu_with("zz:0", "dev=\"0\"")), "as busid of <pci>, found \"zz:0\""},
      {system_of(gpu_with("11111111111111111111", "dev=\"0\"")),
       "as busid of <pci>, found \"11111111111111111111\""},
      {system_of(gpu_with("\xff\xfe", "dev=\"0\"")), "as busid of <pci>, found \"?\?\""},
      {system_of(gpu_with("1:0", "dev=\"-1\"")),
       "line 3: expected a whole number from 0 to 1048576 as dev of <gpu>"},
      {system_of(gpu_with("1:0", "dev=\"0\" sm=\"nan\"")), "from 0 to 999 as sm of <gpu>, found \"nan\""},
      {system_of(gpu_with("1:0", "dev=\"0\" sm=\"0x-5\"")), "as sm of <gpu>, found \"0x-5\""},
      {system_of(gpu_with("1:0", "dev=\"0\" sm=\"90 \n90\"")), "as sm of <gpu>"},
      {with("count=\"5\"", "count=\"99999999999999999999\""),
       "line 6: expected a whole number from 0 to 1000 as count"},
      {with("count=\"5\"", "count=\"-5\""),
       "line 6: expected a whole number from 0 to 1000 as count of <nvlink>"},
      {with("speed=\"400000\"", "speed=\"nan\""), "as speed of <net>, found \"nan\""},
      {with("speed=\"400000\"", "speed=\"1e300\""), "as speed of <net>, found \"1e300\""},
      {with("speed=\"400000\"", "speed=\"fast\""), "as speed of <net>, found \"fast\""},
      {with("link_width=\"16\"", "link_width=\"wide\""), "line 3: expected a whole number from"},
      {system_of(gpu_with("1:0", "dev=\"0\"", "<nvlink target=\"1:0\" count=\"1\" tclass=\"0x030200\"/>")),
       "line 3: expected another GPU as target of <nvlink>, found the GPU itself"},
      {system_of(gpu_with("1:0", "dev=\"0\"", "<c2c bw=\"-3\" count=\"1\"/>")),
       "as bw of <c2c>, found \"-3\""},
      {system_of(pci_switch("9:0", "", gpu + "<pcilink target=\"9:0\"/>\n")),
       "line 5: expected another switch as target of <pcilink>, found the switch itself"},
  };
  const ProcessorBudget budget(10);
  for (const auto& [text, expected] : bad) {
    CAPTURE(text.substr(0, 300), expected);
    const std::string error = error_of([&, &t = text] { read_nccl_topology(t, "bad.xml"); });
    CHECK_THAT(error, Contains(expected) && Catch::StartsWith("bad.xml: "));
  }
  CHECK(error_of([&] { read_nccl_topology(good, ""); }) == "");
}

TEST_CASE("every truncation and many damages of a topology file are read or refused") {
  std::size_t read = 0, refused = 0;
  const auto try_out = [&](const auto& call) { ++(error_of(call).empty() ? read : refused); };
  for (const char* name : {"gb200-tray.xml", "pcie-vm.xml", "v100-mesh.xml"}) {
    const std::string good = file_text(name);
    for (std::size_t end = 0; end < good.size(); end += 7 * kStride) {
      try_out([&] { read_nccl_topology(good.substr(0, end), ""); });
    }
    for (std::size_t at = 0; at < good.size(); at += 3 * kStride) {
      for (const char c : {'0', '"', '<', 'x', '\xff'}) {
        std::string damaged = good;
        damaged[at] = c;
        try_out([&] { cluster_of(read_nccl_topology(damaged, ""), 2); });
      }
    }
  }
  CHECK(read > 5000 / kStride);
  CHECK(refused > 500 / kStride);
}

TEST_CASE("bad graph files say what was expected, and where") {
  const std::string good = file_text("h100-graphs.xml");
  const auto with = [&](const std::string& attribute, const std::string& by) {
    return once(good, attribute, by);
  };
  const std::string channel = "<channel><gpu dev=\"0\"/></channel>";
  std::string many;
  for (int i = 0; i < 65; ++i) {
    many += channel;
  }
  const std::vector<std::pair<std::string, std::string>> bad{
      {"<system version=\"1\"/>", "line 1: expected the element <graphs>, found <system>"},
      {"<graphs version=\"1\"/>", "line 1: expected a graph 0, the rings, with channels, found none"},
      {"<graphs version=\"1\"><graph/></graphs>", "line 1: expected a graph with an id, found none"},
      {with("id=\"1\"", "id=\"0\""), ": expected each graph once, found id 0 again"},
      {with("nchannels=\"8\"", "nchannels=\"7\""),
       "line 2: expected as many channels as nchannels says, 7, found 8"},
      {with("pattern=\"4\"", "pattern=\"7\""), "line 2: expected a whole number from 1 to 6 as pattern"},
      {with("speedintra=\"48\"", "speedintra=\"-48\""),
       "line 2: expected a number from 0 to 1e+06 as speedintra"},
      {with("typeintra=\"NVL\"", "typeintra=\"NVX\""),
       "line 2: expected a type of path such as PIX as typeintra"},
      {with("<gpu dev=\"0x2\"", "<gpu dev=\"0x0\""),
       "line 6: expected each GPU of a channel once, found \"0x0\" again"},
      {with("<gpu dev=\"0x2\" rank=\"2\"/>", ""), "line 3: expected a channel through 8 GPUs, found 7"},
      {with("<gpu dev=\"0x2\"", "<gpu dev=\"0x2g\""), "line 6: expected a whole number"},
      {with("<gpu dev=\"0x2\"", "<gpu"), "line 6: expected a dev, found none"},
      {with("<net dev=\"0x0\"/>", "<net dev=\"0x0\"/><net dev=\"0x0\"/>"),
       "line 3: expected one or two network devices in a channel, found 3"},
      {"<graphs version=\"1\"><graph id=\"0\">" + many + "</graph></graphs>",
       "line 1: expected at most 64 channels, found more"},
      {"<graphs version=\"1\"><graph id=\"0\"><channel/></graph></graphs>",
       "line 1: expected a channel through 0 GPUs, found 0"},
  };
  for (const auto& [text, expected] : bad) {
    CAPTURE(expected);
    CHECK_THAT(error_of([&, &t = text] { read_nccl_graphs(t, "bad.xml"); }),
               Contains(expected) && Catch::StartsWith("bad.xml: "));
  }
  std::size_t refused = 0;
  for (std::size_t at = 0; at < good.size(); at += 5) {
    std::string damaged = good;
    damaged[at] = '9';
    refused += error_of([&] { read_nccl_graphs(damaged, ""); }).empty() ? 0 : 1;
  }
  CHECK(refused > 500);
}
