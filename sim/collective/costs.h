// What the hops and thread blocks of a collective cost under a protocol. Parameters belong to hardware; the
// defaults are NCCL's own constants (src/graph/tuning.cc of the version at hand) and published link
// efficiencies. A profile replaces them by name.
//
//   ALGORITHM.PROTOCOL.startup        s   from the launch to the first step
//   ALGORITHM.PROTOCOL.LINK.latency   s   of a step over LINK: nvlink, pcie, network
//   ALGORITHM.PROTOCOL.efficiency         of what NCCL holds a channel to carry (perChMax*, llMaxBw): tree,
//                                         LL, LL128
//   LINK.efficiency                       payload over the links' bandwidth, in Simple
//   block.copy_rate                   B/s that a thread block moves, in its GPU or out of it
//   nvls.efficiency                       of NVLinks, while the switch reduces or multicasts
//   launch.latency                    s   from the call to the startup, whatever the algorithm
//   launch.period                     s   from one launch to the next: what small collectives in a row take
//   network.slice_overhead            s   least time that a slice occupies a network hop: the proxy's loop
//
// OpenMPI's ring has these and LINK.efficiency:
//   mpi.startup                       s   from the call to the first message
//   mpi.LINK.latency                  s   of a message, beyond the links' own
//   mpi.rendezvous                    s   that a network hop is occupied longer by a block above 65,472 B
// (the
//                                         TCP transport's eager limit), while sender and receiver agree
//   mpi.reduce_rate                   B/s of a block that was received, into the rank's own
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "sim/collective/plan.h"
#include "sim/collective/spec.h"
#include "sim/collective/tuner.h"

namespace paceline {

inline constexpr std::size_t kHopKinds = kNames<HopKind>.size() - 1;  // that cost something: all but inside

struct CollectiveCosts {
  struct OfProtocol {
    Seconds startup;
    std::array<Seconds, kHopKinds> latency;
    double efficiency = 1;
  };
  std::array<std::array<OfProtocol, kProtocols>, kAlgorithms> of{};
  std::array<double, kHopKinds> efficiency{};
  BytesPerSecond copy_rate;
  double nvls_efficiency = 1;
  Seconds slice_overhead, launch_latency, launch_period;
  bool nvlink_reads = false;  // NCCL reads over NVLink instead of writing
  ProtocolLimits limits;
  struct OfMpi {
    Seconds startup;
    std::array<Seconds, kHopKinds> latency;
    Seconds rendezvous;
    BytesPerSecond reduce_rate;
  } mpi;
};

CollectiveCosts default_costs(NcclVersion, int compute_capability, CpuVendor, int nodes);
// TCP over Ethernet, with round figures that a measurement should replace (tests/cluster does so).
CollectiveCosts default_mpi_costs();
// Throws InputError with the nearest known name.
void set_costs(std::span<const CostParameter>, CollectiveCosts&);
double cost_value(const std::string& name, CollectiveCosts);  // throws likewise
std::vector<std::string> cost_parameter_names();

// Fills startup, hops, copy_rate and copy_shown of a plan with loops and slots on a priced graph.
// `search_channels`: of the algorithm's graph.
void price_plan(CollectivePlan&, const CollectiveGraph&, const CollectiveCosts&, std::size_t search_channels,
                std::size_t all_channels);

}  // namespace paceline
