// NCCL's tuning constants and the rules of what can run, by version, from src/graph/tuning.cc of the last
// patch of each minor version.
#pragma once

#include <array>
#include <cstdint>

#include "sim/collective/tuner.h"

namespace paceline {

using ByProtocol = std::array<double, kProtocols>;  // LL, LL128, Simple

struct LatencyRow {
  ByProtocol base, nvlink, pcie, network;  // us
};
// nullptr: the version lacks the algorithm. CollNet before 2.14, where it was one algorithm: collnet_direct.
const LatencyRow* latency_row(NcclVersion, Algorithm);

// GB/s. ll: all channels together; the others: one search channel. nvls_tree: 0 before 2.28.
enum class Cap : std::uint8_t { ll, ring_ll128, tree_ll128, tree, nvls_tree };
// Rows of the caps: Volta and older, Ampere, Hopper, Blackwell.
int gpu_row(NcclVersion, int compute_capability);
double cap(NcclVersion, Cap, int row, int nodes);
// The row of Cap::ll: of the GPU on one node, of the CPU on several.
int ll_row(NcclVersion, int compute_capability, CpuVendor, int nodes);

double nvls_efficiency(int row);  // since 2.28

// The graph that an algorithm is tuned by: PAT by the tree; NVLS in 2.17, which had no graph of its own, by
// the ring.
const ChannelGraph& tuner_graph(const TunerInput&, Algorithm);
// Whether the version has it for this collective and this hardware, and the overrides leave it on.
bool tuner_allows(const TunerInput&, Algorithm, Protocol);

// The factor on a tree's bandwidth for messages of 64 << step bytes, 0 <= step < 24.
double tree_correction(Protocol, int step);

}  // namespace paceline
