// NCCL's choice of algorithm and protocol (src/graph/tuning.cc), by version. It selects; what the collective
// then costs is simulated.
#pragma once

#include <array>
#include <optional>

#include "sim/collective/nccl_words.h"
#include "sim/collective/plan.h"
#include "sim/collective/spec.h"
#include "topology/channel_graph.h"
#include "topology/cluster_spec.h"

namespace paceline {

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

}  // namespace paceline
