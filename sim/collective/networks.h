// What NCCL's plugin for a network tells and allows, and what the network costs beyond InfiniBand.
#pragma once

#include <string>

#include "core/units.h"
#include "topology/cluster_spec.h"

namespace paceline {

struct Network {
  NetworkKind kind = NetworkKind::infiniband;
  Seconds hop_latency{};       // beyond InfiniBand's
  double stated_latency = 0;   // us: what the tuner is told of the device
  const char* protocols = "";  // NCCL_PROTO, as the plugin or its provider's settings have it; "": NCCL's
};

// compute_capability: EFA keeps the order that LL128 needs from p5's generation on.
const Network& network(NetworkKind, int compute_capability);

}  // namespace paceline
