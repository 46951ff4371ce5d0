// Facts from NCCL's src/graph/tuning.cc (tags v2.12.12-1 to v2.30.7-1) and src/enqueue.cc; "since" and
// "until" name the minor version.
#include "sim/collective/tuner.h"

#include <algorithm>
#include <limits>

#include "sim/collective/log2_down.h"
#include "sim/collective/sizing.h"
#include "sim/collective/tuner_tables.h"

namespace paceline {
namespace {

constexpr Algorithm kAlgorithmOf[kNcclAlgorithms] = {Algorithm::tree,
                                                     Algorithm::ring,
                                                     Algorithm::collnet_direct,
                                                     Algorithm::collnet_chain,
                                                     Algorithm::nvls,
                                                     Algorithm::nvls_tree,
                                                     Algorithm::pat};
constexpr Protocol kProtocolOf[kProtocols] = {Protocol::ll, Protocol::ll128, Protocol::simple};

// What the formulas ask for all the time.
struct Job {
  explicit Job(const TunerInput& input)
      : in(input),
        v(input.version.minor),
        nodes(input.nodes),
        ranks(input.ranks),
        local(input.ranks / input.nodes),
        ppn(static_cast<double>(input.ranks) / input.nodes),
        gpu(gpu_row(input.version, input.compute_capability)),
        gather(gathers_or_scatters(input.kind)) {}

  const TunerInput& in;
  int v, nodes, ranks, local;
  double ppn;
  int gpu;
  bool gather;  // all_gather or reduce_scatter

  bool all_reduce() const { return in.kind == CollectiveKind::all_reduce; }
  double capped(Cap which) const { return cap(in.version, which, gpu, nodes); }
  double ll_bus() const {
    // Unlike CPUs count as AMD's since 2.24; before, every rank took its own: here the first.
    const CpuVendor cpu = in.unlike_cpus && v >= 24 ? CpuVendor::amd : in.cpu;
    return cap(in.version, Cap::ll, ll_row(in.version, in.compute_capability, cpu, nodes), nodes);
  }
};

// ------------------------------------------------------------------------------ bandwidth

// A graph on one node may leave the network's rate open.
double inter_rate(const ChannelGraph& graph) {
  return graph.bw_inter > 0 ? graph.bw_inter : std::numeric_limits<double>::infinity();
}

// All channels together, as the search counts them.
double found(const Job& job, const ChannelGraph& graph, double per_channel) {
  const double bus = static_cast<double>(graph.channels.size()) * per_channel;
  if (job.v <= 17 && job.gpu == 1) {
    return std::min(bus, 235.0);
  }
  return job.v == 17 && job.gpu == 2 ? std::min(bus, 370.0) : bus;
}

double ring_bus(const Job& job, const ChannelGraph& graph, Protocol protocol) {
  const double bus = found(job, graph, job.nodes <= 2 ? graph.bw_intra : graph.bw_inter);
  const double channels = static_cast<double>(graph.channels.size());
  switch (protocol) {
    case Protocol::ll: {
      const bool quarter = job.nodes > 1 || job.all_reduce() || job.in.kind == CollectiveKind::reduce;
      return std::min(job.ll_bus(), bus * (job.v >= 21 ? 1.0 / 2 : quarter ? 1.0 / 4 : 1.0 / 3));
    }
    case Protocol::ll128:
      return std::min(bus * (job.v <= 22 && job.ppn < 2 ? 0.7 : 0.92),
                      channels * job.capped(Cap::ring_ll128));
    default:
      return bus;
  }
}

double tree_bus(const Job& job, const ChannelGraph& graph, Protocol protocol) {
  const double channels = static_cast<double>(graph.channels.size());
  double bus = found(job, graph, job.nodes <= 2 ? graph.bw_intra : graph.bw_inter);
  bus = std::min(bus * 0.92, channels * job.capped(Cap::tree));
  if (protocol == Protocol::ll) {
    bus = std::min(bus / 3.8, job.ll_bus());
  } else if (protocol == Protocol::ll128) {
    bus = std::min(bus * (job.nodes == 1 ? 7.0 / 9 : 120.0 / 128), channels * job.capped(Cap::tree_ll128));
  }
  return job.v >= 18 && graph.pattern == GraphPattern::tree ? bus * 0.85 : bus;
}

double collnet_direct_bus(const Job& job, const ChannelGraph& graph) {
  if (job.gather && job.v >= 27) {
    return job.ppn * std::min(graph.bw_intra, inter_rate(graph) * 0.9);
  }
  if (job.gather) {
    const double w = (job.ppn - 1) / 7;  // between what 1 and 8 GPUs per node measured
    return job.ppn * graph.bw_intra * (w * 0.85 + (1 - w) * 0.95);
  }
  double bus = found(job, graph, graph.bw_intra);
  if (job.v >= 14) {
    const double gpus_per_nic = job.ppn / static_cast<double>(graph.channels.size());
    bus /= gpus_per_nic - (gpus_per_nic - 1) / 2;
  }
  return job.v >= 18 && job.in.compute_capability >= 90 ? bus * 0.85 : bus;
}

// Of one channel, until 2.27.
double old_nvls_rate(const Job& job, const ChannelGraph& graph, Algorithm algorithm) {
  if (job.v <= 18) {
    return job.nodes <= 2 ? graph.bw_intra : graph.bw_inter;
  }
  double inter = inter_rate(graph);
  if (algorithm == Algorithm::nvls_tree) {
    return std::min(graph.bw_intra, job.nodes <= 2 ? inter : inter / 2);
  }
  return job.gather && job.v == 27 ? std::min(graph.bw_intra * (job.ppn - 1) / job.ppn, inter * 0.9)
                                   : std::min(graph.bw_intra, inter);
}

// Since 2.28.
double nvls_rate(const Job& job, const ChannelGraph& graph, Algorithm algorithm) {
  const double channels = static_cast<double>(graph.channels.size());
  const double intra = graph.bw_intra * nvls_efficiency(job.gpu) * (channels - 1) / channels *
                       (job.all_reduce() ? 2 : (job.ppn - 1) / job.ppn);
  if (algorithm == Algorithm::nvls) {
    return std::min(intra, inter_rate(graph));
  }
  return std::min({intra, inter_rate(graph) * (job.nodes <= 2 ? 2 : 1), job.capped(Cap::nvls_tree)});
}

double bus_bandwidth(const Job& job, Algorithm algorithm, Protocol protocol) {
  const ChannelGraph& graph = tuner_graph(job.in, algorithm);
  switch (algorithm) {
    case Algorithm::tree:
      return tree_bus(job, graph, protocol);
    case Algorithm::collnet_direct:
      return collnet_direct_bus(job, graph);
    case Algorithm::collnet_chain:
      return found(job, graph, graph.bw_intra) * (job.v < 18 ? 0.75 : 1);
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      return job.v >= 28 ? static_cast<double>(graph.channels.size()) * nvls_rate(job, graph, algorithm)
                         : found(job, graph, old_nvls_rate(job, graph, algorithm));
    case Algorithm::pat:
      return found(job, graph, job.nodes <= 2 ? graph.bw_intra : graph.bw_inter) *
             (job.v >= 24 ? 0.75 : 0.85);
    default:
      return ring_bus(job, graph, protocol);
  }
}

int ring_steps(const Job& job) {
  return job.all_reduce() ? 2 * (job.ranks - 1) : job.gather ? job.ranks - 1 : job.ranks;
}

// Bandwidth of the algorithm over that of the bus.
double algorithm_ratio(const Job& job, Algorithm algorithm) {
  const double of_ring = static_cast<double>(job.ranks) / ring_steps(job);
  if (algorithm == Algorithm::ring) {
    return of_ring;
  }
  if (job.gather && (job.v >= 23 || (job.v >= 20 && algorithm == Algorithm::collnet_direct))) {
    return 1;
  }
  if (algorithm != Algorithm::nvls && algorithm != Algorithm::nvls_tree) {
    return 0.5;
  }
  if (job.v == 18 && algorithm == Algorithm::nvls_tree) {
    return 0.7 * job.nodes / (2 * (job.nodes - 1));
  }
  return job.v >= 28 ? of_ring : job.v >= 18 ? 5.0 / 6 : 0.75;
}

// ------------------------------------------------------------------------------ latency

struct HopLatency {
  double base, intra, inter;  // us
  double any;                 // inter on several nodes, without what the NIC adds; else intra
};

double in_protocol(const ByProtocol& row, Protocol protocol) {
  return row[static_cast<std::size_t>(protocol)];
}

double network_hop(const Job& job, Algorithm algorithm, Protocol protocol) {
  return in_protocol(latency_row(job.in.version, algorithm)->network, protocol);
}

// Of `algorithm` over the edges of `graph`. Trees on POWER cross PCI as cheaply as rings.
double intra_hop(const Job& job, const ChannelGraph& graph, Algorithm algorithm, Protocol protocol) {
  if (graph.type_intra == PathType::nvl) {
    return in_protocol(latency_row(job.in.version, algorithm)->nvlink, protocol);
  }
  const bool as_ring =
      job.in.cpu == CpuVendor::power && algorithm == Algorithm::tree && protocol == Protocol::simple;
  return in_protocol(latency_row(job.in.version, as_ring ? Algorithm::ring : algorithm)->pcie, protocol);
}

HopLatency hops(const Job& job, Algorithm algorithm, Protocol protocol) {
  const ChannelGraph& graph = tuner_graph(job.in, algorithm);
  const double base = in_protocol(latency_row(job.in.version, algorithm)->base, protocol);
  const double network = network_hop(job, algorithm, protocol);
  const double intra = intra_hop(job, graph, algorithm, protocol);
  const double any = job.nodes == 1 ? intra : network;
  const double of_nic = graph.latency_inter;
  if (job.v <= 17) {
    return {base, job.nodes > 1 && protocol == Protocol::ll ? intra * 1.8 : intra,
            of_nic > 0 ? of_nic : network, any};
  }
  // One GPU per node hides nothing: the tree's hop. Simple waits for a flush too.
  const bool as_tree = job.v >= 23 && job.local == 1;
  const double inter = as_tree ? network_hop(job, Algorithm::tree, protocol) : network;
  return {base, intra, inter + of_nic * (protocol == Protocol::simple ? 2 : 1), any};
}

// Of each step of a ring across nodes, for posting it to the network; since 2.18.
double post_overhead(const Job& job, Protocol protocol) {
  if (job.v <= 17 || job.nodes == 1) {
    return 0;
  }
  const bool amd = job.in.cpu == CpuVendor::amd && !(job.in.unlike_cpus && job.v >= 22);
  return (amd ? 2.0 : 1.0) * (protocol == Protocol::simple ? 3 : 1);
}

// broadcast and reduce. Where channels differ, Simple counts a chunk per hop, as the tree does.
double chain_latency(const Job& job, const HopLatency& hop, Protocol protocol) {
  const ChannelGraph& ring = job.in.graphs.ring;
  if (ring.same_channels) {
    return hop.base + hop.any;
  }
  if (protocol != Protocol::simple) {
    return hop.base + job.ranks * hop.any;
  }
  return hop.base + job.ranks * (job.nodes == 1 ? intra_hop(job, ring, Algorithm::tree, protocol)
                                                : network_hop(job, Algorithm::tree, protocol));
}

double ring_latency(const Job& job, const HopLatency& hop, Protocol protocol) {
  int across = job.nodes == 1 ? 0 : job.all_reduce() ? 2 * (job.nodes - 1) : job.nodes - 1;
  if (job.v <= 22 && job.nodes > 1 && job.all_reduce()) {
    across = 2 * job.nodes;
  }
  return hop.base + (ring_steps(job) - across) * std::max(hop.intra, post_overhead(job, protocol)) +
         across * hop.inter;
}

double nvls_latency(const Job& job, Algorithm algorithm, const HopLatency& hop) {
  if (algorithm == Algorithm::nvls) {
    return job.v >= 19 ? hop.intra + (job.nodes > 1 ? hop.inter : 0)
                       : hop.base + (job.nodes > 1 ? hop.any : 0);
  }
  return job.v == 18 ? hop.base + 2 * (job.nodes - 1) * hop.any
                     : hop.base + hop.intra + 2 * log2_down(job.nodes) * hop.inter;
}

double latency(const Job& job, Algorithm algorithm, Protocol protocol) {
  const HopLatency hop = hops(job, algorithm, protocol);
  switch (algorithm) {
    case Algorithm::tree:
      return hop.base + 2 * ((job.local - 1) * hop.intra + log2_down(job.nodes) * hop.inter);
    case Algorithm::collnet_direct: {
      const double serial = (job.local - 1) * (job.v >= 19 ? 0.4 : 0.5);
      return hop.base + 2 * (std::min(1, job.local - 1) * hop.intra + serial) + hop.inter;
    }
    case Algorithm::collnet_chain:
      return hop.base + 2 * (job.local - 1) * hop.intra + (job.v >= 18 ? hop.inter : 0);
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      return nvls_latency(job, algorithm, hop);
    case Algorithm::pat:
      return hop.base + log2_down(job.nodes) * (hop.inter / 3.5) + job.ranks * 2.8;
    default:
      return job.all_reduce() || job.gather ? ring_latency(job, hop, protocol)
                                            : chain_latency(job, hop, protocol);
  }
}

// ------------------------------------------------------------------------------ the table

TunerTable fill(const Job& job) {
  TunerTable table{};
  if (job.ranks < 2) {
    return table;
  }
  for (const Algorithm algorithm : kAlgorithmOf) {
    for (const Protocol protocol : kProtocolOf) {
      if (tuner_allows(job.in, algorithm, protocol)) {
        const double bandwidth = bus_bandwidth(job, algorithm, protocol) * algorithm_ratio(job, algorithm);
        table[static_cast<std::size_t>(algorithm)][static_cast<std::size_t>(protocol)] = {
            bandwidth > 0, latency(job, algorithm, protocol), bandwidth};
      }
    }
  }
  return table;
}

bool empty(const TunerTable& table) {
  return std::ranges::none_of(table, [](const auto& rows) {
    return std::ranges::any_of(rows, [](const TunerRow& row) { return row.enabled; });
  });
}

// The factor on the bandwidth for medium sizes.
double correction(const Job& job, Algorithm algorithm, Protocol protocol, std::int64_t bytes) {
  int step = log2_down(bytes / 64);
  if (job.v <= 21) {
    step = std::max(step, 0);
  }
  const bool x86 = job.in.cpu != CpuVendor::arm && job.in.cpu != CpuVendor::power;
  const bool tree = algorithm == Algorithm::tree && step < 23;
  const bool nvls_tree = algorithm == Algorithm::nvls_tree && step < 24 && job.v >= 29 &&
                         job.in.compute_capability >= 100 && x86;
  return job.all_reduce() && step >= 0 && (tree || nvls_tree) ? tree_correction(protocol, step) : 1;
}

// The factor on a ring's latency once its chunks are no longer tiny.
double plateau(const Job& job, Algorithm algorithm, Protocol protocol, std::int64_t bytes) {
  if (algorithm != Algorithm::ring || protocol != Protocol::simple || job.nodes < 2 || !job.all_reduce()) {
    return 1;
  }
  const int cc = job.in.compute_capability;
  if (job.v <= 17) {
    const bool reached = static_cast<double>(bytes) >= job.ranks / 16.0 * 65536;
    return !reached ? 1 : job.v == 17 && cc >= 90 ? 1.5 : 1.9;
  }
  const std::int64_t parts = std::int64_t{std::max(1, job.in.graphs.channels)} * job.ranks;
  return bytes / parts < 64 ? 1 : cc < 80 ? 1.9 : 1.4;
}

}  // namespace

TunerTable tuner_table(const TunerInput& in) {
  const TunerTable table = fill(Job(in));
  if (in.version.minor >= 24 || !empty(table)) {
    return table;
  }
  // Until 2.23 a ring ran where NCCL_ALGO left nothing.
  TunerInput ring = in;
  ring.allowed.algorithm.fill(false);
  ring.allowed.algorithm[static_cast<std::size_t>(Algorithm::ring)] = true;
  return fill(Job(ring));
}

double tuner_time(const TunerInput& in, const TunerTable& table, Algorithm algorithm, Protocol protocol,
                  Bytes bytes) {
  const auto a = static_cast<std::size_t>(algorithm), p = static_cast<std::size_t>(protocol);
  if (a >= kNcclAlgorithms || !table[a][p].enabled) {
    return -1;
  }
  const Job job(in);
  const TunerRow& row = table[a][p];
  const double bandwidth = row.bandwidth * correction(job, algorithm, protocol, bytes.value);
  return row.latency * plateau(job, algorithm, protocol, bytes.value) +
         static_cast<double>(bytes.value) / (1000 * bandwidth);
}

std::optional<TunerChoice> tune(const TunerInput& in, const TunerTable& table, Bytes bytes) {
  if (between_peers(in.kind)) {
    return TunerChoice{Algorithm::point_to_point, point_to_point_protocol(in, bytes), 0};
  }
  if (in.ranks < 2) {
    return TunerChoice{};
  }
  std::optional<TunerChoice> best;
  for (const Algorithm algorithm : kAlgorithmOf) {
    for (const Protocol protocol : kProtocolOf) {
      const double time = tuner_time(in, table, algorithm, protocol, bytes);
      if (time > 0 && (!best || time < best->time)) {
        best = TunerChoice{algorithm, protocol, time};
      }
    }
  }
  return best;
}

}  // namespace paceline
