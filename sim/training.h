// What is trained, and how: the input of build_job. Defaults are PyTorch's unless a line says otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/names.h"
#include "core/random.h"
#include "core/units.h"
#include "kernels/cost_model.h"
#include "sim/collective/plan.h"
#include "topology/topology.h"

namespace paceline {

enum class Optimizer : std::uint8_t { sgd, adam };
template <>
inline constexpr auto kNames<Optimizer> =
    names<Optimizer>({{"sgd", Optimizer::sgd}, {"adam", Optimizer::adam}});

// PyTorch DistributedDataParallel (torch/csrc/distributed/c10d/reducer.cpp).
struct DdpSpec {
  std::optional<Bytes> bucket_cap, first_bucket;  // what they are when left out: bucket_limits (ddp.h)
  bool gradient_as_bucket_view = false;
  bool broadcast_buffers = true;
  bool find_unused_parameters = false;
};

// A value of a cost parameter by name: "ring.simple.network.latency" in s, "network.efficiency" as a ratio.
struct CostParameter {
  std::string name;
  double value = 0;
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

// The host thread that launches work on its GPU.
struct HostSpec {
  Seconds kernel_launch{5.4e-6};  // superbenchmark, CUDA kernel launch, event time
  Seconds collective_launch{
      15e-6};          // cudaLaunchKernelExC of a NCCL kernel: 10 to 20 us in a PyTorch trace on A100
  int runs_ahead = 1;  // iterations that the host may be ahead of its GPU
};

// Batches that each rank's data loader can make; absent: input is never the bottleneck.
struct InputSpec {
  SamplesPerSecond rate;  // of one rank's loader
  int prefetch = 2;       // batches that may wait for the GPU (DataLoader's prefetch_factor)
  Distribution jitter;    // of the time for a batch
};

// Whose algorithms run collectives. mpi: OpenMPI's ring over TCP (sim/collective/mpi.h).
enum class CollectiveLibrary : std::uint8_t { nccl, mpi };
template <>
inline constexpr auto kNames<CollectiveLibrary> =
    names<CollectiveLibrary>({{"nccl", CollectiveLibrary::nccl}, {"mpi", CollectiveLibrary::mpi}});

// How NCCL runs collectives. The names in capitals are NCCL's environment variables.
struct CollectiveSpec {
  CollectiveLibrary library = CollectiveLibrary::nccl;  // mpi: of the rest, only the costs count
  std::string nccl = "2.30";                            // 2.12 to 2.30: tuner and graph search
  std::string algorithm;  // NCCL_ALGO: "ring", "^nvls" ...; or "hierarchical"; empty: the tuner chooses
  std::string protocol;   // NCCL_PROTO
  int min_channels = 0, max_channels = 0;  // NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS; 0: NCCL's
  int cross_nic = 2;                       // NCCL_CROSS_NIC
  bool pxn = true;                         // NCCL_PXN_DISABLE=0
  bool nvls = true;                        // NCCL_NVLS_ENABLE
  bool limited_fifos = true;               // a FIFO holds what NCCL's buffers do; false: any number of chunks
  std::vector<CostParameter> costs;        // in place of the defaults (sim/collective/costs.h)
  AlgorithmChoice choose = AlgorithmChoice::tuner;
  std::vector<Correction> corrections;  // by kind and ascending size
};

// A layer's times as the user measured them.
struct ExplicitLayerTime {
  Seconds forward, backward;
};

// While a collective runs on a rank's GPU, its kernels take numerator/denominator times as long.
struct Slowdown {
  std::int64_t numerator = 1, denominator = 1;
};

struct TrainingSpec {
  std::int64_t batch_per_gpu = 32;  // samples of one forward pass
  int accumulation = 1;  // forward and backward passes per optimizer step (all but the last under no_sync)
  Precision precision = Precision::fp32;   // of the kernels
  Precision gradients = Precision::fp32;   // of gradients in memory and on the wire
  Precision parameters = Precision::fp32;  // of parameters and of the optimizer's state in memory
  Optimizer optimizer = Optimizer::sgd;
  RooflineSpec roofline;
  std::optional<SamplesPerSecond> measured;  // one GPU's rate: per-layer times are scaled to reach it exactly
  std::int64_t measured_batch = 0;           // the batch_per_gpu of `measured`; 0: this one
  std::vector<ExplicitLayerTime> layer_times;  // one per layer of the model; replaces the roofline
  Slowdown slowdown_while_communicating;       // 1/1 unless measured: one A100 trace shows 1.21
  std::string pytorch = "2.15";                // whose rules hold: 2.0 to 2.15
  DdpSpec ddp;
  HostSpec host;
  std::optional<InputSpec> input;
  CollectiveSpec collective;
};

// GPUs that are always slow: their kernels take `factor` times as long.
struct SlowGpus {
  std::vector<std::int64_t> ranks;  // by name, or
  double fraction = 0;              // each GPU with this probability
  double factor = 1;
};

// In each iteration, each GPU falls ill with `probability` and is slow by `factor` for `length` iterations.
struct TransientSlowdown {
  double probability = 0;
  int length = 1;
  double factor = 1;
};

struct VariabilitySpec {
  Distribution per_operation;  // of every kernel
  Distribution per_iteration;  // of all kernels of a rank in an iteration
  std::vector<SlowGpus> slow_gpus;
  std::vector<TransientSlowdown> transient;
  std::vector<std::int64_t> spared_gpus;  // ranks that neither slow_gpus nor transient touch
};

// Traffic of others: an endless flow between two GPUs of the cluster that takes up to `rate`.
struct BackgroundFlow {
  std::int64_t from = 0, to = 0;  // ranks, other jobs' too
  BytesPerSecond rate;
  int nic = 0;  // of both nodes, counted round
};

// Another job on the same fabric that reduces all the time: each NIC of each of its nodes sends to the next
// of its nodes, round, at up to `rate`.
struct OtherJob {
  int first_node = 0, nodes = 2;
  BytesPerSecond rate;
};

enum class EngineChoice : std::uint8_t { automatic, event, vector };
template <>
inline constexpr auto kNames<EngineChoice> = names<EngineChoice>(
    {{"auto", EngineChoice::automatic}, {"event", EngineChoice::event}, {"vector", EngineChoice::vector}});

struct RunSpec {
  int iterations = 20;  // steady ones; a warm-up iteration precedes them
  std::uint64_t seed = 1;
  EngineChoice engine = EngineChoice::automatic;
};

}  // namespace paceline
