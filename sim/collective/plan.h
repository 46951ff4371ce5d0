// A collective as what its thread blocks do: a graph of thread blocks joined by FIFOs, and the sizes that run
// on it.
//
// A thread block is one of NCCL's, or an independent part of one (the two directions of a tree), on one rank
// and channel: a serial resource. It runs a script of steps, each one primitive of NCCL's device code
// (src/device/primitives.h): receive a chunk on some FIFOs, combine, send the result on others. A FIFO holds
// the chunks from one thread block to another, in order; it has as many slots as the plan says. Switches that
// reduce (NVLS, SHARP) are thread blocks without a rank.
//
// When a step happens, for all slices of its chunk (sim/collective/passes.h):
//   start = max(end of the thread block's previous step, arrival of each chunk received,
//               end of the receiver's step that emptied the slot, for each FIFO sent on)
//   end   = start + max over FIFOs sent on of stay; a step that sends nothing: start + slice / copy rate, of
//           which a thread block that sends in other steps shows `copy_shown` before the last loop
//   arrival of what it sends on a FIFO = start + stay + latency, stay = max(slice / rate + overhead, least,
//           channel + slice / channel_rate); what a
//           thread block's loop but the last ends with, where it only copies: `hidden` earlier; where the receiver
//           passes lines on as they come: by what all but the first take at `cut_through` earlier
// A thread block starts `startup` after its rank enters; a rank leaves when its last thread block has ended, but for
// detached ones.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/id.h"
#include "core/names.h"
#include "core/time.h"
#include "core/units.h"
#include "topology/topology.h"

namespace paceline {

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  send_recv
};
// As nccl-tests' programs are called.
template <>
inline constexpr auto kNames<CollectiveKind> =
    names<CollectiveKind>({{"all_reduce", CollectiveKind::all_reduce},
                           {"all_gather", CollectiveKind::all_gather},
                           {"reduce_scatter", CollectiveKind::reduce_scatter},
                           {"broadcast", CollectiveKind::broadcast},
                           {"reduce", CollectiveKind::reduce},
                           {"alltoall", CollectiveKind::all_to_all},
                           {"sendrecv", CollectiveKind::send_recv}});
constexpr bool between_peers(CollectiveKind kind) {
  return kind == CollectiveKind::all_to_all || kind == CollectiveKind::send_recv;
}
constexpr bool has_root(CollectiveKind kind) {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
}
constexpr bool gathers_or_scatters(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
}
// On a ring all ranks feed it, and it closes; with a root it is a chain.
constexpr bool goes_round(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || gathers_or_scatters(kind);
}

// NCCL's numbers (src/include/nccl_common.h), then what NCCL has no number for.
enum class Algorithm : std::uint8_t {
  tree,
  ring,
  collnet_direct,
  collnet_chain,
  nvls,
  nvls_tree,
  pat,
  hierarchical,    // reduce-scatter in the node, all-reduce across, all-gather in the node
  point_to_point,  // all_to_all and send_recv
  mpi_ring,        // OpenMPI's, as is the next; then gloo's (sim/collective/host_collectives.h)
  recursive_doubling,
  gloo_ring,
  binomial_tree,
  tensorflow_ring
};
template <>
inline constexpr auto kNames<Algorithm> =
    names<Algorithm>({{"tree", Algorithm::tree},
                      {"ring", Algorithm::ring},
                      {"collnet_direct", Algorithm::collnet_direct},
                      {"collnet_chain", Algorithm::collnet_chain},
                      {"nvls", Algorithm::nvls},
                      {"nvls_tree", Algorithm::nvls_tree},
                      {"pat", Algorithm::pat},
                      {"hierarchical", Algorithm::hierarchical},
                      {"point_to_point", Algorithm::point_to_point},
                      {"ring", Algorithm::mpi_ring},
                      {"recursive_doubling", Algorithm::recursive_doubling},
                      {"ring", Algorithm::gloo_ring},
                      {"binomial_tree", Algorithm::binomial_tree},
                      {"ring", Algorithm::tensorflow_ring}});
inline constexpr std::size_t kNcclAlgorithms = 7, kAlgorithms = 9;  // that NCCL has; whose costs have names
enum class Protocol : std::uint8_t { ll, ll128, simple };
template <>
inline constexpr auto kNames<Protocol> =
    names<Protocol>({{"ll", Protocol::ll}, {"ll128", Protocol::ll128}, {"simple", Protocol::simple}});
inline constexpr std::size_t kProtocols = kNames<Protocol>.size();

// A contiguous range of a thread block's receive or send ports.
struct Ports {
  std::uint16_t first = 0, count = 0;
  friend bool operator==(const Ports&, const Ports&) = default;
};

// One primitive, `times` in a row. The i-th time it moves `width` blocks of the loop's data, the j-th of them
//   base + (shift + block + i * stride + j * gap) mod modulus
// with the thread block's base and shift and the script's modulus. What it sends and keeps: the sum of what
// it receives and, with `own`, of what the rank has of the block: what it kept in this loop, or else its
// input. A step that receives nothing and has no `own` sends what the rank has kept.
struct Step {
  std::uint32_t times = 1;
  Ports receive{}, send{};
  std::uint32_t width = 1;
  bool own = false;
  bool keep = false;  // the result goes to the rank's output
  std::int64_t block = 0, stride = 0, gap = 1;
  std::int64_t sent =
      0;  // not 0: it sends what the rank has of the blocks so much further on, not the result
  friend bool operator==(const Step&, const Step&) = default;
};

struct Script {
  std::vector<Step> steps;  // of one loop
  std::int64_t modulus = 1;
  friend bool operator==(const Script&, const Script&) = default;
};

struct ThreadBlock {
  static constexpr std::uint32_t kSwitch = 0xffffffffU;
  std::uint32_t rank = kSwitch;
  std::uint32_t channel = 0;
  std::uint32_t script = 0;                   // in CollectiveGraph::scripts
  std::uint32_t first_in = 0, first_out = 0;  // its ports: CollectiveGraph::in and out from here on
  std::int64_t base = 0, shift = 0;
  bool detached =
      false;  // the rank's kernel, which sends on when the rank has left: begins and ends as a switch does

  std::uint32_t holds() const {
    return detached ? kSwitch : rank;
  }  // who begins it, and leaves when it has ended
};

// What a FIFO crosses; `fabric` is the switch of the network that reduces (SHARP).
enum class Wire : std::uint8_t {
  gpu_to_gpu,
  gpu_to_nvswitch,
  nvswitch_to_gpu,
  gpu_to_fabric,
  fabric_to_gpu,
  inside,
  word  // that its receiver may go on, at no cost; carries no data
};
inline bool crosses_links(Wire wire) { return wire != Wire::inside && wire != Wire::word; }

struct Fifo {
  std::uint32_t from = 0, to = 0;  // thread blocks
  std::uint32_t hop = 0;           // in CollectiveGraph::hops and CollectivePlan::hops, once priced
  Wire wire = Wire::gpu_to_gpu;    // inside: within one GPU or switch, at no cost
  std::int16_t nic_out = -1,
               nic_in = -1;  // of the sender's and the receiver's node, where it leaves the node
};

// A link of a FIFO and who else sends over it: blocks of a loop, by how many loops later than this FIFO they move
// the same chunk. `own`: what this FIFO's thread block sends over it.
struct SharedLink {
  BytesPerSecond bandwidth;
  double own = 0;
  bool from_host = false;                              // the GPU reads a host's memory over it
  std::vector<std::pair<std::int32_t, double>> loads;  // ascending
  friend bool operator==(const SharedLink&, const SharedLink&) = default;
};

// Of the topology: that of the sender's node, and the receiver's; the first of those with equal costs.
struct KindsOfNode {
  std::uint16_t from = 0, to = 0;
  friend bool operator==(const KindsOfNode&, const KindsOfNode&) = default;
};

// The links of a FIFO, whatever the protocol: the narrowest one's bandwidth as shared among this collective's
// own FIFOs, the sum of their latencies, and their slowest class.
struct Hop {
  BytesPerSecond rate;
  Seconds latency;
  HopKind kind = HopKind::nvlink;
  BytesPerSecond alone{};   // its bandwidth while the others are silent
  double of_one_proxy = 1;  // FIFOs over the network that the sender's GPU, and so its proxy, serves at once
  double of_proxies = 2;    // and that the busier of its two ends' sends on and receives from at once
  double of_nics = 1;       // what it has of the NICs at its ends, the smaller share
  std::vector<SharedLink> links{};  // where not all that cross them are live in every loop
  KindsOfNode nodes{};
  bool passed_on = false;  // by its receiver, to GPUs of its node
  BytesPerSecond
      from_host{};  // of a hop inside a node through a host's memory: the share of the link from there
  friend bool operator==(const Hop&, const Hop&) = default;
};

// A FIFO whose links others use too; its transfers share bandwidth in the event engine. Those of one socket go one
// after the other, in the order in which they were to be sent.
struct SharedFifo {
  static constexpr std::uint32_t kNoSocket = 0xffffffffU;
  std::uint32_t fifo = 0;
  std::vector<LinkId> links;  // numbered in Communicator::shared_capacity
  std::uint32_t socket = kNoSocket;
  std::uint32_t alike = 1;  // FIFOs that this one stands for, itself among them (merge_channels)
};

// The ports of thread block w end where those of w + 1 begin. Of several groups: one after the other, each on
// `channels` channels that are numbered on from those of the group before.
struct CollectiveGraph {
  std::uint32_t channels = 0, ranks = 0;
  std::vector<Script> scripts;
  std::vector<ThreadBlock> thread_blocks;  // of a channel together
  std::vector<std::uint32_t> in, out;      // FIFO of each port
  std::vector<Fifo> fifos;
  // Filled by price_graph (sim/collective/pricing.h):
  std::vector<Hop> hops;
  std::vector<SharedFifo> shared;
  std::int64_t turn = 0;  // of a pipeline: loops until half of its blocks move; 0: a circle
};

// `count` loops over the script with chunks of `chunk` bytes of data, which move in slices of `slice` bytes,
// the last one shorter where need be; where slice = chunk, it is empty. slice 0: a chunk moves whole.
struct Loops {
  std::int64_t count = 0;
  Bytes chunk, slice{};
  friend bool operator==(const Loops&, const Loops&) = default;
};
inline std::uint32_t slices_of(const Loops& loops) {
  const std::int64_t slice = loops.slice.value, chunk = loops.chunk.value;
  return slice == 0 ? 1 : slice == chunk ? 2 : static_cast<std::uint32_t>((chunk + slice - 1) / slice);
}

// What a warp in LL128 passes on at once: 16 lines of 120 bytes and a flag (src/device/prims_ll128.h).
inline constexpr Bytes kLl128Lines{1920};

// What a channel moves of a message to a peer across the network, whatever the version: by it NCCL counts a peer's
// channels since 2.29 (src/graph/paths.cc).
inline constexpr BytesPerSecond kPeerNetworkRate{14e9};

// What a FIFO costs under the plan's protocol. rate: of data; infinite inside a device. A slice occupies the
// hop at least for `least`; overhead: beside its bytes.
struct HopCost {
  BytesPerSecond rate;
  SimTime latency;
  SimTime least;
  SimTime hidden{};  // part of the latency before a loop's last copy that the links' sharing hides (costs.h)
  SimTime overhead{};
  BytesPerSecond cut_through{};   // at which the receiver passes lines on as they come; 0: it waits for all
  SimTime channel{};              // between nodes a channel's own time for a slice, beside its bytes
  BytesPerSecond channel_rate{};  // at this rate; 0: beside nothing
  Bytes eager{};                  // slices of so many bytes at most have no `least`; 0: all have
  friend bool operator==(const HopCost&, const HopCost&) = default;
};

// The family of one group: all ranks.
inline constexpr std::uint32_t kWorld = 0xffffffffU;

// One of several things that are a collective, one after the other on every rank.
struct Stage {
  enum class Where : std::uint8_t { gpus, to_host, hosts, to_gpu } where = Where::gpus;
  std::uint32_t plan = 0;  // gpus, hosts
  Bytes bytes{};           // to_host, to_gpu: what a rank copies

  bool copies() const { return where == Where::to_host || where == Where::to_gpu; }
  friend bool operator==(const Stage&, const Stage&) = default;
};

struct CollectivePlan {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes bytes;  // NCCL's count: of one rank's buffer; all_gather, reduce_scatter, all_to_all: of all ranks'
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  std::uint32_t graph = 0;        // in Communicator::graphs
  std::uint32_t family = kWorld;  // whose groups run it side by side, on a graph that holds them all
  std::uint32_t root = 0;         // of broadcast and reduce: its place in its group
  std::vector<Loops> loops;
  std::uint32_t slots = 0;  // slices that a FIFO holds; 0: any number
  SimTime startup;
  SimTime launch_period;      // collectives in a row begin at least so far apart (collective_cost.h),
  SimTime launch_exposed{};   // and each begins so long after the one before has ended
  std::vector<HopCost> hops;  // by CollectiveGraph::hops
  std::vector<BytesPerSecond>
      paced{};                  // by loops, then hop: in place of its rate; empty where it doesn't change
  BytesPerSecond copy_rate;     // of a step that sends nothing
  double copy_shown = 1;        // part of its time that the links' sharing doesn't hide (costs.h)
  std::vector<Stage> stages{};  // not empty: these in its place; it moves nothing itself
};

// f(plan) for all that moves something when plan `number` runs.
template <class F>
void for_each_run(const std::vector<CollectivePlan>& plans, std::uint32_t number, const F& f) {
  if (plans[number].stages.empty()) {
    f(plans[number]);
  }
  for (const Stage& stage : plans[number].stages) {
    if (!stage.copies()) {
      f(plans[stage.plan]);
    }
  }
}

}  // namespace paceline
