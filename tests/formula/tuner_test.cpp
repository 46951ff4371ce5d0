// Does the tuner choose what NCCL chooses? Against lines of a real log, against numbers that NCCL's own
// functions computed (nccl_tuning.csv says how), and by hand.
#include "sim/collective/tuner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "sim/collective/communicator.h"
#include "sim/collective/nccl.h"
#include "sim/collective/sizing.h"
#include "sim/collective/tuner_tables.h"
#include "tests/files.h"
#include "tests/sizes.h"

namespace paceline {
namespace {

using namespace units;

struct Link {
  double intra = 0, inter = 0;
  PathType type_intra = PathType::nvl, type_inter = PathType::pix;
};

// `channels` whose heads are GPU 0, 1, ...
ChannelGraph graph(GraphPattern pattern, int channels, const Link& link) {
  ChannelGraph made;
  made.pattern = pattern;
  made.bw_intra = link.intra;
  made.bw_inter = link.inter;
  made.type_intra = link.type_intra;
  made.type_inter = link.type_inter;
  for (int c = 0; c < channels; ++c) {
    made.channels.push_back({{c}, 0, 0});
  }
  return made;
}

ChannelGraphs graphs(int found, int nvls_found, const Link& link,
                     GraphPattern tree = GraphPattern::balanced_tree) {
  return {.ring = graph(GraphPattern::ring, found, link),
          .tree = graph(tree, found, link),
          .collnet_chain = graph(GraphPattern::tree, found, link),
          .collnet_direct = graph(GraphPattern::collnet_direct, found, link),
          .nvls = graph(GraphPattern::nvls, nvls_found, link),
          .channels = 2 * found,
          .nvls_channels = 16};
}

// 24 H100 in 3 nodes, each node eight 24 GB/s ways to the network.
TunerInput three_h100_nodes() {
  TunerInput in;
  in.version = {22};
  in.nodes = 3;
  in.ranks = 24;
  in.compute_capability = 90;
  in.nvswitch = true;
  in.graphs = graphs(8, 0, {48, 24}, GraphPattern::tree);
  return in;
}

// Everything that an H100 cluster can have.
TunerInput full_house(int nodes, NcclVersion version = {30}) {
  TunerInput in;
  in.version = version;
  in.nodes = nodes;
  in.ranks = 8 * nodes;
  in.compute_capability = 90;
  in.nvls = in.sharp = in.nvswitch = true;
  in.graphs = graphs(8, 8, {40, 40});
  return in;
}

const TunerRow& row(const TunerTable& table, Algorithm algorithm, Protocol protocol) {
  return table[static_cast<std::size_t>(algorithm)][static_cast<std::size_t>(protocol)];
}

bool enabled(const TunerInput& in, Algorithm algorithm, Protocol protocol = Protocol::simple) {
  return row(tuner_table(in), algorithm, protocol).enabled;
}

TunerInput on_one_gpu_per_node(TunerInput in) {
  in.ranks = in.nodes;
  return in;
}

TunerInput doing(CollectiveKind kind, TunerInput in) {
  in.kind = kind;
  return in;
}

// ------------------------------------------------------------------------------ against NCCL

TEST_CASE("the tuner says what NCCL 2.22 logged on 24 H100 in 3 nodes", "[tuner]") {
  // github.com/NVIDIA/nccl/issues/1453.
  const TunerInput in = three_h100_nodes();
  const TunerTable table = tuner_table(in);
  const auto large = tune(in, table, Bytes(8589934592));
  REQUIRE(large);
  CHECK(large->algorithm == Algorithm::ring);
  CHECK(large->protocol == Protocol::simple);
  CHECK(large->time == Approx(86069.96875).margin(0.01).epsilon(0));
  const auto small = tune(in, table, Bytes(1024));
  REQUIRE(small);
  CHECK(small->algorithm == Algorithm::tree);
  CHECK(small->protocol == Protocol::ll);
  CHECK(small->time == Approx(25.331232).margin(1e-4).epsilon(0));
}

TEST_CASE("a log line by hand", "[tuner]") {
  // Ring Simple, 2.22, 3 nodes of 8: 46 steps, 6 of them (2N) over the network. NVLink hop 3.4, network hop
  // 14, base 8.4; a large message's latency counts 1.4 times. Bus 8 * 24 = 192 GB/s, algorithm 192 * 24 / 46.
  const double latency = (8.4 + 40 * 3.4 + 6 * 14.0) * 1.4;
  const double bandwidth = 192.0 * 24 / 46;
  const TunerInput in = three_h100_nodes();
  const double time = tuner_time(in, tuner_table(in), Algorithm::ring, Protocol::simple, Bytes(8 * kGiB));
  CHECK(time == Approx(latency + 8 * kGiB / (1000 * bandwidth)).epsilon(1e-12));
}

struct ExpectedChoice {
  std::string line, algorithm, protocol;
  double latency = 0, bandwidth = 0, time = 0;
  std::int64_t bytes = 0;
};

// Rows of nccl_tuning.csv by case: all columns but the last six.
std::map<std::string, std::vector<ExpectedChoice>> nccl_numbers() {
  std::ifstream in(kSource / "tests/formula/nccl_tuning.csv");
  std::map<std::string, std::vector<ExpectedChoice>> cases;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with('v')) {
      continue;  // comment, header
    }
    std::size_t at = line.size();
    for (int comma = 0; comma < 6; ++comma) {
      at = line.rfind(',', at - 1);
    }
    ExpectedChoice made;
    made.line = line;
    std::string rest = line.substr(at + 1);
    std::ranges::replace(rest, ',', ' ');
    std::istringstream(rest) >> made.algorithm >> made.protocol >> made.latency >> made.bandwidth >>
        made.bytes >> made.time;
    cases[line.substr(0, at)].push_back(made);
  }
  return cases;
}

template <class T>
T named(const std::string& name, const std::vector<std::string>& names) {
  const auto at = std::ranges::find(names, name);
  REQUIRE(at != names.end());
  return static_cast<T>(at - names.begin());
}

const std::vector<std::string> kKinds{"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"};
const std::vector<std::string> kAlgorithmNames{"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                               "nvls_tree", "pat"};
const std::vector<std::string> kProtocolNames{"ll", "ll128", "simple"};
const std::vector<std::string> kCpus{"intel", "amd", "arm", "power"};

TunerInput input_of(std::string text) {
  std::ranges::replace(text, ',', ' ');
  std::istringstream words(text);
  std::string tag, kind, cpu;
  int gpus = 0, channels = 0, found = 0, nvls_found = 0, type_intra = 0, type_inter = 0, pattern = 0;
  double latency = 0;
  bool same = false;
  TunerInput in;
  Link link;
  words >> tag >> kind >> in.nodes >> gpus >> in.compute_capability >> cpu >> in.nvls >> in.sharp >>
      in.nvswitch >> channels >> found >> nvls_found >> link.intra >> link.inter >> type_intra >>
      type_inter >> latency >> pattern >> same;
  REQUIRE(words);
  link.type_intra = static_cast<PathType>(type_intra);
  link.type_inter = static_cast<PathType>(type_inter);
  in.version = nccl_version(tag.substr(1, tag.find('-') - 1));
  in.kind = named<CollectiveKind>(kind, kKinds);
  in.cpu = named<CpuVendor>(cpu, kCpus);
  in.ranks = in.nodes * gpus;
  in.graphs = graphs(found, nvls_found, link, static_cast<GraphPattern>(pattern));
  in.graphs.channels = channels;
  for (ChannelGraph* each : {&in.graphs.ring, &in.graphs.tree, &in.graphs.collnet_chain,
                             &in.graphs.collnet_direct, &in.graphs.nvls}) {
    each->latency_inter = latency;
    each->same_channels = same;
  }
  return in;
}

TEST_CASE("every version's table and times are NCCL's own", "[tuner]") {
  const auto cases = nccl_numbers();
  std::array<int, kNewestNccl + 1> of_version{};
  for (const auto& [text, rows] : cases) {
    const TunerInput in = input_of(text);
    const TunerTable table = tuner_table(in);
    ++of_version[static_cast<std::size_t>(in.version.minor)];
    std::size_t on = 0;
    for (const auto& protocols : table) {
      on += static_cast<std::size_t>(std::ranges::count_if(protocols, &TunerRow::enabled));
    }
    INFO(text);
    CHECK(on == rows.size());
    for (const ExpectedChoice& expected : rows) {
      INFO(expected.line);
      const auto algorithm = named<Algorithm>(expected.algorithm, kAlgorithmNames);
      const auto protocol = named<Protocol>(expected.protocol, kProtocolNames);
      const TunerRow& ours = row(table, algorithm, protocol);
      CHECK(ours.enabled);
      CHECK(ours.latency == Approx(expected.latency).epsilon(1e-6));
      CHECK(ours.bandwidth == Approx(expected.bandwidth).epsilon(1e-6));
      CHECK(tuner_time(in, table, algorithm, protocol, Bytes(expected.bytes)) ==
            Approx(expected.time).epsilon(2e-6));
    }
  }
  for (int minor = kOldestNccl; minor <= kNewestNccl; ++minor) {
    CHECK(of_version[static_cast<std::size_t>(minor)] >= 8);
  }
}

TEST_CASE("some cells by hand", "[tuner]") {
  // One node of 8 H100, 2.30: 8 channels of 40 GB/s found. 14 steps of all_reduce.
  const TunerInput in = full_house(1);
  const TunerTable table = tuner_table(in);
  CHECK(row(table, Algorithm::ring, Protocol::ll).bandwidth == Approx(141.0 * 8 / 14));
  CHECK(row(table, Algorithm::ring, Protocol::ll).latency == Approx(6.6 + 14 * 0.6));
  CHECK(row(table, Algorithm::ring, Protocol::ll128).bandwidth == Approx(8 * 36.7 * 8 / 14));
  CHECK(row(table, Algorithm::tree, Protocol::simple).bandwidth == Approx(320 * 0.92 / 2));
  CHECK(row(table, Algorithm::tree, Protocol::simple).latency == Approx(8.4 + 2 * 7 * 4.0));
  CHECK(row(table, Algorithm::nvls, Protocol::simple).bandwidth == Approx(8 * 40.0 * 8 / 14));
  CHECK(row(table, Algorithm::nvls, Protocol::simple).latency == Approx(25));
  // 2.22 counts 2N hops over the network, 2.23 2 (N - 1). Four nodes, 62 steps.
  const auto ring_latency = [](int minor) {
    return row(tuner_table(full_house(4, {minor})), Algorithm::ring, Protocol::simple).latency;
  };
  CHECK(ring_latency(22) == Approx(8.4 + 54 * 3.4 + 8 * 14));
  CHECK(ring_latency(23) == Approx(8.4 + 56 * 3.4 + 6 * 14));
}

TEST_CASE("a graph that states no network rate on one node does not slow NVLS down", "[tuner]") {
  for (const int minor : {19, 27, 28}) {
    TunerInput in = full_house(1, {minor});
    in.graphs.nvls.bw_inter = 1e9;
    const double unlimited = row(tuner_table(in), Algorithm::nvls, Protocol::simple).bandwidth;
    in.graphs.nvls.bw_inter = 0;
    CHECK(row(tuner_table(in), Algorithm::nvls, Protocol::simple).bandwidth == unlimited);
  }
}

// ------------------------------------------------------------------------------ what is possible

TEST_CASE("an algorithm is on only where its version has it", "[tuner]") {
  for (int minor = kOldestNccl; minor <= kNewestNccl; ++minor) {
    const TunerInput one = full_house(1, {minor}), four = full_house(4, {minor});
    const TunerInput single = on_one_gpu_per_node(doing(CollectiveKind::all_gather, four));
    INFO("2." << minor);
    CHECK(enabled(one, Algorithm::nvls) == (minor >= 17));
    CHECK(enabled(four, Algorithm::nvls) == (minor >= 18));
    CHECK(enabled(four, Algorithm::nvls_tree) == (minor >= 18));
    CHECK(enabled(single, Algorithm::pat) == (minor >= 23));
    CHECK(enabled(four, Algorithm::collnet_direct));
    CHECK(enabled(four, Algorithm::collnet_chain) == (minor >= 14));
    CHECK(enabled(doing(CollectiveKind::all_gather, one), Algorithm::nvls) == (minor == 17 || minor >= 19));
    CHECK(enabled(doing(CollectiveKind::all_gather, four), Algorithm::nvls) == (minor >= 27));
    CHECK(enabled(doing(CollectiveKind::reduce_scatter, four), Algorithm::collnet_direct) == (minor >= 20));
  }
}

TEST_CASE("an algorithm is on only where the hardware has it", "[tuner]") {
  const TunerInput four = full_house(4);
  CHECK_FALSE(enabled(full_house(1), Algorithm::nvls_tree));
  CHECK_FALSE(enabled(full_house(1), Algorithm::collnet_chain));
  TunerInput changed = four;
  changed.nvls = false;
  CHECK_FALSE(enabled(changed, Algorithm::nvls));
  CHECK_FALSE(enabled(changed, Algorithm::nvls_tree));
  changed = four;
  changed.sharp = false;
  CHECK_FALSE(enabled(changed, Algorithm::nvls));
  CHECK(enabled(changed, Algorithm::nvls_tree));
  CHECK_FALSE(enabled(changed, Algorithm::collnet_direct));
  CHECK_FALSE(enabled(changed, Algorithm::collnet_chain));
  changed = four;
  changed.nvswitch = false;
  CHECK_FALSE(enabled(changed, Algorithm::collnet_direct));
  CHECK(enabled(changed, Algorithm::collnet_chain));
  changed = four;
  changed.graphs.nvls.channels.resize(1);
  CHECK_FALSE(enabled(changed, Algorithm::nvls_tree));
  changed.version = {27};
  CHECK(enabled(changed, Algorithm::nvls_tree));
  changed = full_house(1);
  changed.ranks = 2;
  CHECK(enabled(changed, Algorithm::nvls));
  changed.version = {27};
  CHECK_FALSE(enabled(changed, Algorithm::nvls));
  CHECK_FALSE(enabled(doing(CollectiveKind::all_gather, four), Algorithm::pat));
}

TEST_CASE("a graph without channels takes its algorithm away, and nothing else", "[tuner]") {
  const TunerInput four = full_house(4);
  TunerInput changed = four;
  changed.graphs.tree.channels.clear();
  CHECK_FALSE(enabled(changed, Algorithm::tree));
  CHECK(enabled(changed, Algorithm::ring));
  changed = four;
  changed.graphs.ring.channels.clear();
  CHECK_FALSE(enabled(changed, Algorithm::ring));
  CHECK(enabled(changed, Algorithm::tree));
  changed.graphs = {};
  CHECK_FALSE(tune(changed, tuner_table(changed), Bytes(kMiB)));
}

TEST_CASE("broadcast and reduce run in rings only", "[tuner]") {
  for (const CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce}) {
    for (int minor = kOldestNccl; minor <= kNewestNccl; ++minor) {
      const TunerTable table = tuner_table(doing(kind, full_house(4, {minor})));
      for (std::size_t a = 0; a < kNcclAlgorithms; ++a) {
        CHECK(table[a][2].enabled == (static_cast<Algorithm>(a) == Algorithm::ring));
      }
    }
  }
}

TEST_CASE("LL128 wants direct links and a GPU that the version knows", "[tuner]") {
  const auto on = [](int minor, int cc, PathType intra, PathType inter) {
    TunerInput in = full_house(2, {minor});
    in.compute_capability = cc;
    in.graphs = graphs(4, 0, {20, 20, intra, inter});
    return enabled(in, Algorithm::ring, Protocol::ll128);
  };
  CHECK(on(30, 90, PathType::nvl, PathType::pxn));
  CHECK(on(30, 90, PathType::nvb, PathType::p2c));
  CHECK_FALSE(on(30, 90, PathType::nvl, PathType::phb));
  CHECK_FALSE(on(30, 90, PathType::c2c, PathType::pix));
  CHECK(on(30, 80, PathType::nvl, PathType::pxb));
  CHECK_FALSE(on(30, 80, PathType::nvl, PathType::pxn));
  CHECK(on(30, 86, PathType::nvl, PathType::pix));
  CHECK_FALSE(on(26, 86, PathType::nvl, PathType::pix));
  CHECK_FALSE(on(30, 61, PathType::nvl, PathType::pix));
  CHECK(on(18, 70, PathType::nvb, PathType::pix));
  CHECK_FALSE(on(17, 70, PathType::nvb, PathType::pix));
  CHECK_FALSE(on(14, 90, PathType::nvl, PathType::pix));
  CHECK(on(15, 90, PathType::nvl, PathType::pix));
  CHECK_FALSE(on(16, 90, PathType::nvl, PathType::pxn));
  CHECK_FALSE(on(24, 100, PathType::nvl, PathType::pix));
  CHECK(on(25, 100, PathType::nvl, PathType::pix));
}

// ------------------------------------------------------------------------------ versions and overrides

TEST_CASE("versions are read with or without their patch", "[tuner]") {
  CHECK(nccl_version("2.12") == NcclVersion{12});
  CHECK(nccl_version("2.22.3") == NcclVersion{22});
  CHECK(to_string(NcclVersion{30}) == "2.30");
  for (const char* bad : {"", "2", "2.11", "2.31", "3.1", "2.x", "2.22.", "2.22.3.1", "22", "2.22-1"}) {
    CHECK_THROWS_AS(nccl_version(bad), InputError);
  }
}

std::string on_of(const TunerOverrides& overrides) {
  std::string names;
  for (std::size_t a = 0; a < kNcclAlgorithms; ++a) {
    names += overrides.algorithm[a] ? kAlgorithmNames[a] + " " : "";
  }
  for (std::size_t p = 0; p < kProtocols; ++p) {
    names += overrides.protocol[p] ? kProtocolNames[p] + " " : "";
  }
  return names + (overrides.protocol_forced ? "forced" : "");
}

TEST_CASE("overrides follow NCCL's syntax", "[tuner]") {
  const CollectiveKind reduce = CollectiveKind::all_reduce, gather = CollectiveKind::all_gather;
  const std::string all = "tree ring collnet_direct collnet_chain nvls nvls_tree pat ";
  CHECK(on_of(tuner_overrides("", "", reduce)) == all + "ll ll128 simple ");
  CHECK(on_of(tuner_overrides("ring", "Simple", reduce)) == "ring simple forced");
  CHECK(on_of(tuner_overrides("RING,tree", "", reduce)) == "tree ring ll ll128 simple ");
  CHECK(on_of(tuner_overrides("^nvls,NVLSTree", "^LL128", reduce)) ==
        "tree ring collnet_direct collnet_chain pat ll simple forced");
  const std::string by_function = "tree;allgather:ring,PAT;AllReduce:^ring";
  CHECK(on_of(tuner_overrides(by_function, "allreduce:LL", reduce)) ==
        "tree collnet_direct collnet_chain nvls nvls_tree pat ll forced");
  CHECK(on_of(tuner_overrides(by_function, "allreduce:LL", gather)) == "ring pat ll ll128 simple ");
  CHECK(on_of(tuner_overrides(by_function, "", CollectiveKind::broadcast)) == "tree ll ll128 simple ");
  CHECK_THROWS_AS(tuner_overrides("rings", "", reduce), InputError);
  CHECK_THROWS_AS(tuner_overrides("", "LL256", reduce), InputError);
  CHECK_THROWS_AS(tuner_overrides("ring;tree", "", reduce), InputError);
  CHECK_THROWS_AS(tuner_overrides("alltoall:ring", "", reduce), InputError);
  CHECK_THROWS_AS(tuner_overrides("allreduce:ring:tree", "", reduce), InputError);
  CHECK_THROWS_WITH(tuner_overrides("Rink", "", reduce), Catch::Contains("did you mean \"Ring\""));
}

TEST_CASE("overrides decide what is chosen", "[tuner]") {
  TunerInput in = full_house(4);
  const auto choice = [&](const std::string& algo, const std::string& proto, std::int64_t bytes) {
    in.allowed = tuner_overrides(algo, proto, in.kind);
    return tune(in, tuner_table(in), Bytes(bytes));
  };
  for (const std::int64_t bytes : {8 * kKiB, kMiB, kGiB}) {
    CHECK(choice("ring", "", bytes)->algorithm == Algorithm::ring);
    CHECK(choice("tree", "", bytes)->algorithm == Algorithm::tree);
    CHECK(choice("^tree,ring", "", bytes)->protocol == Protocol::simple);
    CHECK(choice("", "ll", bytes)->protocol == Protocol::ll);
    CHECK_FALSE(choice("pat", "", bytes));
    CHECK_FALSE(choice("nvls", "LL", bytes));
  }
  in.version = {23};  // a ring, where nothing is left
  CHECK(choice("pat", "Simple", kMiB)->algorithm == Algorithm::ring);
  in.version = {30};
  in.graphs.ring.type_inter = PathType::sys;
  CHECK_FALSE(enabled(in, Algorithm::ring, Protocol::ll128));
  CHECK(choice("ring", "LL128", kMiB)->protocol == Protocol::ll128);
}

TEST_CASE("what NCCL does not tune", "[tuner]") {
  TunerInput in = doing(CollectiveKind::send_recv, full_house(1));
  CHECK(tune(in, tuner_table(in), Bytes(kKiB))->algorithm == Algorithm::point_to_point);
  CHECK(tune(in, tuner_table(in), Bytes(kKiB))->protocol == Protocol::ll);
  CHECK(tune(in, tuner_table(in), Bytes(kGiB))->protocol == Protocol::simple);
  in = doing(CollectiveKind::all_to_all, full_house(4));
  CHECK(tune(in, tuner_table(in), Bytes(kKiB))->protocol == Protocol::simple);
  in = full_house(1);
  in.ranks = 1;
  CHECK(tune(in, tuner_table(in), Bytes(kKiB))->algorithm == Algorithm::ring);
}

TEST_CASE("a ring's best time never falls as a message grows", "[tuner]") {
  for (int minor = kOldestNccl; minor <= kNewestNccl; ++minor) {
    for (const int nodes : {1, 2, 4}) {
      TunerInput in = full_house(nodes, {minor});
      in.allowed = tuner_overrides("ring", "", in.kind);
      const TunerTable table = tuner_table(in);
      double before = 0;
      for (std::int64_t bytes = 1; bytes <= 16 * kGiB; bytes += bytes / 3 + 1) {
        const auto choice = tune(in, table, Bytes(bytes));
        REQUIRE(choice);
        CHECK(choice->time >= before);
        before = choice->time;
      }
    }
  }
}

TEST_CASE("limits and latencies come from the tables", "[tuner]") {
  constexpr int kHopper = 2, kAmd = 1;
  CHECK(cap({30}, Cap::ll, ll_row({30}, 90, CpuVendor::intel, 1), 1) == 141);
  CHECK(cap({30}, Cap::ll, ll_row({30}, 90, CpuVendor::amd, 3), 3) == 19);
  CHECK(ll_row({30}, 90, CpuVendor::amd, 3) == kAmd);
  CHECK(cap({30}, Cap::ring_ll128, kHopper, 1) == 36.7);
  CHECK(cap({30}, Cap::tree_ll128, kHopper, 3) == 29);
  CHECK(cap({30}, Cap::tree, kHopper, 3) == 36);
  CHECK(cap({30}, Cap::nvls_tree, kHopper, 3) == 45.5);
  CHECK(cap({28}, Cap::nvls_tree, kHopper, 2) == 57.7);
  CHECK(nvls_efficiency(kHopper) == 0.85);
  const LatencyRow* ring = latency_row({30}, Algorithm::ring);
  REQUIRE(ring != nullptr);
  CHECK(ring->base[2] == 8.4);
  CHECK(ring->nvlink[2] == 3.4);
  CHECK(ring->pcie[2] == 5.7);
  CHECK(ring->network[2] == 14);
  CHECK(latency_row({16}, Algorithm::nvls) == nullptr);
  CHECK(tree_correction(Protocol::ll, 12) == 0.4);
}

// ------------------------------------------------------------------------------ sizing

struct Way {
  Algorithm algorithm;
  CollectiveKind kind;
  int nodes, gpus;
  std::int64_t blocks;
};

// Every algorithm for every collective that it runs.
std::vector<Way> ways() {
  using A = Algorithm;
  using K = CollectiveKind;
  std::vector<Way> all;
  for (const int nodes : {1, 2, 5}) {
    const std::int64_t ranks = 8 * nodes;
    for (const K kind : {K::all_reduce, K::all_gather, K::reduce_scatter}) {
      all.push_back({A::ring, kind, nodes, 8, ranks});
      const std::int64_t heads = kind == K::all_reduce ? 8 : ranks;  // a gather's blocks are all ranks'
      all.push_back({A::nvls, kind, nodes, 8, heads});
      all.push_back({A::collnet_direct, kind, nodes, 8, heads});
    }
    for (const K kind : {K::broadcast, K::reduce}) {
      all.push_back({A::ring, kind, nodes, 8, 1});
    }
    all.push_back({A::tree, K::all_reduce, nodes, 8, 1});
    all.push_back({A::collnet_chain, K::all_reduce, nodes, 8, 1});
    all.push_back({A::nvls_tree, K::all_reduce, nodes, 8, 8});
    all.push_back({A::hierarchical, K::all_reduce, nodes, 8, ranks});
    all.push_back({A::point_to_point, K::all_to_all, nodes, 8, ranks});
    all.push_back({A::point_to_point, K::send_recv, nodes, 8, 1});
    all.push_back({A::pat, K::all_gather, nodes + 1, 1, nodes + 1});
    all.push_back({A::pat, K::reduce_scatter, nodes + 1, 1, nodes + 1});
  }
  return all;
}

TunerInput input_of(const Way& way, int minor = 30) {
  TunerInput in = doing(way.kind, full_house(way.nodes, {minor}));
  in.ranks = way.nodes * way.gpus;
  return in;
}

std::vector<Protocol> protocols_of(const Way& way) {
  if (way.algorithm == Algorithm::ring || way.algorithm == Algorithm::tree) {
    return {Protocol::ll, Protocol::ll128, Protocol::simple};
  }
  return {Protocol::simple};
}

std::int64_t grain_of(Protocol protocol) {
  return protocol == Protocol::ll ? 16 : protocol == Protocol::ll128 ? 1920 : 512;
}

// The most data that a FIFO's slots can hold: 4 MiB in Simple, 256 KiB in LL, 4.6 MB in LL128.
std::int64_t buffer_of(Protocol protocol) {
  return protocol == Protocol::ll ? 256 * kKiB : protocol == Protocol::ll128 ? 4'608'000 : 4 * kMiB;
}

void check_sizing(const Sizing& sizing, const Way& way, Protocol protocol, std::int64_t bytes) {
  const std::int64_t mine = (bytes + sizing.channels - 1) / sizing.channels;
  REQUIRE_FALSE(sizing.loops.empty());
  REQUIRE(sizing.loops.size() <= 2);
  std::int64_t covered = 0;
  for (const Loops& loops : sizing.loops) {
    CHECK(loops.count >= 1);
    CHECK(loops.chunk.value > 0);
    CHECK(loops.chunk.value % 16 == 0);
    covered += loops.count * loops.chunk.value * way.blocks;
  }
  CHECK(covered >= mine);
  CHECK(covered - mine < 16 * way.blocks);
  if (sizing.loops.size() == 2) {
    CHECK(sizing.loops.front().chunk.value % grain_of(protocol) == 0);
    CHECK(sizing.loops.back().count == 1);
    CHECK(sizing.loops.back().chunk < sizing.loops.front().chunk);
  }
  const bool nvls = way.algorithm == Algorithm::nvls || way.algorithm == Algorithm::nvls_tree;
  const Loops& full = sizing.loops.front();
  const std::int64_t slice = full.slice.value > 0 ? full.slice.value : full.chunk.value;
  CHECK(slice * sizing.slots <= buffer_of(protocol) * (nvls ? way.blocks : 1));  // each head has one
}

TEST_CASE("loops cover a channel's bytes, and no 16 bytes of a block more", "[sizing]") {
  for (const Way& way : ways()) {
    for (const Protocol protocol : protocols_of(way)) {
      for (const int minor : {12, 19, 30}) {
        const TunerInput in = input_of(way, minor);
        for (std::int64_t bytes = 1; bytes <= 20 * kGiB; bytes += bytes * 2 / 3 + 1) {
          INFO(static_cast<int>(way.algorithm)
               << " " << static_cast<int>(way.kind) << " nodes " << way.nodes << " protocol "
               << static_cast<int>(protocol) << " bytes " << bytes);
          const Sizing sizing = size_collective(in, {way.algorithm, protocol, 0}, Bytes(bytes));
          CHECK(sizing.channels >= 1);
          CHECK(sizing.channels <= 16);
          check_sizing(sizing, way, protocol, bytes);
        }
      }
    }
  }
}

TEST_CASE("nothing takes one loop of nothing", "[sizing]") {
  for (const Way& way : ways()) {
    const Sizing sizing = size_collective(input_of(way), {way.algorithm, Protocol::simple, 0}, Bytes(0));
    CHECK(sizing.channels == 1);
    CHECK(sizing.loops == std::vector<Loops>{{1, Bytes(0)}});
  }
}

TEST_CASE("small messages take few channels, large ones all", "[sizing]") {
  for (const Way& way : ways()) {
    for (const Protocol protocol : protocols_of(way)) {
      const TunerInput in = input_of(way);
      const auto channels = [&](std::int64_t bytes) {
        return size_collective(in, {way.algorithm, protocol, 0}, Bytes(bytes)).channels;
      };
      INFO(static_cast<int>(way.algorithm) << " " << static_cast<int>(way.kind) << " nodes " << way.nodes);
      if (way.algorithm != Algorithm::collnet_direct &&
          !(way.algorithm == Algorithm::nvls && way.nodes > 1)) {
        CHECK(channels(64) <= (way.kind == CollectiveKind::all_to_all ? 16 : 1));
      }
      if (way.algorithm != Algorithm::point_to_point) {
        CHECK(channels(16 * kGiB) == 16);
      }
    }
  }
}

TEST_CASE("channels, chunks and loops by hand", "[sizing]") {
  // NCCL 2.30, 16 channels, 8 GPUs on one node.
  const TunerInput in = full_house(1);
  const auto sized = [&](Algorithm algorithm, Protocol protocol, std::int64_t bytes) {
    return size_collective(in, {algorithm, protocol, 0}, Bytes(bytes));
  };
  // A loop of a channel is 8 chunks of 2 MiB; 1 GiB / 16 is 4 of them.
  const Sizing large = sized(Algorithm::ring, Protocol::simple, kGiB);
  CHECK(large.channels == 16);
  CHECK(large.loops == std::vector<Loops>{{4, Bytes(2 * kMiB), Bytes(kMiB)}});
  CHECK(large.slots == 4);
  // 64 B for each of 512 threads: 1 MiB feeds 32 channels; 64 cells of 16 KiB, 4 for each of 16 channels.
  const Sizing medium = sized(Algorithm::ring, Protocol::simple, kMiB);
  CHECK(medium.channels == 16);
  CHECK(medium.loops == std::vector<Loops>{{1, Bytes(8 * kKiB), Bytes(8 * kKiB)}});  // and an empty slice
  CHECK(medium.slots == 4);
  // 68 cells: 5 for each of 14 channels, the last of which gets 3.
  CHECK(sized(Algorithm::ring, Protocol::simple, 68 * 16 * kKiB).channels == 14);
  // LL: 8 B * 8 ranks * 512 threads = 32 KiB a channel; cells of 4 KiB.
  const Sizing small = sized(Algorithm::ring, Protocol::ll, 100 * kKiB);
  CHECK(small.channels == 3);
  // 100 KiB / 3 / 8, to the next 16; what 512 threads move at once is 4 KiB.
  CHECK(small.loops == std::vector<Loops>{{1, Bytes(4272), Bytes(4 * kKiB)}});
  CHECK(small.slots == 16);
  // NVLS: 1 MiB a channel is below 8 times 8 chunks of 64 KiB, not below twice 8 of 32 KiB.
  CHECK(sized(Algorithm::nvls, Protocol::simple, 16 * kMiB).loops ==
        std::vector<Loops>{{4, Bytes(32 * kKiB)}});
  CHECK(sized(Algorithm::nvls, Protocol::simple, 16 * kGiB).loops ==
        std::vector<Loops>{{1024, Bytes(128 * kKiB)}});
  // Tree LL128: depth 1 + 0 + 0.8, so above 128 KiB it wants 14.4 chunks and above 32 KiB 3.6. 1 MiB a
  // channel is 7 of 144000 B, then 14 of 72000 B, in whole grains 37 of them.
  CHECK(sized(Algorithm::tree, Protocol::ll128, 16 * kMiB).loops.front().chunk == Bytes(37 * 1920));
}

TEST_CASE("buffers and chunks are as large as asked, and NVLS trees' as the version has them", "[sizing]") {
  TunerInput in = full_house(2);
  in.sizes = {8_MiB, 512_KiB, 512_KiB, {}};  // as EFA's plugin has them
  const auto chunk = [&](int minor, Algorithm algorithm, std::int64_t bytes) {
    in.version.minor = minor;
    return size_collective(in, {algorithm, Protocol::simple, 0}, Bytes(bytes)).loops.front().chunk;
  };
  CHECK(chunk(30, Algorithm::ring, kGiB) == 4_MiB);  // four steps of an eighth
  CHECK(chunk(30, Algorithm::tree, kGiB) == 1_MiB);
  // 16 channels of 8 heads: below 32 loops of 512 KiB, 2 GiB, and 16 of 256 KiB, 512 MiB.
  CHECK(chunk(30, Algorithm::nvls_tree, 2 * kGiB) == 512_KiB);
  CHECK(chunk(30, Algorithm::nvls_tree, 2 * kGiB - 16 * kMiB) == 256_KiB);
  CHECK(chunk(30, Algorithm::nvls_tree, 512 * kMiB) == 256_KiB);
  CHECK(chunk(30, Algorithm::nvls_tree, 256 * kMiB) == 128_KiB);
  CHECK(chunk(20, Algorithm::nvls_tree, 4 * kGiB) == 512_KiB);
  in.sizes.nvls_tree_chunk = 64_KiB;
  CHECK(chunk(20, Algorithm::nvls_tree, 4 * kGiB) == 64_KiB);
  CHECK(chunk(19, Algorithm::nvls_tree, 16 * kGiB) == 1_MiB);  // there is no such limit yet
  // Asked for nothing: until 2.20 a step, then NVLS's chunk; from four nodes on 64 KiB, but not yet in 2.18.
  in.sizes = {};
  CHECK(chunk(20, Algorithm::nvls_tree, 4 * kGiB) == 512_KiB);
  CHECK(chunk(21, Algorithm::nvls_tree, 4 * kGiB) == 128_KiB);
  in = full_house(4);
  CHECK(chunk(18, Algorithm::nvls_tree, 8 * kGiB) == 512_KiB);
  CHECK(chunk(19, Algorithm::nvls_tree, 8 * kGiB) == 64_KiB);
  CHECK(chunk(30, Algorithm::nvls_tree, 8 * kGiB) == 64_KiB);
}

TEST_CASE("EFA's plugin sets NCCL's sizes by GPU and between nodes, where nobody else does", "[sizing]") {
  const auto chunk = [](const char* node, int nodes, Bytes asked) {
    ClusterSpec cluster;
    cluster.node = node_preset(node);
    cluster.nodes = nodes;
    CollectiveSpec spec;
    spec.algorithm = "ring";
    spec.protocol = "simple";
    spec.sizes.buffer = asked;
    const Topology topology = build_topology(cluster);
    return nccl_planner(topology, spec, {})
        .plan({CollectiveKind::all_reduce, Bytes(16 * kGiB), kAllRanks})
        .loops.front()
        .chunk;
  };
  for (const char* node : {"aws-p5", "aws-p4d"}) {
    CHECK(chunk(node, 2, {}) == 4_MiB);
    CHECK(chunk(node, 1, {}) == 2_MiB);
    CHECK(chunk(node, 2, 2_MiB) == 1_MiB);
  }
  CHECK(chunk("aws-p3dn", 2, {}) == 2_MiB);
  CHECK(chunk("dgx-h100", 2, {}) == 2_MiB);
}

TEST_CASE("EFA's plugin of a version's time tells the latency that its choice rests on", "[tuner]") {
  // aws-ofi-nccl 1.5.0 tells 150 us, with which two p4de take a tree in Simple for 8 bytes (2.17's: 2 (7 * 28 + L)
  // against 8.4 + 26 * 3.4 + 4 L); 75 us since 1.7, with which 2.17 would take a ring.
  const auto check = [](const char* node, const char* version, double tree, Algorithm chosen) {
    ClusterSpec cluster;
    cluster.node = node_preset(node);
    cluster.nodes = 2;
    const Topology topology = build_topology(cluster);
    NcclCollectives nccl(topology, {.nccl = version, .protocol = "simple"}, {});
    CAPTURE(node, version);
    CHECK(nccl.time_of(CollectiveKind::all_reduce, Bytes(8), {Algorithm::tree, Protocol::simple, 0}) ==
          Approx(tree).margin(0.1));
    CHECK(nccl.tuned(CollectiveKind::all_reduce, Bytes(8)).algorithm == chosen);
  };
  check("aws-p4de", "2.17", 2 * (7 * 28 + 150), Algorithm::tree);
  check("aws-p4de", "2.18", 2 * (7 * 4 + 14 + 2 * 75), Algorithm::tree);
  check("dgx-a100", "2.17", 2 * (7 * 28 + 28), Algorithm::ring);
}

TEST_CASE("messages between peers are as large as asked, and no larger than a step", "[sizing]") {
  TunerInput in = full_house(2);
  in.kind = CollectiveKind::send_recv;
  const auto chunk = [&](Bytes peer, Bytes buffer) {
    in.sizes = {.buffer = buffer, .peer_chunk = peer};
    return size_collective(in, {Algorithm::point_to_point, Protocol::simple, 0}, Bytes(kGiB))
        .loops.front()
        .chunk;
  };
  CHECK(chunk({}, {}) == 128_KiB);
  CHECK(chunk(512_KiB, {}) == 512_KiB);
  CHECK(chunk(1_MiB, {}) == 512_KiB);
  CHECK(chunk(1_MiB, 8_MiB) == 1_MiB);
  in.version.minor = 18;
  CHECK(chunk(1_MiB, {}) == 1_MiB);
}

TEST_CASE("a ring's last loop moves in slices of its own, and its chunk goes to the next 16 bytes",
          "[sizing]") {
  // 16 channels, 8 GPUs: `chunk` is what is left for each block of each channel after four loops of 2 MiB.
  const TunerInput in = full_house(1);
  const auto last = [&](Protocol protocol, std::int64_t full, std::int64_t chunk) {
    const Bytes bytes(16 * 8 * (4 * full + chunk));
    const Sizing sizing = size_collective(in, {Algorithm::ring, protocol, 0}, bytes);
    REQUIRE(sizing.loops.size() == 2);
    CHECK(sizing.loops.front().count == 4);
    CHECK(sizing.loops.front().chunk == Bytes(full));
    return sizing.loops.back();
  };
  // Simple (src/device/prims_simple.h): halves, but none below 32 KiB, 1 MiB / 32: the second may be empty.
  const auto simple = [&](std::int64_t chunk) { return last(Protocol::simple, 2 * kMiB, chunk); };
  CHECK(simple(8) == Loops{1, Bytes(16), Bytes(16)});
  CHECK(simple(20 * kKiB) == Loops{1, Bytes(20 * kKiB), Bytes(20 * kKiB)});
  CHECK(simple(32 * kKiB) == Loops{1, Bytes(32 * kKiB), Bytes(32 * kKiB)});
  CHECK(simple(40 * kKiB) == Loops{1, Bytes(40 * kKiB), Bytes(32 * kKiB)});
  CHECK(simple(200 * kKiB) == Loops{1, Bytes(200 * kKiB), Bytes(100 * kKiB)});
  CHECK(simple(100'000 + 1) == Loops{1, Bytes(100'016), Bytes(50'008)});
  CHECK(slices_of(simple(20 * kKiB)) == 2);
  CHECK(slices_of(simple(40 * kKiB)) == 2);
  // LL: what 512 threads move at once.
  CHECK(last(Protocol::ll, 32 * kKiB, 10'000) == Loops{1, Bytes(10'000), Bytes(4 * kKiB)});
  CHECK(last(Protocol::ll, 32 * kKiB, 1'000) == Loops{1, Bytes(1'008), Bytes(0)});
  // LL128's lines of 1920 bytes don't matter here either.
  CHECK(last(Protocol::ll128, 300 * 1920, 1'000) == Loops{1, Bytes(1'008), Bytes(0)});
  // A single loop is the last one too.
  const Sizing one = size_collective(in, {Algorithm::ring, Protocol::simple, 0}, Bytes(16 * 8 * 40 * kKiB));
  CHECK(one.loops == std::vector<Loops>{{1, Bytes(40 * kKiB), Bytes(32 * kKiB)}});
}

TEST_CASE("trees in Simple took smaller chunks until 2.19", "[sizing]") {
  const auto chunk = [](int minor) {
    return size_collective(full_house(4, {minor}), {Algorithm::tree, Protocol::simple, 0}, Bytes(16 * kMiB))
        .loops.front()
        .chunk;
  };
  CHECK(chunk(19) ==
        Bytes(64 * kKiB));  // depth 7 + 2: 1 MiB a channel is below 72 and below 36 of anything larger
  CHECK(chunk(20) == Bytes(512 * kKiB));
}

TEST_CASE("NVLS chunks shrink across a slow network, and trees of NVLS from 4 nodes on", "[sizing]") {
  TunerInput in = full_house(2);
  const auto chunk = [&](Algorithm algorithm) {
    return size_collective(in, {algorithm, Protocol::simple, 0}, Bytes(16 * kGiB)).loops.front().chunk;
  };
  CHECK(chunk(Algorithm::nvls) == Bytes(128 * kKiB));
  CHECK(chunk(Algorithm::nvls_tree) == Bytes(128 * kKiB));
  in.graphs.nvls.bw_inter = 10;
  CHECK(chunk(Algorithm::nvls) == Bytes(32 * kKiB));
  in = full_house(4);
  CHECK(chunk(Algorithm::nvls_tree) == Bytes(64 * kKiB));
}

}  // namespace
}  // namespace paceline
