// What the hops and workers of a collective cost under a protocol. Parameters belong to hardware; the
// defaults are NCCL's own constants (src/graph/tuning.cc of the version at hand) and published link
// efficiencies. A profile replaces them by name.
//
//   ALGORITHM.PROTOCOL.startup        s   from the launch to the first step
//   ALGORITHM.PROTOCOL.LINK.latency   s   of a step over LINK: nvlink, pcie, network
//   LINK.efficiency                       payload over the links' bandwidth, in Simple
//   block.copy_rate                   B/s that a thread block moves, in its GPU or out of it
//   nvls.efficiency                       of NVLinks, while the switch reduces or multicasts
//   network.slice_overhead            s   least time that a slice occupies a network hop: the proxy's loop
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "sim/collective/plan.h"
#include "sim/collective/tuner.h"
#include "sim/training.h"

namespace paceline {

inline constexpr std::size_t kHopKinds = 3;
inline constexpr const char* kHopKindNames[kHopKinds] = {"nvlink", "pcie", "network"};
inline constexpr const char* kAlgorithmNames[kAlgorithms] = {
    "tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
    "nvls_tree", "pat",  "hierarchical",   "point_to_point"};
inline constexpr const char* kProtocolNames[kProtocols] = {"ll", "ll128", "simple"};

struct CollectiveCosts {
  struct OfProtocol {
    Seconds startup;
    std::array<Seconds, kHopKinds> latency;
  };
  std::array<std::array<OfProtocol, kProtocols>, kAlgorithms> of{};
  std::array<double, kHopKinds> efficiency{};
  BytesPerSecond copy_rate;
  double nvls_efficiency = 1;
  Seconds slice_overhead;
  bool nvlink_reads = false;  // NCCL reads over NVLink instead of writing
  ProtocolLimits limits;
};

CollectiveCosts default_costs(NcclVersion, int compute_capability, CpuVendor, int nodes);
// Throws InputError with the nearest known name.
void set_costs(std::span<const CostParameter>, CollectiveCosts&);
std::vector<std::string> cost_parameter_names();

// Fills startup, hops and copy_rate of a plan on a priced graph. `search_channels`: of the algorithm's graph.
void price_plan(CollectivePlan&, const CollectiveGraph&, const CollectiveCosts&, std::size_t search_channels,
                std::size_t all_channels);

}  // namespace paceline
