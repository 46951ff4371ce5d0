// What is trained, and how: the input of build_job. Defaults are PyTorch's unless a line says otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/names.h"
#include "core/random.h"
#include "core/units.h"
#include "kernels/cost_model.h"
#include "sim/collective/spec.h"

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

// A layer's times as the user measured them.
struct ExplicitLayerTime {
  Seconds forward, backward;
};

// While a collective runs on a rank's GPU, its kernels take numerator/denominator times as long.
struct Slowdown {
  std::int64_t numerator = 1, denominator = 1;
};

// How ranks share the work.
using Strategy = std::variant<DdpSpec>;

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

enum class EngineChoice : std::uint8_t { automatic, event, vector };
template <>
inline constexpr auto kNames<EngineChoice> = names<EngineChoice>(
    {{"auto", EngineChoice::automatic}, {"event", EngineChoice::event}, {"vector", EngineChoice::vector}});

inline Strategy strategy_of(const TrainingSpec& training) { return training.ddp; }

struct RunSpec {
  int iterations = 20;  // steady ones; a warm-up iteration precedes them
  std::uint64_t seed = 1;
  EngineChoice engine = EngineChoice::automatic;
};

}  // namespace paceline
