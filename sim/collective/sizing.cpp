// Facts from NCCL's src/enqueue.cc and src/include/collectives.h at v2.30.7-1, for all versions but where a comment
// says so.
#include "sim/collective/sizing.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/collective/algorithms.h"
#include "sim/collective/log2_down.h"

namespace paceline {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kBuffer = 4096 * kKiB;  // of Simple
constexpr int kSteps = 8;                      // of a buffer
constexpr std::int64_t kLlStep = 32 * kKiB;    // data of 64 KiB of lines
constexpr std::int64_t kLl128Step = 576'000;   // data of 614400 B of lines
constexpr int kThreads = 512, kLl128Threads = 640, kMostThreads = 640;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t align_up(std::int64_t a, std::int64_t grain) { return ceil_div(a, grain) * grain; }
int power_of_two_up(int n) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))); }

std::int64_t or_else(Bytes asked, std::int64_t own) { return asked.value > 0 ? asked.value : own; }
// Simple's.
std::int64_t step_of(const TunerInput& in) { return or_else(in.sizes.buffer, kBuffer) / kSteps; }

int gpus_per_node(const TunerInput& in) { return std::max(1, in.ranks / std::max(1, in.nodes)); }

// A ring that all ranks feed, in Simple: the only one with several steps per chunk.
bool in_big_steps(const TunerInput& in, const TunerChoice& choice) {
  const bool ring = choice.algorithm == Algorithm::ring || choice.algorithm == Algorithm::hierarchical;
  return ring && choice.protocol == Protocol::simple && goes_round(in.kind);
}

// ------------------------------------------------------------------------------ point to point

struct PeerChannels {
  int all, most, least;  // of the communicator; for one peer, large and small
};

double nic_rate(const ChannelGraph& ring) {
  double rate = 0;
  for (const NodeChannel& channel : ring.channels) {
    rate += channel.nic_out == ring.channels.front().nic_out ? ring.bw_inter : 0;
  }
  return rate;
}

// Of a peer across the network. Since 2.29 it follows from the NIC, here as wide as the rings make it; before, two of
// one NIC, and from 2.20 on fewer where a channel would serve too many peers.
int network_channels(const TunerInput& in, int all) {
  constexpr int kAtOnce = 8;  // peers per channel
  const int v = in.version.minor;
  int channels =
      v >= 29 ? power_of_two_up(std::max(
                    1, static_cast<int>(std::ceil(nic_rate(in.graphs.ring) * 1e9 / kPeerNetworkRate.value))))
              : 2;
  const auto too_many = [&] {
    return v >= 29 ? channels * ceil_div(in.ranks, kAtOnce) > all : v >= 20 && channels * in.ranks > 4 * all;
  };
  while (channels > 1 && too_many()) {
    channels /= 2;
  }
  return channels;
}

// src/graph/paths.cc.
PeerChannels peer_channels(const TunerInput& in) {
  const ChannelGraph& ring = in.graphs.ring;
  PeerChannels made{power_of_two_up(std::max(1, in.graphs.channels)), 2, 1};
  if (in.nodes > 1) {
    made.most = network_channels(in, made.all);
  } else if (ring.type_intra <= PathType::nvb) {
    made.most = made.all;
  }
  made.most = std::min(made.most, made.all);
  made.least = made.most;
  while (made.least * in.ranks > made.all && made.least > 1) {
    made.least /= 2;
  }
  return made;
}

// Of one message; src/init.cc.
std::int64_t peer_step(const TunerInput& in) {
  const int v = in.version.minor;
  const bool twice = v >= 29 && in.cpu == CpuVendor::arm && in.compute_capability >= 100;
  const std::int64_t step = in.nodes > 1 ? (twice ? 2 : 1) * or_else(in.sizes.peer_chunk, 128 * kKiB)
                            : in.graphs.ring.type_intra <= PathType::nvb ? 512 * kKiB
                                                                         : 128 * kKiB;
  return v >= 19 ? std::min(step, step_of(in)) : step;
}

std::int64_t peer_bytes(const TunerInput& in, std::int64_t bytes) {
  return in.kind == CollectiveKind::all_to_all ? ceil_div(bytes, std::max(1, in.ranks)) : bytes;
}

// For one peer.
int message_channels(const TunerInput& in, std::int64_t bytes) {
  const PeerChannels limits = peer_channels(in);
  const std::int64_t step = peer_step(in);
  const std::int64_t least = in.nodes > 1 ? step / 2 : step / 8;
  const std::int64_t most = in.nodes > 1 ? step : step * 32;
  std::int64_t channels = std::clamp<std::int64_t>(ceil_div(bytes, least), 1, limits.least);
  while (std::max(least, ceil_div(bytes, channels)) > most && channels <= limits.most / 2) {
    channels *= 2;
  }
  return static_cast<int>(channels);
}

// An all-to-all's messages go through channels of their own as far as there are enough.
int peer_to_peer_channels(const TunerInput& in, std::int64_t bytes) {
  const int each = message_channels(in, peer_bytes(in, bytes));
  const int messages = in.kind == CollectiveKind::all_to_all ? std::max(1, in.ranks - 1) : 1;
  return std::min(each * messages, std::max(1, in.graphs.channels));
}

std::int64_t peer_chunk(const TunerInput& in, Protocol protocol, std::int64_t bytes) {
  const std::int64_t message = peer_bytes(in, bytes);
  if (protocol == Protocol::ll) {
    return kLlStep;
  }
  const std::int64_t step = peer_step(in);
  return in.nodes == 1 || message >= 8 * step ? step : message < step ? step / 4 : step / 2;
}

// ------------------------------------------------------------------------------ channels

std::int64_t threads_of(const TunerInput& in, const TunerChoice& choice) {
  constexpr double kPciRate = 12;  // GB/s
  const ChannelGraph& ring = in.graphs.ring;
  if (choice.algorithm == Algorithm::collnet_chain || choice.algorithm == Algorithm::collnet_direct) {
    return kMostThreads;
  }
  if (choice.protocol == Protocol::ll128) {
    return kLl128Threads;
  }
  const bool slow = choice.algorithm != Algorithm::tree && choice.protocol == Protocol::simple &&
                    ring.bw_intra * static_cast<double>(ring.channels.size()) <= kPciRate;
  return slow ? kThreads / 2 : kThreads;
}

// Bytes per thread below which fewer channels do.
std::int64_t thread_threshold(const TunerInput& in, const TunerChoice& choice) {
  if (choice.algorithm == Algorithm::collnet_chain || choice.algorithm == Algorithm::collnet_direct) {
    return 512;
  }
  if (choice.protocol == Protocol::simple) {
    return 64;
  }
  return choice.protocol == Protocol::ll && choice.algorithm != Algorithm::tree ? 8 * std::max(1, in.ranks)
                                                                                : 8;
}

// Down to 16, 8, ... channels while each has too little, which from a quarter above on is half as much.
int collnet_direct_channels(std::int64_t bytes, int channels, std::int64_t per_channel) {
  bool few = true;
  for (int stop = 16; stop >= 1 && few; stop /= 2) {
    for (few = bytes < channels * per_channel; few && channels > stop; few = bytes < channels * per_channel) {
      per_channel = channels == stop + stop / 2 ? per_channel / 2 : per_channel;
      --channels;
    }
  }
  return channels;
}

int most_channels(const TunerInput& in, const TunerChoice& choice, std::int64_t bytes) {
  const int all = std::max(1, in.graphs.channels), of_nvls = std::max(1, in.graphs.nvls_channels);
  const std::int64_t per_channel = threads_of(in, choice) * thread_threshold(in, choice);
  switch (choice.algorithm) {
    case Algorithm::nvls:
      return in.nodes > 1 && in.version.minor >= 28 ? std::min(all, of_nvls) : of_nvls;
    case Algorithm::nvls_tree:
      return of_nvls;
    case Algorithm::pat:
      return all;
    case Algorithm::collnet_direct:
      return collnet_direct_channels(bytes, all, per_channel * gpus_per_node(in));
    default:
      return static_cast<int>(std::clamp<std::int64_t>(bytes / per_channel, 1, all));
  }
}

// That a channel is worth.
std::int64_t least_traffic(NcclVersion version) {
  return version.minor >= 29 ? 32 * kKiB : version.minor >= 23 ? 16 * kKiB : 512;
}

// The least traffic that a channel is worth, and whole cells of it for each.
int share_cells(const TunerInput& in, const TunerChoice& choice, std::int64_t bytes, int channels) {
  const int ranks = std::max(1, in.ranks);
  const std::int64_t mine = gathers_or_scatters(in.kind) ? ceil_div(bytes, ranks) : bytes;
  const std::int64_t traffic_per_byte =
      std::int64_t{choice.protocol == Protocol::ll ? 4 : 1} * (gathers_or_scatters(in.kind)            ? ranks
                                                               : in.kind == CollectiveKind::all_reduce ? 2
                                                                                                       : 1);
  const std::int64_t least = least_traffic(in.version);
  const std::int64_t traffic = std::max(least, mine * traffic_per_byte);
  const std::int64_t per_channel = align_up(traffic / channels, 16);
  const std::int64_t cell = align_up(ceil_div(least, traffic_per_byte), 16);
  const std::int64_t cells = std::max<std::int64_t>(1, ceil_div(mine, cell));
  const std::int64_t each = std::min(cells, ceil_div(per_channel, cell * traffic_per_byte));
  return static_cast<int>(std::min<std::int64_t>(ceil_div(cells, each), channels));
}

int channels_of(const TunerInput& in, const TunerChoice& choice, std::int64_t bytes) {
  if (choice.algorithm == Algorithm::point_to_point) {
    return peer_to_peer_channels(in, bytes);
  }
  const int most = most_channels(in, choice, bytes);
  const bool through_fabric = choice.algorithm == Algorithm::collnet_direct ||
                              choice.algorithm == Algorithm::collnet_chain ||
                              (choice.algorithm == Algorithm::nvls && in.nodes > 1);
  return through_fabric ? most : share_cells(in, choice, bytes, most);
}

// ------------------------------------------------------------------------------ chunks

// Halves `chunk` while the channel has fewer than `enough` of `width` of them, but not below `least`.
std::int64_t halve(std::int64_t chunk, std::int64_t bytes, std::int64_t width, double enough,
                   std::int64_t least) {
  const auto whole = [&] { return bytes / (width * chunk); };
  while (static_cast<double>(whole()) < enough && chunk > least) {
    chunk /= 2;
  }
  return chunk;
}

std::int64_t tree_chunk(const TunerInput& in, Protocol protocol, std::int64_t bytes) {
  const int local = gpus_per_node(in);
  if (protocol == Protocol::ll128) {
    const double depth = 1 + log2_down(in.nodes) + 0.1 * local;
    const std::int64_t chunk = halve(kLl128Step, bytes, 1, depth * 64 / local, 128 * kKiB);
    return halve(chunk, bytes, 1, depth * 16 / local, 32 * kKiB);
  }
  if (protocol == Protocol::ll) {
    return kLlStep;
  }
  if (in.version.minor >= 20) {
    return step_of(in);
  }
  const int depth = local - 1 + log2_down(in.nodes);
  const std::int64_t chunk =
      halve(halve(step_of(in), bytes, 1, depth * 8, 128 * kKiB), bytes, 1, depth * 4, 64 * kKiB);
  return halve(chunk, bytes, 1, depth, 32 * kKiB);
}

std::int64_t collnet_chunk(const TunerInput& in, Algorithm algorithm, std::int64_t bytes) {
  const int local = gpus_per_node(in);
  if (algorithm == Algorithm::collnet_chain) {
    const std::int64_t most = std::min(256 * kKiB, step_of(in));
    const std::int64_t chunk = halve(most, bytes, 1, local * 64, 128 * kKiB);
    return halve(halve(chunk, bytes, 1, local * 8, 64 * kKiB), bytes, 1, local, 32 * kKiB);
  }
  const int depth = local == 1 ? 1 : 2;
  return halve(halve(step_of(in), bytes, local, depth * 64, 128 * kKiB), bytes, local, depth * 8, 32 * kKiB);
}

// A slow network wants small chunks.
bool slow_nvls(const TunerInput& in) {
  TunerInput all_reduce = in;
  all_reduce.kind = CollectiveKind::all_reduce;
  all_reduce.allowed = {};
  const auto simple = static_cast<std::size_t>(Protocol::simple);
  const TunerRow row = tuner_table(all_reduce)[static_cast<std::size_t>(Algorithm::nvls)][simple];
  return in.nodes > 1 && in.version.minor >= 19 && row.bandwidth < 150;
}

// Of NVLS and, from 2.21 on, of its trees at most.
std::int64_t most_of_nvls(const TunerInput& in) {
  return in.version.minor >= 21 ? or_else(in.sizes.nvls_chunk, or_else(in.graphs.nvls_chunk, 128 * kKiB))
                                : 128 * kKiB;
}

std::int64_t most_of_nvls_tree(const TunerInput& in) {
  const int v = in.version.minor;
  const std::int64_t most = v >= 21 ? most_of_nvls(in) : step_of(in);
  const std::int64_t own = or_else(in.graphs.nvls_tree_chunk, v >= 19 && in.nodes >= 4 ? 64 * kKiB : most);
  return std::min(most, v >= 20 ? or_else(in.sizes.nvls_tree_chunk, own) : own);
}

std::int64_t nvls_chunk(const TunerInput& in, Algorithm algorithm, std::int64_t bytes) {
  const int local = gpus_per_node(in);
  const auto shrunk = [&](std::int64_t chunk, std::int64_t below, std::int64_t to) {
    return bytes < below * local * chunk ? std::min(chunk, to) : chunk;
  };
  if (algorithm == Algorithm::nvls_tree) {
    const std::int64_t chunk = shrunk(shrunk(most_of_nvls_tree(in), 32, 256 * kKiB), 16, 128 * kKiB);
    return shrunk(shrunk(chunk, 4, 64 * kKiB), 1, 32 * kKiB);
  }
  const std::int64_t chunk = std::min(slow_nvls(in) ? 32 * kKiB : most_of_nvls(in), step_of(in));
  return shrunk(shrunk(shrunk(chunk, 64, 64 * kKiB), 8, 32 * kKiB), 2, 16 * kKiB);
}

// Of one block, of a channel that carries `bytes`.
std::int64_t chunk_of(const TunerInput& in, const TunerChoice& choice, std::int64_t bytes) {
  switch (choice.algorithm) {
    case Algorithm::tree:
      return tree_chunk(in, choice.protocol, bytes);
    case Algorithm::collnet_direct:
    case Algorithm::collnet_chain:
      return collnet_chunk(in, choice.algorithm, bytes);
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      return nvls_chunk(in, choice.algorithm, bytes);
    case Algorithm::pat: {
      const std::int64_t parts = in.kind == CollectiveKind::all_gather ? 32 : 16;
      std::int64_t chunk = step_of(in);
      while (chunk * parts > bytes && chunk > 64 * kKiB) {
        chunk /= 2;
      }
      return chunk;
    }
    default:
      break;
  }
  switch (choice.protocol) {
    case Protocol::ll:
      return kLlStep;
    case Protocol::ll128:
      return kLl128Step;
    default:
      return in_big_steps(in, choice) ? 4 * step_of(in) : step_of(in);
  }
}

std::int64_t blocks_of(const TunerInput& in, const TunerChoice& choice) {
  const RankLayout layout{static_cast<std::uint32_t>(in.nodes),
                          static_cast<std::uint32_t>(gpus_per_node(in))};
  return blocks_per_loop(choice.algorithm, in.kind, layout);
}

// What a full loop's chunk is a multiple of.
std::int64_t grain_of(Protocol protocol) {
  return protocol == Protocol::ll ? 16 : protocol == Protocol::ll128 ? kLl128Lines.value : 512;
}

// Full loops, and one more with what is left: its chunk goes to the next 16 bytes in every protocol
// (src/device/all_reduce.h).
std::vector<Loops> cut(std::int64_t bytes, std::int64_t chunk, std::int64_t blocks) {
  constexpr std::int64_t kLastGrain = 16;
  const std::int64_t full = bytes / (blocks * chunk);
  const std::int64_t rest = bytes - full * blocks * chunk;
  const std::int64_t last = std::min(chunk, align_up(ceil_div(rest, blocks), kLastGrain));
  if (last == chunk) {
    return {{full + 1, Bytes(chunk), {}}};
  }
  std::vector<Loops> loops;
  if (full > 0) {
    loops.push_back({full, Bytes(chunk), {}});
  }
  if (rest > 0) {
    loops.push_back({1, Bytes(last), {}});
  }
  return loops;
}

// What of a chunk moves on its own; 0: it moves whole. Simple: half of it, but at least a 16th of a step, which may be
// all (src/device/prims_simple.h). LL has
// a flag in every line: what all threads move at once is passed on before the rest has come
// (src/device/prims_ll.h). LL128 does so too: HopCost::cut_through.
Bytes slice_of(const TunerInput& in, const TunerChoice& choice, bool big, Bytes chunk) {
  constexpr Bytes kLlRound(4 * kKiB), kWhole;
  if (choice.protocol == Protocol::simple) {
    return big ? std::min(chunk, Bytes(std::max(step_of(in) / 16, ceil_div(chunk.value, 2)))) : kWhole;
  }
  return choice.protocol == Protocol::ll && chunk > kLlRound ? kLlRound : kWhole;
}

}  // namespace

Protocol point_to_point_protocol(const TunerInput& in, Bytes bytes) {
  constexpr std::int64_t kMost = 16 * kKiB;  // per channel
  const std::int64_t message = peer_bytes(in, bytes.value);
  return in.nodes == 1 && message <= message_channels(in, message) * kMost ? Protocol::ll : Protocol::simple;
}

Sizing size_collective(const TunerInput& in, const TunerChoice& choice, Bytes bytes) {
  Sizing made;
  const bool big = in_big_steps(in, choice);
  made.slots = big ? 4 : 8;
  if (bytes.value <= 0) {
    made.loops = {{1, Bytes(0), Bytes(0)}};
    return made;
  }
  made.channels = channels_of(in, choice, bytes.value);
  const std::int64_t mine = ceil_div(bytes.value, made.channels);
  const std::int64_t grain = grain_of(choice.protocol);
  const std::int64_t chunk = choice.algorithm == Algorithm::point_to_point
                                 ? peer_chunk(in, choice.protocol, bytes.value)
                                 : chunk_of(in, choice, mine);
  made.loops = cut(mine, chunk / grain * grain, blocks_of(in, choice));
  for (Loops& loops : made.loops) {
    loops.slice = slice_of(in, choice, big, loops.chunk);
  }
  made.slots *= choice.protocol == Protocol::simple ? 1 : slices_of(made.loops.front());
  if (choice.algorithm == Algorithm::nvls || choice.algorithm == Algorithm::nvls_tree) {
    made.slots =
        std::max(made.slots, static_cast<std::uint32_t>(2 * gpus_per_node(in)));  // two loops of all heads
  }
  return made;
}

}  // namespace paceline
