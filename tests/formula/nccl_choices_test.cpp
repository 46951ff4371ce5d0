// Does a cluster read from NCCL's topology file choose what a real NCCL chose on it (nccl_choices.csv)? Search of
// channels, tuner and number of channels, all together.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/collective/nccl.h"
#include "tests/files.h"
#include "topology/nccl_xml.h"

namespace paceline {
namespace {

struct RealChoice {
  int nic_gbps = 0, nodes = 0;
  CollectiveKind kind{};
  Bytes bytes;
  Algorithm algorithm{};
  Protocol protocol{};
  std::uint32_t channels = 0;
};

template <class T>
T named_cell(std::istringstream& cells) {
  std::string name;
  cells >> name;
  const std::optional<T> found = find_named<T>(name);
  REQUIRE(found);
  return *found;
}

std::vector<std::pair<std::string, RealChoice>> real_choices() {
  std::ifstream in(kSource / "tests/formula/nccl_choices.csv");
  std::vector<std::pair<std::string, RealChoice>> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#') || line.starts_with("nic_gbps")) {
      continue;
    }
    std::string text = line;
    std::ranges::replace(text, ',', ' ');
    std::istringstream cells(text);
    RealChoice row;
    cells >> row.nic_gbps >> row.nodes;
    row.kind = named_cell<CollectiveKind>(cells);
    cells >> row.bytes.value;
    row.algorithm = named_cell<Algorithm>(cells);
    row.protocol = named_cell<Protocol>(cells);
    cells >> row.channels;
    REQUIRE(cells);
    rows.emplace_back(line, row);
  }
  return rows;
}

// A node whose GPU and NIC hang on one CPU; the NIC's rate in Mb/s.
std::string topology_file(int mbps) {
  return R"(<system version="1">
  <cpu numaid="-1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <pci busid="0000:00:06.0" class="0x030200" vendor="0x10de" device="0x2335" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="90" gdr="1"/>
    </pci>
    <nic>
      <net name="lo" dev="0" latency="0" speed=")" +
         std::to_string(mbps) + R"(" port="0" guid="0x0" maxconn="65536" gdr="0"/>
    </nic>
  </cpu>
</system>
)";
}

ClusterSpec cluster_of(int nic_gbps, int nodes) {
  ClusterSpec cluster;
  cluster.node = read_nccl_topology(topology_file(nic_gbps * 1000), "topology.xml");
  cluster.nodes = nodes;
  cluster.gpus_per_node = 1;
  return cluster;
}

}  // namespace

TEST_CASE("what is chosen, and on how many channels, is a real NCCL's") {
  const auto rows = real_choices();
  REQUIRE(rows.size() == 279);
  CollectiveSpec spec;
  spec.nccl = "2.28";
  for (const auto& [line, row] : rows) {
    CAPTURE(line);
    const Topology topology = build_topology(cluster_of(row.nic_gbps, row.nodes));
    NcclCollectives nccl(topology, spec, {});
    Communicator communicator;
    communicator.ranks = static_cast<std::uint32_t>(row.nodes);
    const TunerChoice choice = nccl.tuned(row.kind, row.bytes);
    CHECK(name_of(choice.algorithm) == name_of(row.algorithm));
    CHECK(name_of(choice.protocol) == name_of(row.protocol));
    const CollectivePlan plan = nccl.plan(communicator, row.kind, row.bytes, choice);
    CHECK(communicator.graphs[plan.graph].channels == row.channels);
  }
}

// The same runs' logs: "2 p2p channels per peer". A large message takes them all.
TEST_CASE("a message across the network takes a real NCCL's channels per peer") {
  struct Logged {
    int nic_gbps, nodes;
    std::uint32_t channels;
  };
  CollectiveSpec spec;
  spec.nccl = "2.28";
  for (const Logged& logged : {Logged{10, 2, 2},
                               {10, 4, 2},
                               {10, 8, 1},
                               {10, 16, 1},
                               {100, 4, 2},
                               {100, 8, 1},
                               {100, 16, 1},
                               {400, 4, 2},
                               {400, 8, 2},
                               {400, 16, 1}}) {
    CAPTURE(logged.nic_gbps, logged.nodes);
    const Topology topology = build_topology(cluster_of(logged.nic_gbps, logged.nodes));
    NcclCollectives nccl(topology, spec, {});
    Communicator communicator;
    communicator.ranks = static_cast<std::uint32_t>(logged.nodes);
    constexpr CollectiveKind kKind = CollectiveKind::send_recv;
    const Bytes bytes(64 << 20);
    const CollectivePlan plan = nccl.plan(communicator, kKind, bytes, nccl.tuned(kKind, bytes));
    CHECK(communicator.graphs[plan.graph].channels == logged.channels);
  }
}

}  // namespace paceline
