#include "sim/collective/networks.h"

#include <algorithm>

namespace paceline {
namespace {

using namespace units;

constexpr int kA100 = 80, kHopper = 90;

// stated_latency, sizes: aws-ofi-nccl, platform table of EC2 (src/platform-aws.cpp): NVLS's chunks since 2024, the
// others since 1.16 of May 2025, as 35 us for the newer EFA of p5en and p6 (of g7e since 1.18); not on p5.4xlarge.
// protocols: the same plugin (Simple where writes don't keep their order), and the settings that Google publishes for
// GPUDirect-TCPX and -TCPXO. eager: libfabric's provider for Slingshot sends longer messages by rendezvous
// (FI_CXI_RDZV_THRESHOLD). serial_messages: as the tables of each network ask for (docs/model.md, "Latency of a FIFO").
// Of tcp: slice_overhead is a guess, what a system call and a thread that wakes take at either end; efficiency the
// share of Ethernet's 1538 B that is data; thread_rate and adapter_rate as of the tables in docs/model.md.
constexpr NcclSizes kEfaSizes{
    .buffer = 8_MiB, .nvls_chunk = 512_KiB, .nvls_tree_chunk = 512_KiB, .peer_chunk = 512_KiB};

constexpr Network kNetworks[] = {
    {.kind = NetworkKind::infiniband},
    {.kind = NetworkKind::roce, .hop_latency = 1.0_us},
    {.kind = NetworkKind::efa,
     .hop_latency = 17.0_us,
     .stated_latency = 75,
     .slice_overhead = 2.5_us,
     .serial_messages = true,
     .sizes = kEfaSizes},
    {.kind = NetworkKind::efa_v3,
     .hop_latency = 10.0_us,
     .stated_latency = 35,
     .slice_overhead = 2.0_us,
     .serial_messages = true,
     .sizes = kEfaSizes},
    {.kind = NetworkKind::slingshot, .slice_overhead = 6.0_us, .eager = 16_KiB},
    {.kind = NetworkKind::tcpx,
     .hop_latency = 80.0_us,
     .slice_overhead = 8.0_us,
     .serial_messages = true,
     .protocols = "Simple"},
    {.kind = NetworkKind::tcpxo,
     .hop_latency = 30.0_us,
     .slice_overhead = 2.0_us,
     .serial_messages = true,
     .protocols = "Simple,LL128"},
    {.kind = NetworkKind::tcp,
     .hop_latency = 30.0_us,
     .slice_overhead = 10.0_us,
     .efficiency = 1448.0 / 1538.0,
     .thread_rate = 1.4e9,
     .adapter_rate = 12e9},
};

// hop_latency: as p5's before rows say otherwise. slice_overhead: two p4de with the small chunks of NCCL 2.17 and one
// p4d with the whole ones of 2.23 (docs/accuracy.md).
constexpr Network kEfaOfA100{.kind = NetworkKind::efa,
                             .hop_latency = 17.0_us,
                             .stated_latency = 75,
                             .slice_overhead = 5.0_us,
                             .serial_messages = true,
                             .sizes = {.buffer = 8_MiB, .peer_chunk = 512_KiB},
                             .protocols = "Simple"};
constexpr Network kOldEfa{.kind = NetworkKind::efa,
                          .hop_latency = 17.0_us,
                          .stated_latency = 150,
                          .serial_messages = true,
                          .protocols = "Simple"};

// Told by aws-ofi-nccl 1.2 to 1.6 of any EFA (src/nccl_ofi_net.c). 1.7, with a table, came a month after NCCL 2.18.3.
constexpr double kOfAnyEfa = 150;

}  // namespace

double stated_latency(const Network& of, NcclVersion version) {
  return of.stated_latency > 0 && version.minor < 18 ? kOfAnyEfa : of.stated_latency;
}

const Network& network(NetworkKind kind, int compute_capability) {
  if (kind == NetworkKind::efa && compute_capability < kHopper) {
    return compute_capability == kA100 ? kEfaOfA100 : kOldEfa;
  }
  return *std::ranges::find(kNetworks, kind, &Network::kind);
}

}  // namespace paceline
