// What the hops and thread blocks of a collective cost under a protocol. Parameters belong to hardware, not to
// NCCL's version; the defaults are fitted to published measurements (default_costs.cpp). A profile replaces
// them by name.
//
//   PROTOCOL.startup                  s   ll, ll128, simple: from the launch to the first step; all_to_all and
//                                         send_recv have LL's in Simple too
//   PROTOCOL.LINK.latency             s   of a step over LINK: nvlink, pcie, network
//   simple.slice_overhead             s   that a slice in Simple occupies a hop in a node beside its bytes
//   nvls.startup, nvls.latency        s   of the switch that reduces or multicasts: to the first step; of a
//                                         hop to or from it
//   nvls.slice_overhead               s   as simple.slice_overhead, of such a hop
//   ring.PROTOCOL.efficiency              of what a channel carries (caps_of): LL, LL128
//   tree.PROTOCOL.efficiency              likewise, all three
//   LINK.efficiency                       payload over the links' bandwidth, in Simple
//   host.efficiency                       in place of pcie.efficiency, in all protocols, of the link over which a GPU
//                                         reads a host's memory: in a hop between GPUs that are no peers (past a CPU)
//   nvls.efficiency                       likewise of NVLinks, while the switch reduces or multicasts
//   nvls.tree_efficiency                  of that, while heads also run the tree between nodes
//   network.latency                   s   of a hop over the network beyond InfiniBand's
//   network.slice_overhead            s   (on Slingshot none up to 16 KiB) of a GPU's proxy for a message, times the
//                                         FIFOs that it serves at once: beside the slice's bytes where software moves
//                                         them (EFA, TCPX, TCPXO), else the least that a slice occupies a hop
//   network.fifo_startup              s   of a GPU's proxy, before the first step: times the FIFOs over the network
//                                         that it begins
//   network.channel_overhead          s   of a channel in Simple for a message (but of all_to_all and send_recv), beside
//                                         its bytes at
//   network.channel_rate              B/s which it moves them, however idle the NIC
//   network.thread_rate               B/s that a thread sends, or receives, over TCP sockets: socket_threads of them
//                                         for each channel and direction; or a GPU's proxy alone, which carries as
//                                         much each way of all its channels together
//   network.socket_rate               B/s of a channel's one TCP socket, where the network limits each flow; 0: it
//                                         doesn't
//   network.adapter_rate              B/s that a host moves through one adapter over TCP sockets, however fast it is
//   ll.proxy_rate                     B/s that a GPU's proxy sends in LL, whose lines it looks at one by one
//   block.copy_rate                   B/s that a thread block moves, in its GPU or out of it
//   launch.latency                    s   from the call to the startup, whatever the protocol
//   launch.period                     s   from one launch to the next: what small collectives in a row take
//   launch.exposed                    s   of each launch where a process drives several GPUs: what the collective before
//                                         doesn't hide
//
// OpenMPI's ring has these and LINK.efficiency:
//   mpi.startup                       s   from the call to the first message
//   mpi.LINK.latency                  s   of a message, beyond the links' own
//   mpi.rendezvous                    s   that a network hop is occupied longer by a block above 65,472 B
//                                         (the TCP transport's eager limit), while sender and receiver agree
//   mpi.reduce_rate                   B/s of a block that was received, into the rank's own
//
// So has gloo:
//   gloo.startup                      s   from the call to the first message
//   gloo.LINK.latency                 s   of a segment, beyond the links' own
//   gloo.handshake                    s   that a network hop is occupied longer by each segment: sender and receiver
//                                         tell each other that they are ready (transport/tcp/pair.cc)
//   gloo.reduce_rate                  B/s of a segment that was received, into the rank's own
//   tcp.acknowledgements                  of what a rank receives in a ring of more than two: so much it sends back to
//                                         the rank that sent it, beside what it sends on (66 B for two packets of
//                                         1514 B; less where the card joins packets: 0). With two ranks they ride on
//                                         the data
//   gloo.copy_rate                    B/s of a buffer that is copied to the host before and back after; 0: it is
//                                         there (tensors of CPUs). Default for a node's GPUs: half of what PCIe
//                                         leaves each, one way and back
//   gloo.local_rate                   B/s from a process to another of its host, by TCP's loopback
//
// And TensorFlow's own ring:
//   tensorflow.startup                s   from the operation to the first chunk
//   tensorflow.LINK.latency           s   of a chunk, beyond the links' own and its copies
//   tensorflow.reduce_rate            B/s of a chunk that was received, into the GPU's own
//   tensorflow.copy_rate              B/s of a chunk that leaves the node, from its GPU to the host, and at the other
//                                         end to the GPU; 0: it is there (tensors of CPUs)
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "sim/collective/plan.h"
#include "sim/collective/spec.h"
#include "topology/cluster_spec.h"

namespace paceline {

inline constexpr std::size_t kHopKinds = kNames<HopKind>.size() - 1;  // that cost something: all but inside

// What one search channel carries at most, bus bandwidth in GB/s: NCCL's figures (src/graph/tuning.cc, 2.30:
// perChMaxRingLL128Bws, perChMaxTreeLL128Bws, perChMaxTreeBws on two nodes), of which trees in Simple and LL have none
// from Hopper on.
struct ChannelCaps {
  double ring_ll128 = 0, tree_ll128 = 0, tree = 0;
};

struct CollectiveCosts {
  struct OfProtocol {
    Seconds startup;
    std::array<Seconds, kHopKinds> latency;
    double ring_efficiency = 1, tree_efficiency = 1;
  };
  std::array<OfProtocol, kProtocols> of{};
  struct OfNvls {
    Seconds startup, latency, slice_overhead;
    double efficiency = 1, tree_efficiency = 1;
  } nvls;
  std::array<double, kHopKinds> efficiency{};
  double host_efficiency = 1;
  Seconds fifo_startup, network_latency, network_slice_overhead, simple_slice_overhead;
  Bytes eager;                   // no message of so many bytes has network_slice_overhead
  bool serial_messages = false;  // which comes beside a message's bytes; else it is the least that they take
  Seconds channel_overhead;
  BytesPerSecond channel_rate;
  BytesPerSecond thread_rate, socket_rate, adapter_rate;  // of TCP sockets; 0: no limit
  BytesPerSecond ll_proxy_rate, copy_rate;
  Seconds launch_latency, launch_period, launch_exposed;
  bool nvlink_reads = false;  // NCCL reads over NVLink instead of writing
  ChannelCaps caps;
  struct OfHosts {
    Seconds startup;
    std::array<Seconds, kHopKinds> latency;
    Seconds agreement;  // mpi.rendezvous, gloo.handshake
    BytesPerSecond reduce_rate;
    BytesPerSecond copy_rate{}, local_rate{};  // local_rate: gloo's alone
  } mpi, gloo, tensorflow;
  double acknowledgements = 0;
};

CollectiveCosts default_costs(int compute_capability, NetworkKind);
// Of the libraries that run on hosts. TCP over Ethernet, with round figures that a measurement should replace
// (tests/cluster and tests/frameworks do so).
CollectiveCosts default_host_costs();
// Whose startup a plan has that no switch reduces.
Protocol begins_as(Algorithm, Protocol);
// Throws InputError with the nearest known name.
void set_costs(std::span<const CostParameter>, CollectiveCosts&);
double cost_value(const std::string& name, CollectiveCosts);  // throws likewise
std::vector<std::string> cost_parameter_names();

// Fills startup, launch_period, launch_exposed, hops, copy_rate and copy_shown of a plan with loops and slots on a priced graph.
struct PriceRequest {
  int socket_threads = 0, sockets_per_thread = 1;  // as CollectiveSpec's
  int gpus_per_process = 1;                        // which one host thread launches one after the other
  bool fills_faster =
      false;  // inside nodes, while the pipeline is not full: NCCL's cap for trees is a full one's
};
// `costs`: by the topology's kind of node, or one for all. A hop between nodes of two kinds costs what the slower of
// the two takes; what counts for all thread blocks (startup, copies) is the slowest kind's.
void price_plan(CollectivePlan&, const CollectiveGraph&, std::span<const CollectiveCosts> costs,
                const PriceRequest&);

}  // namespace paceline
