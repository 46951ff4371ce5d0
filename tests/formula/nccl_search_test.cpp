// Do the search for channels and the tuner find and choose what NCCL's own code does (nccl_search.csv, nccl_tuned.csv),
// version by version?
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/text.h"
#include "sim/collective/nccl.h"
#include "tests/dice.h"
#include "tests/files.h"
#include "topology/channel_search.h"
#include "topology/nccl_xml.h"

namespace paceline {
namespace {

enum class BoardCpu { broadwell, skylake, sapphire_rapids, amd };

struct Board {
  int gpus, compute_capability, pcie, switches, sockets;
  BoardCpu cpu;
  int nics, gbps;
  int nvlinks = 0;                                // of a GPU, to an NVSwitch
  std::vector<std::tuple<int, int, int>> mesh{};  // GPU, GPU, NVLinks
  int gpu_direct = 1;
};

std::vector<std::tuple<int, int, int>> all_pairs(int links) {
  std::vector<std::tuple<int, int, int>> pairs;
  for (int a = 0; a < 4; ++a) {
    for (int b = a + 1; b < 4; ++b) {
      pairs.emplace_back(a, b, links);
    }
  }
  return pairs;
}

std::vector<std::tuple<int, int, int>> cube(int two) {
  return {{0, 1, 1}, {0, 2, 1}, {0, 3, two}, {0, 4, two}, {1, 2, two}, {1, 3, 1},   {1, 5, two}, {2, 3, two},
          {2, 6, 1}, {3, 7, 1}, {4, 5, 1},   {4, 6, 1},   {4, 7, two}, {5, 6, two}, {5, 7, 1},   {6, 7, two}};
}

const std::map<std::string, Board> kBoards{
    {"dgx1-p100", {8, 60, 3, 4, 2, BoardCpu::broadwell, 4, 100, 0, cube(1)}},
    {"dgx1-v100", {8, 70, 3, 4, 2, BoardCpu::broadwell, 4, 100, 0, cube(2)}},
    {"dgx2-v100", {16, 70, 3, 8, 2, BoardCpu::skylake, 8, 100, 6}},
    {"v100-4", {4, 70, 3, 2, 2, BoardCpu::skylake, 1, 100, 0, all_pairs(2)}},
    {"dgx-a100", {8, 80, 4, 4, 2, BoardCpu::amd, 8, 200, 12}},
    {"two-a100", {2, 80, 4, 4, 2, BoardCpu::amd, 8, 200, 12}},
    {"four-a100", {4, 80, 4, 4, 2, BoardCpu::amd, 8, 200, 12}},
    {"aws-p4d", {8, 80, 4, 4, 2, BoardCpu::skylake, 4, 100, 12}},
    {"a100-4", {4, 80, 4, 2, 2, BoardCpu::amd, 2, 200, 0, all_pairs(4)}},
    {"pcie-a100", {8, 80, 4, 4, 2, BoardCpu::amd, 1, 200}},
    {"pcie-nonic", {4, 80, 4, 0, 2, BoardCpu::amd, 1, 100}},
    {"dgx-h100", {8, 90, 5, 8, 2, BoardCpu::sapphire_rapids, 8, 400, 18}},
    {"two-h100", {2, 90, 5, 2, 1, BoardCpu::sapphire_rapids, 2, 400, 18}},
    {"four-h100", {4, 90, 5, 8, 2, BoardCpu::sapphire_rapids, 8, 400, 18}},
    {"six-h100", {6, 90, 5, 8, 2, BoardCpu::sapphire_rapids, 8, 400, 18}},
    {"a3-high", {8, 90, 5, 4, 2, BoardCpu::sapphire_rapids, 4, 200, 18}},
    {"a3-mega", {8, 90, 5, 8, 2, BoardCpu::sapphire_rapids, 8, 200, 18}},
    {"one-nic-h100", {8, 90, 5, 8, 2, BoardCpu::sapphire_rapids, 1, 400, 18}},
    {"tcp-h100", {8, 90, 5, 8, 2, BoardCpu::sapphire_rapids, 8, 200, 18, {}, 0}},
    {"pcie4-h100", {4, 90, 5, 0, 2, BoardCpu::sapphire_rapids, 2, 400}},
    {"dgx-b200", {8, 100, 5, 8, 2, BoardCpu::sapphire_rapids, 8, 400, 18}},
    {"one-h100", {1, 90, 5, 1, 1, BoardCpu::sapphire_rapids, 1, 400}},
};

std::string pci_text(const std::string& bus, const char* kind, const std::string& device, int generation) {
  const char* speed = generation == 3 ? "8.0" : generation == 4 ? "16.0" : "32.0";
  return "<pci busid=\"0000:" + bus + ":00.0\" class=\"" + kind + "\" " + device + " link_speed=\"" + speed +
         " GT/s PCIe\" link_width=\"16\">";
}

std::string gpu_bus(int gpu) { return formatted("%02x", 0x10 + gpu); }

std::string gpu_text(const Board& m, int gpu) {
  const char* device = m.compute_capability == 60    ? "0x15f9"
                       : m.compute_capability == 70  ? "0x1db1"
                       : m.compute_capability == 80  ? "0x20b2"
                       : m.compute_capability == 100 ? "0x2901"
                                                     : "0x2330";
  std::string text = pci_text(gpu_bus(gpu), "0x030200",
                              std::string("vendor=\"0x10de\" device=\"") + device +
                                  "\" subsystem_vendor=\"0x10de\" subsystem_device=\"0x16c1\"",
                              m.pcie) +
                     formatted("<gpu dev=\"%d\" sm=\"%d\" rank=\"%d\" gdr=\"%d\">", gpu, m.compute_capability,
                               gpu, m.gpu_direct);
  if (m.nvlinks > 0) {
    text += formatted("<nvlink target=\"0000:04:00.0\" count=\"%d\" tclass=\"0x068000\"/>", m.nvlinks);
  }
  for (const auto& [a, b, links] : m.mesh) {
    if (gpu == a || gpu == b) {
      text += "<nvlink target=\"0000:" + gpu_bus(gpu == a ? b : a) + ":00.0\" count=\"" +
              std::to_string(links) + "\" tclass=\"0x030200\"/>";
    }
  }
  return text + "</gpu></pci>\n";
}

std::string nic_text(const Board& m, int nic) {
  return pci_text(
             formatted("%02x", 0x40 + nic), "0x020700",
             "vendor=\"0x15b3\" device=\"0x1021\" subsystem_vendor=\"0x15b3\" subsystem_device=\"0x0041\"",
             m.pcie) +
         formatted(
             "<nic><net name=\"mlx5_%d\" dev=\"%d\" speed=\"%d\" port=\"1\" latency=\"0.000000\" "
             "guid=\"0x%x\" maxconn=\"131072\" gdr=\"%d\"/></nic></pci>\n",
             nic, nic, m.gbps * 1000, 0xa1000000 + nic, m.gpu_direct);
}

// GPUs and NICs spread evenly over the switches, or the CPUs where there are none, and these over the CPUs.
std::string board_file(const Board& m) {
  const std::map<BoardCpu, std::string> cpus{
      {BoardCpu::broadwell, R"(vendor="GenuineIntel" familyid="6" modelid="79")"},
      {BoardCpu::skylake, R"(vendor="GenuineIntel" familyid="6" modelid="85")"},
      {BoardCpu::sapphire_rapids, R"(vendor="GenuineIntel" familyid="6" modelid="143")"},
      {BoardCpu::amd, R"(vendor="AuthenticAMD" familyid="143" modelid="49")"}};
  const int parts = m.switches > 0 ? m.switches : m.sockets;
  std::string text = "<system version=\"1\">\n";
  for (int s = 0; s < m.sockets; ++s) {
    text += formatted("<cpu host_hash=\"0x1\" numaid=\"%d\" affinity=\"ffffffff\" arch=\"x86_64\" ", s) +
            cpus.at(m.cpu) + ">\n";
    for (int part = 0; part < parts; ++part) {
      if (part * m.sockets / parts != s) {
        continue;
      }
      text += m.switches > 0 ? pci_text(formatted("%02x", 0x80 + part), "0x060400",
                                        "vendor=\"0x1000\" device=\"0xc030\" subsystem_vendor=\"0x1f4c\" "
                                        "subsystem_device=\"0x0009\"",
                                        m.pcie) +
                                   "\n"
                             : "";
      for (int gpu = 0; gpu < m.gpus; ++gpu) {
        text += gpu * parts / m.gpus == part ? gpu_text(m, gpu) : "";
      }
      for (int nic = 0; nic < m.nics; ++nic) {
        text += nic * parts / m.nics == part ? nic_text(m, nic) : "";
      }
      text += m.switches > 0 ? "</pci>\n" : "";
    }
    text += "</cpu>\n";
  }
  return text + "</system>\n";
}

struct NcclGraph {
  std::string pattern, type_intra, type_inter;
  double bw_intra = 0, bw_inter = 0;
  std::size_t channels = 0;
  friend bool operator==(const NcclGraph&, const NcclGraph&) = default;
};
std::ostream& operator<<(std::ostream& out, const NcclGraph& f) {
  return out << f.pattern << ' ' << f.channels << " x " << f.bw_intra << '/' << f.bw_inter << ' '
             << f.type_intra << ' ' << f.type_inter;
}

using NcclGraphs = std::map<std::string, NcclGraph>;   // ring, tree, nvls
using SearchedAs = std::tuple<std::string, int, int>;  // machine, nodes, minor version
// What is not NCCL's.
const std::set<std::pair<SearchedAs, std::string>> kOtherwise{
    {{"pcie4-h100", 2, 18}, "ring"}, {{"pcie4-h100", 2, 18}, "tree"}, {{"pcie4-h100", 4, 18}, "ring"},
    {{"pcie4-h100", 4, 18}, "tree"}, {{"tcp-h100", 2, 18}, "nvls"},   {{"tcp-h100", 4, 18}, "nvls"},
    {{"tcp-h100", 2, 14}, "ring"},   {{"tcp-h100", 2, 14}, "tree"},   {{"tcp-h100", 4, 14}, "ring"},
    {{"tcp-h100", 4, 14}, "tree"}};

// The rows of a file beside this one, without its header.
std::vector<std::vector<std::string>> rows_of(const char* name, std::size_t columns) {
  std::ifstream in(kSource / "tests/formula" / name);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#') || line.starts_with("machine")) {
      continue;
    }
    std::istringstream row(line);
    std::vector<std::string> cells;
    for (std::string cell; std::getline(row, cell, ',');) {
      cells.push_back(cell);
    }
    cells.resize(columns);  // the last one may be empty
    rows.push_back(cells);
  }
  return rows;
}

ClusterSpec cluster_of_boards(const std::string& machine, int nodes) {
  ClusterSpec cluster;
  cluster.node = read_nccl_topology(board_file(kBoards.at(machine)), machine + ".xml");
  cluster.nodes = nodes;
  cluster.gpus_per_node = cluster.node.gpus;
  return cluster;
}

std::map<SearchedAs, NcclGraphs> recorded_graphs() {
  std::map<SearchedAs, NcclGraphs> all;
  for (const std::vector<std::string>& cells : rows_of("nccl_search.csv", 10)) {
    const NcclGraph found{cells[4],
                          cells[8],
                          cells[9],
                          std::stod(cells[6]),
                          std::stod(cells[7]),
                          static_cast<std::size_t>(std::stoi(cells[5]))};
    std::istringstream versions(cells[3]);
    for (std::string version; versions >> version;) {
      all[{cells[0], std::stoi(cells[1]), std::stoi(version.substr(2))}][cells[2]] = found;
    }
  }
  // Of rings and trees as many run as there are of both.
  for (auto& [key, graphs] : all) {
    const std::size_t both = std::min(graphs.at("ring").channels, graphs.at("tree").channels);
    graphs["ring"].channels = graphs["tree"].channels = both;
  }
  return all;
}

NcclGraph found_in(const ChannelGraph& graph, int nodes) {
  return {std::string(name_of(graph.pattern)),
          std::string(name_of(graph.type_intra)),
          nodes > 1 ? std::string(name_of(graph.type_inter)) : "",
          std::stod(formatted("%.1f", graph.bw_intra)),
          std::stod(formatted("%.1f", graph.bw_inter)),
          graph.channels.size()};
}

using Tuned = std::vector<std::pair<std::string, std::string>>;  // collectives, and what runs

std::map<SearchedAs, Tuned> recorded_choices() {
  std::map<SearchedAs, Tuned> all;
  for (const std::vector<std::string>& cells : rows_of("nccl_tuned.csv", 5)) {
    std::istringstream versions(cells[3]);
    for (std::string version; versions >> version;) {
      all[{cells[0], std::stoi(cells[1]), std::stoi(version.substr(2))}].emplace_back(cells[2], cells[4]);
    }
  }
  return all;
}

TEST_CASE("the search finds and the tuner chooses what NCCL's own code does, of each version") {
  int graphs_compared = 0, choices_compared = 0, other = 0;
  std::map<SearchedAs, std::pair<NcclGraphs, Tuned>> recorded;
  for (const auto& [key, graphs] : recorded_graphs()) {
    recorded[key].first = graphs;
  }
  for (const auto& [key, choices] : recorded_choices()) {
    recorded[key].second = choices;
  }
  std::size_t at = 0;
  for (const auto& [key, of_nccl] : recorded) {
    if (at++ % stride() != 0) {
      continue;
    }
    const auto& [machine, nodes, minor] = key;
    const auto& [graphs, choices] = of_nccl;
    const Topology topology = build_topology(cluster_of_boards(machine, nodes));
    CollectiveSpec spec;
    spec.nccl = "2." + std::to_string(minor);
    NcclCollectives nccl(topology, spec, {});
    CAPTURE(machine, nodes, minor);
    for (const auto& [name, graph] : graphs) {
      CAPTURE(name);
      const ChannelGraphs& found = nccl.graphs();
      const ChannelGraph& ours = name == "ring" ? found.ring : name == "tree" ? found.tree : found.nvls;
      if (kOtherwise.contains({key, name})) {
        CHECK_FALSE(found_in(ours, nodes) == graph);
      } else {
        CHECK(found_in(ours, nodes) == graph);
      }
      ++graphs_compared;
    }
    for (const auto& [collective, text] : choices) {
      std::istringstream runs(text);
      std::int64_t bytes = 1024;
      for (std::string run; runs >> run;) {
        const std::size_t end = run.find(':');
        for (const std::int64_t most = std::stoll(run.substr(end + 1)); bytes <= most; bytes *= 2) {
          const TunerChoice choice = nccl.tuned(*find_named<CollectiveKind>(collective), Bytes(bytes));
          const std::string chosen =
              std::string(name_of(choice.algorithm)) + '/' + std::string(name_of(choice.protocol));
          const bool same = chosen == run.substr(0, end);
          ++choices_compared;
          other += same ? 0 : 1;
          CAPTURE(collective, bytes, chosen, run);
          CHECK((same || minor == 18));  // whose graphs are not all NCCL's
        }
      }
    }
  }
  CHECK(graphs_compared == (thorough() ? 2042 : 511));
  CHECK(choices_compared == (thorough() ? 54'648 : 13'608));
  CHECK(other <= 14);
}

}  // namespace
}  // namespace paceline
