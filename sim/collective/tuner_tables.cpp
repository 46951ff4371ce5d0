#include "sim/collective/tuner_tables.h"

#include <set>

namespace paceline {
namespace {

// A row holds from NCCL 2.`since` until the algorithm's next. CollNet, NVLS and PAT only run Simple.
struct DatedLatency {
  int since;
  Algorithm algorithm;
  LatencyRow row;
};

constexpr ByProtocol simple(double value) { return {0, 0, value}; }

constexpr DatedLatency kLatencies[] = {
    {12, Algorithm::tree, {{4.4, 4.4, 0}, {0.52, 1.25, 28}, {1, 1.9, 28}, {5, 8.5, 28}}},
    {18, Algorithm::tree, {{6.8, 14, 0}, {0.6, 1.25, 4}, {1, 1.9, 6}, {5, 8.5, 14}}},
    {19, Algorithm::tree, {{6.8, 14, 0}, {0.6, 1.25, 28}, {1, 1.9, 28}, {5, 8.5, 28}}},
    {23, Algorithm::tree, {{6.8, 14, 8.4}, {0.6, 1.25, 4}, {1, 1.9, 4}, {5, 8.5, 14}}},

    {12, Algorithm::ring, {{3.6, 10, 8.4}, {0.47, 1.9, 3.4}, {1, 2.5, 5.7}, {2.7, 4, 28}}},
    {14, Algorithm::ring, {{3.6, 10, 8.4}, {0.47, 1.9, 3.4}, {1, 2.5, 5.7}, {2.7, 4, 9.6}}},
    {18, Algorithm::ring, {{6.6, 14, 8.4}, {0.6, 1.9, 3.4}, {1, 2.5, 5.7}, {2.7, 4, 14}}},

    {12, Algorithm::collnet_direct, {simple(0), simple(8), simple(8), simple(10.7)}},
    {19, Algorithm::collnet_direct, {simple(0), simple(3.7), simple(3.7), simple(31)}},

    {14, Algorithm::collnet_chain, {simple(0), simple(8), simple(8), simple(10.7)}},
    {18, Algorithm::collnet_chain, {simple(0), simple(4.75), simple(8), simple(14)}},
    {19, Algorithm::collnet_chain, {simple(0), simple(2.8), simple(2.8), simple(30)}},

    {17, Algorithm::nvls, {simple(40), simple(0), simple(0), simple(0)}},
    {18, Algorithm::nvls, {simple(23), simple(0), simple(0), simple(18)}},
    {19, Algorithm::nvls, {simple(0), simple(23), simple(0), simple(18)}},
    {21, Algorithm::nvls, {simple(0), simple(25), simple(0), simple(18)}},

    {18, Algorithm::nvls_tree, {simple(23), simple(0), simple(0), simple(19)}},
    {19, Algorithm::nvls_tree, {simple(0), simple(23), simple(0), simple(14)}},
    {21, Algorithm::nvls_tree, {simple(0), simple(25), simple(0), simple(14)}},
    {28, Algorithm::nvls_tree, {simple(0), simple(25), simple(0), simple(20.9)}},

    // In the formula until 2.27, in the tables since.
    {23, Algorithm::pat, {simple(8), simple(4), simple(4), simple(14)}},
};

struct DatedCap {
  int since;
  Cap cap;
  int row;
  std::array<double, 3> by_nodes;  // 1, 2, more
};

// LL128 until 2.17 was one number per channel, on Hopper 36.7 in 2.17 for trees on any number of nodes.
constexpr DatedCap kCaps[] = {
    {12, Cap::ll, 0, {39, 39, 20.4}},
    {12, Cap::ll, 1, {87.7, 22.5, 19}},
    {15, Cap::ll, 2, {87.7, 22.5, 19}},
    {21, Cap::ll, 2, {141, 45, 35}},
    {25, Cap::ll, 3, {282, 90, 70}},

    {12, Cap::ring_ll128, 0, {20, 20, 20}},
    {12, Cap::ring_ll128, 1, {20, 20, 20}},
    {12, Cap::ring_ll128, 2, {20, 20, 20}},
    {17, Cap::ring_ll128, 2, {36.7, 36.7, 36.7}},
    {25, Cap::ring_ll128, 3, {73.4, 73.4, 73.4}},
    {28, Cap::ring_ll128, 3, {73.4, 34.6, 73.4}},
    {29, Cap::ring_ll128, 3, {40, 40, 40}},

    {12, Cap::tree_ll128, 0, {20, 20, 20}},
    {12, Cap::tree_ll128, 1, {20, 20, 20}},
    {12, Cap::tree_ll128, 2, {20, 20, 20}},
    {17, Cap::tree_ll128, 2, {36.7, 36.7, 36.7}},
    {18, Cap::tree_ll128, 2, {36.7, 36.7, 29}},
    {25, Cap::tree_ll128, 3, {73.4, 73.4, 58}},
    {28, Cap::tree_ll128, 3, {55.6, 31.67, 20}},

    {12, Cap::tree, 0, {26.5, 18.5, 10}},
    {12, Cap::tree, 1, {24, 23.6, 17.8}},
    {15, Cap::tree, 2, {24, 23.6, 17.8}},
    {17, Cap::tree, 2, {38.7, 41.4, 33}},
    {18, Cap::tree, 2, {38.7, 41.4, 36}},
    {25, Cap::tree, 3, {77.4, 82.8, 72}},
    {28, Cap::tree, 3, {70, 42.8, 24}},

    {28, Cap::nvls_tree, 0, {26.5, 18.5, 10}},
    {28, Cap::nvls_tree, 1, {24, 23.6, 17.8}},
    {28, Cap::nvls_tree, 2, {0, 57.7, 45.5}},
    {28, Cap::nvls_tree, 3, {0, 96, 43.8}},
    {30, Cap::nvls_tree, 3, {0, 96, 80}},
};

// The same since 2.12, but that it ended one step earlier before 2.29.
constexpr double kTreeCorrection[kProtocols][24] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
};

// ------------------------------------------------------------------------------ what can run

int heads(const ChannelGraph& graph) {
  std::set<int> first;
  for (const NodeChannel& channel : graph.channels) {
    first.insert(channel.gpus.empty() ? -1 : channel.gpus.front());
  }
  return static_cast<int>(first.size());
}

// A gather through the network's switches wants a NIC for each GPU.
bool enough_heads(const TunerInput& in) {
  const bool of_nvls = in.version.minor >= 28 && in.nvls;
  return heads(of_nvls ? in.graphs.nvls : in.graphs.collnet_direct) >= in.ranks / in.nodes;
}

bool serves(const TunerInput& in, Algorithm algorithm) {
  if (in.kind == CollectiveKind::all_reduce) {
    return algorithm != Algorithm::pat;
  }
  if (!gathers_or_scatters(in.kind)) {
    return algorithm == Algorithm::ring && has_root(in.kind);
  }
  switch (algorithm) {
    case Algorithm::ring:
    case Algorithm::pat:
      return true;
    case Algorithm::nvls:
      return in.version.minor != 18;
    case Algorithm::collnet_direct:
      return in.version.minor >= 20;
    default:
      return false;
  }
}

constexpr int kFewGpus = 8;  // per node

// CollNet at all. Until 2.22 a node with more GPUs switched it off.
bool sharp_on(const TunerInput& in) {
  return in.sharp && in.nodes > 1 && (in.version.minor >= 23 || in.ranks / in.nodes <= kFewGpus);
}

bool nvls_possible(const TunerInput& in, Algorithm algorithm) {
  constexpr int kMostGathered = 32;
  const int v = in.version.minor, local = in.ranks / in.nodes;
  const int fewest = v == 17 || v >= 28 ? 2 : 3;  // GPUs, src/transport/nvls.cc
  if (!in.nvls || local < fewest || in.graphs.nvls.channels.size() < (v >= 28 ? 2U : 1U)) {
    return false;
  }
  if (algorithm == Algorithm::nvls_tree) {
    return in.nodes > 1;
  }
  if (in.nodes > 1 &&
      (!sharp_on(in) || v < 18 || (gathers_or_scatters(in.kind) && (v < 27 || !enough_heads(in))))) {
    return false;
  }
  return !gathers_or_scatters(in.kind) || local <= kMostGathered;
}

bool collnet_possible(const TunerInput& in, Algorithm algorithm) {
  const int v = in.version.minor;
  const bool few = in.ranks / in.nodes <= kFewGpus;
  if (!sharp_on(in)) {
    return false;
  }
  if (algorithm == Algorithm::collnet_chain) {
    return few || v <= 27;
  }
  return few && (in.nvswitch || v < 14) && (!gathers_or_scatters(in.kind) || enough_heads(in));
}

bool possible(const TunerInput& in, Algorithm algorithm, Protocol protocol) {
  if (latency_row(in.version, algorithm) == nullptr || !serves(in, algorithm) ||
      tuner_graph(in, algorithm).channels.empty()) {
    return false;
  }
  if (algorithm == Algorithm::tree || algorithm == Algorithm::ring) {
    return true;
  }
  if (protocol != Protocol::simple) {
    return false;
  }
  if (algorithm == Algorithm::pat) {
    return in.ranks == in.nodes && (in.compute_capability >= 60 || in.version.minor < 26);
  }
  return algorithm == Algorithm::nvls || algorithm == Algorithm::nvls_tree ? nvls_possible(in, algorithm)
                                                                           : collnet_possible(in, algorithm);
}

// Whether LL128 is on when NCCL_PROTO does not say.
bool ll128_default(const TunerInput& in, const ChannelGraph& graph) {
  const int v = in.version.minor, cc = in.compute_capability;
  const bool known =
      v >= 27 ? cc >= 70
              : cc == 70 || cc == 80 || (cc == 90 && v >= 15) || ((cc == 100 || cc == 120) && v >= 25);
  const PathType inter = cc >= 90 && v >= 17 ? PathType::pxn : PathType::pxb;
  const PathType intra = v >= 18 ? PathType::nvb : PathType::nvl;
  const bool alike = !in.unlike_gpus || (v >= 30 && cc >= 90);
  return known && alike && graph.type_inter <= inter && graph.type_intra <= intra;
}

// Until 2.18 NCCL_ALGO took the ring from all_reduce only.
bool chosen(const TunerInput& in, Algorithm algorithm, Protocol protocol) {
  const bool ring_stays =
      in.version.minor <= 18 && in.kind != CollectiveKind::all_reduce && algorithm == Algorithm::ring;
  if (!in.allowed.algorithm[static_cast<std::size_t>(algorithm)] && !ring_stays) {
    return false;
  }
  if (protocol == Protocol::ll128 && !in.allowed.protocol_forced) {
    return ll128_default(in, tuner_graph(in, algorithm));
  }
  return in.allowed.protocol[static_cast<std::size_t>(protocol)];
}

}  // namespace

const LatencyRow* latency_row(NcclVersion version, Algorithm algorithm) {
  const LatencyRow* row = nullptr;
  for (const DatedLatency& dated : kLatencies) {
    if (dated.algorithm == algorithm && dated.since <= version.minor) {
      row = &dated.row;
    }
  }
  return row;
}

// Until 2.16 a GPU that was no A100 (2.15: nor H100) counted as a V100.
int gpu_row(NcclVersion version, int compute_capability) {
  if (version.minor <= 16) {
    return compute_capability == 80 ? 1 : version.minor >= 15 && compute_capability == 90 ? 2 : 0;
  }
  if (compute_capability >= 100 && version.minor >= 25) {
    return 3;
  }
  return compute_capability >= 90 ? 2 : compute_capability >= 80 ? 1 : 0;
}

int ll_row(NcclVersion version, int compute_capability, CpuVendor cpu, int nodes) {
  return nodes == 1 ? gpu_row(version, compute_capability) : cpu == CpuVendor::amd ? 1 : 0;
}

double cap(NcclVersion version, Cap which, int row, int nodes) {
  const std::size_t column = nodes <= 1 ? 0 : nodes == 2 ? 1 : 2;
  double value = 0;
  for (const DatedCap& dated : kCaps) {
    if (dated.cap == which && dated.row == row && dated.since <= version.minor) {
      value = dated.by_nodes[column];
    }
  }
  return value;
}

double nvls_efficiency(int row) {
  constexpr double kOfRow[] = {0, 0, 0.85, 0.74};
  return kOfRow[row];
}

const ChannelGraph& tuner_graph(const TunerInput& in, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::tree:
    case Algorithm::pat:
      return in.graphs.tree;
    case Algorithm::collnet_direct:
      return in.graphs.collnet_direct;
    case Algorithm::collnet_chain:
      return in.graphs.collnet_chain;
    case Algorithm::nvls:
      return in.version.minor <= 17 ? in.graphs.ring : in.graphs.nvls;
    case Algorithm::nvls_tree:
      return in.graphs.nvls;
    default:
      return in.graphs.ring;
  }
}

bool tuner_allows(const TunerInput& in, Algorithm algorithm, Protocol protocol) {
  return possible(in, algorithm, protocol) && chosen(in, algorithm, protocol);
}

double tree_correction(Protocol protocol, int step) {
  return kTreeCorrection[static_cast<std::size_t>(protocol)][step];
}

}  // namespace paceline
