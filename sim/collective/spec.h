// How collectives run on a cluster, and what crosses its links beside them: what a planner is told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/names.h"
#include "core/units.h"
#include "sim/collective/plan.h"
#include "topology/cluster_spec.h"

namespace paceline {

// A value of a cost parameter by name: "simple.network.latency" in s, "network.efficiency" as a ratio.
struct CostParameter {
  std::string name;
  double value = 0;
  friend bool operator==(const CostParameter&, const CostParameter&) = default;
};

// A factor on the times of a collective of `bytes`: what the cost parameters leave of a measurement
// (scenarios/profile.h).
struct Correction {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes bytes;
  double factor = 1;
  friend bool operator==(const Correction&, const Correction&) = default;
};

// Who chooses among the algorithms and protocols that NCCL could run: its tuner, or a choice that is always
// right. The second where the version's tuner is not known (docs/model.md, "Calibration").
enum class AlgorithmChoice : std::uint8_t { tuner, fastest };
template <>
inline constexpr auto kNames<AlgorithmChoice> =
    names<AlgorithmChoice>({{"tuner", AlgorithmChoice::tuner}, {"fastest", AlgorithmChoice::fastest}});

// Whose algorithms run collectives. mpi, gloo: on hosts, over TCP (sim/collective/host_collectives.h).
enum class CollectiveLibrary : std::uint8_t { nccl, mpi, gloo, tensorflow };
template <>
inline constexpr auto kNames<CollectiveLibrary> =
    names<CollectiveLibrary>({{"nccl", CollectiveLibrary::nccl},
                              {"mpi", CollectiveLibrary::mpi},
                              {"gloo", CollectiveLibrary::gloo},
                              {"tensorflow", CollectiveLibrary::tensorflow}});

// How much NCCL's buffers hold and how much moves as one. 0: what the network's plugin sets, else NCCL's own.
struct NcclSizes {
  Bytes buffer{0};           // NCCL_BUFFSIZE: of one FIFO in Simple
  Bytes nvls_chunk{0};       // NCCL_NVLS_CHUNKSIZE, since 2.21
  Bytes nvls_tree_chunk{0};  // NCCL_NVLSTREE_MAX_CHUNKSIZE, since 2.20
  Bytes peer_chunk{0};       // NCCL_P2P_NET_CHUNKSIZE
  friend bool operator==(const NcclSizes&, const NcclSizes&) = default;
};

inline constexpr std::int64_t kMostChosen = std::int64_t{1} << 62;

// How NCCL runs collectives. The names in capitals are NCCL's environment variables.
struct CollectiveSpec {
  CollectiveLibrary library = CollectiveLibrary::nccl;  // others: of the rest, only the costs count
  std::string nccl = "2.30";                            // 2.12 to 2.30: tuner and graph search
  std::string algorithm{};  // NCCL_ALGO: "ring", "^nvls" ...; or "hierarchical"; empty: the tuner chooses
  std::string protocol{};   // NCCL_PROTO
  int min_channels = 0, max_channels = 0;  // NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS; 0: NCCL's
  int cross_nic = 2;                       // NCCL_CROSS_NIC
  bool pxn = true;                         // NCCL_PXN_DISABLE=0
  bool nvls = true;                        // NCCL_NVLS_ENABLE
  // NCCL_SOCKET_NTHREADS; 0: the proxy's alone, NCCL's default but on EC2 (2) and Google's cloud (4)
  int socket_threads = 0;
  int sockets_per_thread = 1;  // NCCL_NSOCKS_PERTHREAD; likewise (8 on EC2)
  NcclSizes sizes{};
  int gpus_per_process = 1;            // one host thread launches for so many, one after the other
  bool limited_fifos = true;           // a FIFO holds what NCCL's buffers do; false: any number of chunks
  std::vector<CostParameter> costs{};  // in place of the defaults (sim/collective/costs.h)
  AlgorithmChoice choose = AlgorithmChoice::tuner;
  Bytes fastest_from{0}, fastest_to{kMostChosen};  // fastest: of such sizes; of others the tuner's choice
  std::vector<Correction> corrections{};           // by kind and ascending size
  friend bool operator==(const CollectiveSpec&, const CollectiveSpec&) = default;
};

// "NCCL 2.30", "OpenMPI", "gloo", "TensorFlow's ring".
inline std::string in_words(const CollectiveSpec& spec) {
  constexpr auto kTitles = names<CollectiveLibrary>({{"NCCL", CollectiveLibrary::nccl},
                                                     {"OpenMPI", CollectiveLibrary::mpi},
                                                     {"gloo", CollectiveLibrary::gloo},
                                                     {"TensorFlow's ring", CollectiveLibrary::tensorflow}});
  const std::string title(kTitles[spec.library]);
  return spec.library == CollectiveLibrary::nccl ? title + ' ' + spec.nccl : title;
}

// Who chooses for a collective of so many bytes.
inline AlgorithmChoice who_chooses(const CollectiveSpec& spec, Bytes bytes) {
  const bool inside = spec.fastest_from <= bytes && bytes <= spec.fastest_to;
  return inside ? spec.choose : AlgorithmChoice::tuner;
}

// Traffic of others: an endless flow between two GPUs of the cluster that takes up to `rate`.
struct BackgroundFlow {
  std::int64_t from = 0, to = 0;  // ranks, other jobs' too
  BytesPerSecond rate;
  int nic = 0;  // of both nodes, counted round
  friend bool operator==(const BackgroundFlow&, const BackgroundFlow&) = default;
};

// Another job on the same fabric that reduces all the time: each NIC of each of its nodes sends to the next
// of its nodes, round, at up to `rate`.
struct OtherJob {
  int first_node = 0, nodes = 2;
  BytesPerSecond rate;
  friend bool operator==(const OtherJob&, const OtherJob&) = default;
};

// All that the plans of collectives depend on.
struct ClusterUse {
  ClusterSpec cluster{};
  CollectiveSpec collective{};
  std::vector<BackgroundFlow> background{};
  std::vector<OtherJob> other_jobs{};
  friend bool operator==(const ClusterUse&, const ClusterUse&) = default;
};

}  // namespace paceline
