#include "sim/collective/networks.h"

#include <algorithm>

namespace paceline {
namespace {

using namespace units;

constexpr int kHopper = 90;

// stated_latency: aws-ofi-nccl, platform table of EC2. protocols: the same plugin (Simple where writes don't keep
// their order), and the settings that Google publishes for GPUDirect-TCPX and -TCPXO.
constexpr Network kNetworks[] = {
    {.kind = NetworkKind::infiniband},
    {.kind = NetworkKind::roce, .hop_latency = 1.0_us},
    {.kind = NetworkKind::efa, .hop_latency = 17.0_us, .stated_latency = 75},
    {.kind = NetworkKind::tcpx, .hop_latency = 100.0_us, .protocols = "Simple"},
    {.kind = NetworkKind::tcpxo, .hop_latency = 30.0_us, .protocols = "Simple,LL128"},
    {.kind = NetworkKind::tcp, .hop_latency = 30.0_us, .socket_rate = 1e9},
};

constexpr Network kOldEfa{
    .kind = NetworkKind::efa, .hop_latency = 17.0_us, .stated_latency = 75, .protocols = "Simple"};

}  // namespace

const Network& network(NetworkKind kind, int compute_capability) {
  return kind == NetworkKind::efa && compute_capability < kHopper
             ? kOldEfa
             : *std::ranges::find(kNetworks, kind, &Network::kind);
}

}  // namespace paceline
