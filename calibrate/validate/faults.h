// What may be wrong with a machine or a job, one thing at a time: each a change of where collectives were
// measured.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/fit/place_model.h"

namespace paceline {

// What is wrong in one way or another: of a family one member at most.
enum class FaultFamily : std::uint8_t {
  nic,
  nvlink,
  pcie,
  nvls,
  pxn,
  gpu_direct,
  ll128,
  algorithm,
  protocol,
  channels,
  socket_threads,
  machine
};

inline bool is_of_nccl(FaultFamily family) {
  return family >= FaultFamily::nvls && family <= FaultFamily::socket_threads;
}

struct Fault {
  FaultFamily family = FaultFamily::nic;
  std::string name;  // "one NIC at half its rate"
  std::string look;  // where to look
  // Makes it so; false: it can't be so here. May throw InputError where it can't be simulated.
  std::function<bool(MeasuredPlace&)> change;
};

// Those that this cluster may have, each family's together. Other machines have the GPU that the log names (`gpu`, as
// gpu_called does; empty: any). A link that is degraded is one of its kind: of
// each of few nodes, of the first two of many.
std::vector<Fault> faults_of(const ClusterSpec&, std::string_view gpu);

}  // namespace paceline
