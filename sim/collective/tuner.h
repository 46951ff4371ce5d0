// NCCL's choice of algorithm and protocol (src/graph/tuning.cc), by version. It selects; what the collective
// then costs is simulated.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/collective/plan.h"
#include "sim/collective/spec.h"
#include "topology/channel_graph.h"
#include "topology/cluster_spec.h"

namespace paceline {

// 2.12 to 2.30, by minor version. A patch that differs within a minor version: the last one's.
struct NcclVersion {
  int minor = 30;
  friend auto operator<=>(const NcclVersion&, const NcclVersion&) = default;
};
inline constexpr int kOldestNccl = 12, kNewestNccl = 30;
NcclVersion nccl_version(const std::string& text);   // "2.22", "2.22.3"; throws InputError with what is known
std::string to_string(NcclVersion);                  // "2.22"
std::string nearest_nccl(std::string_view version);  // of a log's, that which is known

// What NCCL_ALGO and NCCL_PROTO allow.
struct TunerOverrides {
  std::array<bool, kNcclAlgorithms> algorithm{true, true, true, true, true, true, true};
  std::array<bool, kProtocols> protocol{true, true, true};
  bool protocol_forced = false;  // NCCL_PROTO is set: LL128 is allowed where it would be off by default
};
// "ring", "ring,tree", "^nvls", "tree;allgather:ring": NCCL's syntax (2.24 and later). Throws InputError.
TunerOverrides tuner_overrides(const std::string& algo, const std::string& proto, CollectiveKind);

// A word beside NCCL's, for what Horovod puts together: within the node, then between nodes.
inline constexpr const char* kHierarchical = "hierarchical";

// Where a user says these: JSON pointers, or options.
struct ChoicePlaces {
  std::string nccl, algorithm, protocol;
};
// Throws InputError where one is no word of NCCL's, or is said of a library that has but one way.
void require_choice(const CollectiveSpec&, const ChoicePlaces&);

struct TunerInput {
  NcclVersion version;
  CollectiveKind kind = CollectiveKind::all_reduce;
  int nodes = 1, ranks = 1;
  int compute_capability = 80;  // the least
  CpuVendor cpu = CpuVendor::intel;
  bool unlike_gpus = false, unlike_cpus = false;  // compute capabilities, vendors
  ChannelGraphs graphs;                           // nvls.bw_inter may be 0 on one node: no limit
  bool nvls = false, sharp = false;  // the hardware is there and enabled; nvswitch, for CollNetDirect
  bool nvswitch = false;
  TunerOverrides allowed;
  NcclSizes sizes;  // sizing alone asks for them
};

// One row of NCCL's table, as NCCL_DEBUG_SUBSYS=TUNING prints it. All 0 where it is not possible or switched
// off.
struct TunerRow {
  bool enabled = false;
  double latency = 0;    // us
  double bandwidth = 0;  // GB/s, of the algorithm (not the bus)
};
using TunerTable = std::array<std::array<TunerRow, kProtocols>, kNcclAlgorithms>;
TunerTable tuner_table(const TunerInput&);

struct TunerChoice {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  double time = 0;  // us, as NCCL's log prints it
};
// Bytes as NCCL counts them: total over ranks for all_gather and reduce_scatter. nullopt where the overrides
// leave nothing (NCCL then fails; until 2.23 it takes a ring).
double tuner_time(const TunerInput&, const TunerTable&, Algorithm, Protocol,
                  Bytes);  // us; <= 0: not possible
std::optional<TunerChoice> tune(const TunerInput&, const TunerTable&, Bytes);

// all_to_all and send_recv, which NCCL does not tune (tune() answers with time 0): LL where each channel's
// part for a peer is small and no network is crossed.
Protocol point_to_point_protocol(const TunerInput&, Bytes);

// How many of `channels` a collective of `bytes` runs on, and its chunk (src/enqueue.cc). `bytes` of the
// loops are those of one channel, ceil(bytes / channels), to the next 16 bytes of a block. Nothing to move: one
// loop with a chunk of 0.
struct Sizing {
  int channels = 1;
  std::vector<Loops> loops;
  std::uint32_t slots = 8;
};
Sizing size_collective(const TunerInput&, const TunerChoice&, Bytes);

}  // namespace paceline
