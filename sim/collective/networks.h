// What NCCL's plugin for a network tells and allows, and what the network costs beyond InfiniBand.
#pragma once

#include <string>

#include "core/units.h"
#include "sim/collective/nccl_words.h"
#include "sim/collective/spec.h"
#include "topology/cluster_spec.h"

namespace paceline {

struct Network {
  NetworkKind kind = NetworkKind::infiniband;
  Seconds hop_latency{};         // beyond InfiniBand's
  double stated_latency = 0;     // us: what the tuner is told of the device
  Seconds slice_overhead{};      // as the cost network.slice_overhead; 0: as everywhere
  Bytes eager{};                 // messages of so many bytes at most have none of it
  bool serial_messages = false;  // it comes beside a message's bytes; else it is the least that they take
  double efficiency = 0;         // as the cost network.efficiency; 0: as everywhere
  // B/s, as the costs network.thread_rate and network.adapter_rate; 0: no sockets.
  double thread_rate = 0, adapter_rate = 0;
  NcclSizes sizes{};           // as the plugin sets NCCL's environment
  const char* protocols = "";  // NCCL_PROTO, as the plugin or its provider's settings have it; "": NCCL's
};

// us, as the plugin of that version's time tells it.
double stated_latency(const Network&, NcclVersion);

// compute_capability: EFA keeps the order that LL128 needs from p5's generation on; its plugin sets sizes by instance.
const Network& network(NetworkKind, int compute_capability);

}  // namespace paceline
