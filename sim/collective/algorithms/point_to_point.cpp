// all_to_all and send_recv: every rank a thread block that sends and one that receives. Blocks are numbered
// by round.
#include <numeric>

#include "sim/collective/algorithms/graph_builder.h"

namespace paceline {

namespace {

constexpr std::uint32_t kGroup = 8;  // NCCL_MAX_DEV_WORK_P2P_PER_BATCH

// Whom a rank sends to in round 0, 1, ...: NCCL's order (src/init.cc, ncclP2pSchedule). Ranks form groups;
// the distances between groups come in the order of the triangular numbers modulo a power of two, and within
// two groups all distances between places. Round 0 is the rank itself.
std::vector<std::uint32_t> peers_of(std::uint32_t rank, const RankLayout& layout) {
  const std::uint32_t gpus = layout.gpus_per_node;
  const std::uint32_t size = layout.nodes > 1 ? std::gcd(kGroup, gpus) : gpus;
  const std::uint32_t groups = layout.ranks() / size, group = rank / size, place = rank % size;
  std::uint32_t power = 1;
  while (power < groups) {
    power *= 2;
  }
  std::vector<std::uint32_t> peers;
  for (std::uint32_t round = 0, distance = 0; round < power; ++round) {
    distance = (distance + round) & (power - 1);
    for (std::uint32_t d = 0; d < size && distance < groups; ++d) {
      peers.push_back((group + distance) % groups * size + (place + d) % size);
    }
  }
  return peers;
}

}  // namespace

CollectiveGraph point_to_point_graph(const GraphRequest& request) {
  const RankLayout& layout = request.layout;
  const std::uint32_t n = layout.ranks(), gpus = layout.gpus_per_node;
  const bool all = request.kind == CollectiveKind::all_to_all;
  const std::uint32_t peers = all ? n - 1 : 1, first_block = all ? 1 : 0;
  std::vector<Step> send, receive;
  if (all) {
    receive.push_back({.own = true, .keep = true});
  }
  for (std::uint32_t i = 0; i < peers; ++i) {
    send.push_back({.send = ports(i, 1), .own = true, .block = first_block + i});
    receive.push_back({.receive = ports(i, 1), .keep = true, .block = first_block + i});
  }
  GraphBuilder builder(request.channels, n);
  const std::size_t ranks = std::size_t{request.channels} * n;
  builder.reserve(2 * ranks, ranks * peers);
  const std::uint32_t sends = builder.add_script(n, send), receives = builder.add_script(n, receive);
  for (std::uint32_t c = 0; c < request.channels; ++c) {
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      builder.add_thread_block(rank, c, sends, 0, peers);
      builder.add_thread_block(rank, c, receives, peers, 0);
    }
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      const std::vector<std::uint32_t> order =
          all ? peers_of(rank, layout) : std::vector{rank, (rank + 1) % n};
      for (std::uint32_t i = 0; i < peers; ++i) {
        const std::uint32_t to = order[i + 1];
        Nics nics;
        if (to / gpus != rank / gpus) {
          nics = {own_nic(request.found.on(rank / gpus), static_cast<int>(rank % gpus), c),
                  own_nic(request.found.on(to / gpus), static_cast<int>(to % gpus), c)};
        }
        builder.connect({2 * (c * n + rank), i}, {2 * (c * n + to) + 1, i}, Wire::gpu_to_gpu, nics);
      }
    }
  }
  return builder.finish();
}

}  // namespace paceline
