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

enum class Optimizer : std::uint8_t { sgd, adam, adamw, lamb, lars, adam_8bit };
template <>
inline constexpr auto kNames<Optimizer> = names<Optimizer>({{"sgd", Optimizer::sgd},
                                                            {"adam", Optimizer::adam},
                                                            {"adamw", Optimizer::adamw},
                                                            {"lamb", Optimizer::lamb},
                                                            {"lars", Optimizer::lars},
                                                            {"adam_8bit", Optimizer::adam_8bit}});

// How an optimizer's arithmetic is launched: all of it at once, or operation by operation with temporaries between, of
// all tensors together or of each.
enum class OptimizerKernels : std::uint8_t { fused, foreach, for_loop };
template <>
inline constexpr auto kNames<OptimizerKernels> =
    names<OptimizerKernels>({{"fused", OptimizerKernels::fused},
                             {"foreach", OptimizerKernels::foreach},
                             {"for_loop", OptimizerKernels::for_loop}});

// When gradients are reduced, and in which pieces: reduction_rule (sim/strategy/ddp.h) has the rule and source
// of each. `unknown` runs as pytorch_ddp; a prediction's interval then holds after_backward too.
enum class Reduction : std::uint8_t {
  pytorch_ddp,
  apex_ddp,
  apex_ddp_delayed,
  megatron,
  horovod_0_19,
  horovod_0_21,
  mxnet_horovod_group,
  after_backward,
  unknown
};
template <>
inline constexpr auto kNames<Reduction> =
    names<Reduction>({{"pytorch_ddp", Reduction::pytorch_ddp},
                      {"apex_ddp", Reduction::apex_ddp},
                      {"apex_ddp_delayed", Reduction::apex_ddp_delayed},
                      {"megatron", Reduction::megatron},
                      {"horovod_0.19", Reduction::horovod_0_19},
                      {"horovod_0.21", Reduction::horovod_0_21},
                      {"mxnet_horovod_group", Reduction::mxnet_horovod_group},
                      {"after_backward", Reduction::after_backward},
                      {"unknown", Reduction::unknown}});

// Inputs that end at different steps (DistributedDataParallel.join, torch/distributed/algorithms/join.py).
struct JoinSpec {
  std::vector<std::int64_t> batches;  // by rank
  friend bool operator==(const JoinSpec&, const JoinSpec&) = default;
};

// PyTorch DistributedDataParallel (torch/csrc/distributed/c10d/reducer.cpp).
struct DdpSpec {
  Reduction reduction = Reduction::pytorch_ddp;
  std::optional<Bytes> bucket_cap, first_bucket;  // what they are when left out: bucket_limits (ddp.h)
  std::optional<Precision> wire;  // of gradients in all-reduces; left out: that of `gradients`
  bool gradient_as_bucket_view = false;
  bool broadcast_buffers = true;
  bool find_unused_parameters = false;
  bool static_graph = false;
  std::optional<JoinSpec> join{};

  // Whether each step looks for unused parameters.
  bool searches() const { return find_unused_parameters && !static_graph; }
  friend bool operator==(const DdpSpec&, const DdpSpec&) = default;
};

// What FSDP gathers at once: consecutive layers; what is in no unit is the root's.
struct FsdpUnits {
  std::vector<std::int64_t>
      layers;                   // how many each unit has, all of the model's; empty: as the next line says
  std::int64_t parameters = 0;  // each closed when it has as many; 0: the model's blocks
  friend bool operator==(const FsdpUnits&, const FsdpUnits&) = default;
};

// Whether a unit's parameters are freed after its forward pass, and gathered again for its backward pass.
struct ReshardAfterForward {
  bool reshards = true;
  std::int64_t within = 0;  // gathered again from as many ranks; 0: from all that share the parameters
  friend bool operator==(const ReshardAfterForward&, const ReshardAfterForward&) = default;
};

// The ranks that share one copy of the parameters (hybrid sharding: fewer than all).
struct ShardGroup {
  std::int64_t ranks = 0;  // consecutive ones; 0: all
  bool node = false;       // the GPUs of a node
  friend bool operator==(const ShardGroup&, const ShardGroup&) = default;
};

// PyTorch fully_shard (torch/distributed/fsdp/_fully_shard).
struct FsdpSpec {
  FsdpUnits units;
  std::optional<Precision>
      param_precision;  // of units that are gathered; left out: what kernels keep theirs in
  std::optional<Precision> reduce_precision;  // of gradients on the wire; left out: that of `gradients`
  ReshardAfterForward reshard_after_forward;
  ShardGroup shard_group;
  friend bool operator==(const FsdpSpec&, const FsdpSpec&) = default;
};

// Zero Redundancy Optimizer (Rajbhandari et al. 2020). Stage 1: DDP, whose options hold, with a sharded
// optimizer; 2 and 3: FSDP, whose options hold, without and with reshard_after_forward. The other two, of stage 1, are
// Megatron-Core's (megatron/core/distributed/param_and_grad_buffer.py).
struct ZeroSpec {
  int stage = 1;
  bool reduce_scatter = false;  // of each bucket, in place of an all-reduce
  bool overlap_gather = false;  // parameters are gathered bucket by bucket beside the next forward pass
  friend bool operator==(const ZeroSpec&, const ZeroSpec&) = default;
};

// When servers answer (sim/job.h, Serving).
struct Consistency {
  enum class Kind : std::uint8_t { synchronous, asynchronous, stale } kind = Kind::synchronous;
  std::int64_t stale = 0;  // pushes that a worker may be ahead of the slowest
  friend bool operator==(const Consistency&, const Consistency&) = default;
};

enum class ServerPlacement : std::uint8_t {
  own_nodes,    // one on each node behind the job's
  with_workers  // on CPUs of the job's nodes, one after the other
};
template <>
inline constexpr auto kNames<ServerPlacement> = names<ServerPlacement>(
    {{"own_nodes", ServerPlacement::own_nodes}, {"with_workers", ServerPlacement::with_workers}});

struct ServersSpec {
  std::int64_t count = 1;
  ServerPlacement placement = ServerPlacement::own_nodes;
  BytesPerSecond memory_bandwidth{
      76.8e9};  // four channels of DDR4-2400: one socket of a Xeon E5 v4 (ark.intel.com)
  friend bool operator==(const ServersSpec&, const ServersSpec&) = default;
};

// When gradients are pushed and parameters pulled.
enum class ServerOverlap : std::uint8_t {
  none,  // pushed after the backward pass, all that a server keeps in one message; pulled before the forward pass
  by_tensor,  // pushed when they exist; pulled before the layer that needs them
  priority    // likewise; of those that wait, those of front layers first
};
template <>
inline constexpr auto kNames<ServerOverlap> = names<ServerOverlap>({{"none", ServerOverlap::none},
                                                                    {"by_tensor", ServerOverlap::by_tensor},
                                                                    {"priority", ServerOverlap::priority}});

// Who pushes and pulls.
enum class NodeGradients : std::uint8_t {
  each,  // every GPU for itself
  aggregate  // one GPU for its node: copies to it and sums; copies to each GPU of what it pulls (the next tensor's GPU
             // is the next one)
};
template <>
inline constexpr auto kNames<NodeGradients> =
    names<NodeGradients>({{"each", NodeGradients::each}, {"aggregate", NodeGradients::aggregate}});

// Parameter servers. TensorFlow 1 replica_device_setter and SyncReplicasOptimizer, tensorflow/benchmarks
// variable_mgr.py (aggregate: distributed_replicated), BytePS (partitions, priority), Petuum Bosen (stale).
struct ParameterServerSpec {
  ServersSpec servers;
  Consistency consistency;
  std::int64_t backup = 0;  // synchronous: an update takes the gradients of so many workers less than all
  std::optional<Bytes>
      partition;  // gradients are cut into, one after the other to the next server (BytePS: 4,096,000
                  // bytes); left out: whole tensors, each to the server that has least
  ServerOverlap overlap = ServerOverlap::by_tensor;
  NodeGradients node = NodeGradients::each;
  friend bool operator==(const ParameterServerSpec&, const ParameterServerSpec&) = default;
};

// Who carries parameters and gradients between the GPUs of a process.
enum class DataParallelTransfers : std::uint8_t {
  nccl,   // its broadcast and reduce
  copies  // from GPU to GPU, one after the other: a PyTorch without NCCL
};
template <>
inline constexpr auto kNames<DataParallelTransfers> = names<DataParallelTransfers>(
    {{"nccl", DataParallelTransfers::nccl}, {"copies", DataParallelTransfers::copies}});

// torch.nn.DataParallel: one process for all GPUs of a node (torch/nn/parallel).
struct DataParallelSpec {
  DataParallelTransfers transfers = DataParallelTransfers::nccl;
  friend bool operator==(const DataParallelSpec&, const DataParallelSpec&) = default;
};

// Who reduces gradients: tf.distribute's cross_device_ops, and the collective path.
enum class CrossDeviceOps : std::uint8_t {
  nccl,                     // NcclAllReduce, and tf_cnn_benchmarks' `replicated`
  reduction_to_one_device,  // ReductionToOneDevice
  multi_worker,             // CollectiveAllReduce: MultiWorkerMirroredStrategy, a process on each node
  copy_to_devices,          // tf_cnn_benchmarks' `replicated` without NCCL: each gradient to the next GPU
  hierarchical_copy,        // HierarchicalCopyAllReduce: within halves of the GPUs, then between two of them
  nccl_then_ring  // tf_cnn_benchmarks' distributed_all_reduce with nccl/xring: nodes, their first GPUs, nodes
};
template <>
inline constexpr auto kNames<CrossDeviceOps> =
    names<CrossDeviceOps>({{"nccl", CrossDeviceOps::nccl},
                           {"reduction_to_one_device", CrossDeviceOps::reduction_to_one_device},
                           {"multi_worker", CrossDeviceOps::multi_worker},
                           {"copy_to_devices", CrossDeviceOps::copy_to_devices},
                           {"hierarchical_copy", CrossDeviceOps::hierarchical_copy},
                           {"nccl_then_ring", CrossDeviceOps::nccl_then_ring}});

// TensorFlow's MirroredStrategy (tensorflow/python/distribute/cross_device_ops.py).
struct MirroredSpec {
  CrossDeviceOps cross_device_ops = CrossDeviceOps::nccl;
  std::optional<std::int64_t>
      num_packs;  // nccl, hierarchical_copy: all gradients in as many; 0: each by itself; left out: 1
  std::optional<Bytes> bytes_per_pack;  // multi_worker; left out, or 0: one pack
  friend bool operator==(const MirroredSpec&, const MirroredSpec&) = default;
};

// By messages from GPU to GPU alone.
inline bool copies_gradients(const MirroredSpec& spec) {
  return spec.cross_device_ops == CrossDeviceOps::reduction_to_one_device ||
         spec.cross_device_ops == CrossDeviceOps::copy_to_devices ||
         spec.cross_device_ops == CrossDeviceOps::hierarchical_copy;
}

// Horovod (horovod/common/{operations,controller}.cc). Left out: as the version has it.
struct HorovodSpec {
  std::string version = "0.28";           // 0.9 to 0.28
  std::optional<Bytes> fusion_threshold;  // HOROVOD_FUSION_THRESHOLD
  std::optional<Seconds> cycle_time;      // HOROVOD_CYCLE_TIME
  Seconds negotiation{200e-6};            // a host all-reduce of some bytes over TCP
  bool fp16 = false;              // gradients are cast before they are queued, and back after their reduction
  bool async_completion = false;  // HOROVOD_ENABLE_ASYNC_COMPLETION: the host doesn't wait for reductions
  bool hierarchical = false;      // HOROVOD_HIERARCHICAL_ALLREDUCE: NCCL in nodes, MPI across
  bool torus = false;             // HOROVOD_TORUS_ALLREDUCE: NCCL in nodes, NCCL across
  BytesPerSecond memory_bandwidth{76.8e9};  // of a CPU, for hierarchical's copies: as ServersSpec's
  friend bool operator==(const HorovodSpec&, const HorovodSpec&) = default;
};

// Who reduces gradients in every step of local SGD.
enum class LocalGroup : std::uint8_t {
  none,  // nobody
  node   // the GPUs of each node: post-local SGD
};
template <>
inline constexpr auto kNames<LocalGroup> =
    names<LocalGroup>({{"none", LocalGroup::none}, {"node", LocalGroup::node}});

// Parameters are averaged every so many steps (torch/distributed/algorithms/model_averaging/{averagers,utils}.py,
// ddp_comm_hooks/post_localSGD_hook.py).
struct LocalSgdSpec {
  int period = 8;
  std::int64_t warm_up = 0;             // steps of DDP before
  LocalGroup group = LocalGroup::none;  // ddp's options hold for it
  bool copy_back = true;                // false: parameters become views of what was averaged
  friend bool operator==(const LocalSgdSpec&, const LocalSgdSpec&) = default;
};

// The host thread that launches work on its GPU.
struct HostSpec {
  Seconds kernel_launch{5.4e-6};  // superbenchmark, CUDA kernel launch, event time
  Seconds collective_launch{
      15e-6};          // cudaLaunchKernelExC of a NCCL kernel: 10 to 20 us in a PyTorch trace on A100
  int runs_ahead = 1;  // iterations that the host may be ahead of its GPU
  Seconds unused_search{
      0.43e-6};  // of each parameter: PyTorch 1.13 on one core (docs/model.md, "PyTorch DDP")
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

enum class ActivationCheckpointing : std::uint8_t { none, full, selective_op };
template <>
inline constexpr auto kNames<ActivationCheckpointing> =
    names<ActivationCheckpointing>({{"none", ActivationCheckpointing::none},
                                    {"full", ActivationCheckpointing::full},
                                    {"selective_op", ActivationCheckpointing::selective_op}});

// One GPU's rate as it was measured, whole steps of an undisturbed GPU without waiting for input.
struct MeasuredRate {
  SamplesPerSecond rate;
  std::int64_t batch_per_gpu = 0;  // with which it was measured; 0: the training's
  int accumulation = 0;            // likewise
  bool of_tokens = false;          // `rate` counts tokens: until the scenario's model is known
  std::optional<ActivationCheckpointing> activation_checkpointing{};  // with which it was measured, likewise
  int recompute_every = 0;                                            // likewise
  friend bool operator==(const MeasuredRate&, const MeasuredRate&) = default;
};

// While a collective runs on a rank's GPU, its kernels take numerator/denominator times as long.
struct Slowdown {
  std::int64_t numerator = 1, denominator = 1;

  bool slows() const { return numerator != denominator; }
  friend bool operator==(const Slowdown& a, const Slowdown& b) {
    return a.numerator * b.denominator == b.numerator * a.denominator;
  }
};

// How ranks share the work.
using Strategy = std::variant<DdpSpec, FsdpSpec, ZeroSpec, ParameterServerSpec, DataParallelSpec,
                              MirroredSpec, HorovodSpec, LocalSgdSpec>;
// Stage 2 or 3 as FSDP with these options.
inline FsdpSpec fsdp_of(const ZeroSpec& zero, FsdpSpec options) {
  options.reshard_after_forward = {zero.stage == 3};
  return options;
}
enum class StrategyKind : std::uint8_t {
  ddp,
  fsdp,
  zero,
  parameter_server,
  data_parallel,
  mirrored,
  horovod,
  local_sgd
};
template <>
inline constexpr auto kNames<StrategyKind> =
    names<StrategyKind>({{"ddp", StrategyKind::ddp},
                         {"fsdp", StrategyKind::fsdp},
                         {"zero", StrategyKind::zero},
                         {"parameter_server", StrategyKind::parameter_server},
                         {"data_parallel", StrategyKind::data_parallel},
                         {"mirrored", StrategyKind::mirrored},
                         {"horovod", StrategyKind::horovod},
                         {"local_sgd", StrategyKind::local_sgd}});

// DDP's communication hook (sim/strategy/compression.h).
enum class CompressionKind : std::uint8_t {
  none,
  fp16,
  bf16,
  quantize_tensor,
  quantize_channel,
  qsgd,
  sign,
  top_k,
  powersgd
};
template <>
inline constexpr auto kNames<CompressionKind> =
    names<CompressionKind>({{"none", CompressionKind::none},
                            {"fp16", CompressionKind::fp16},
                            {"bf16", CompressionKind::bf16},
                            {"quantize_tensor", CompressionKind::quantize_tensor},
                            {"quantize_channel", CompressionKind::quantize_channel},
                            {"qsgd", CompressionKind::qsgd},
                            {"sign", CompressionKind::sign},
                            {"top_k", CompressionKind::top_k},
                            {"powersgd", CompressionKind::powersgd}});

enum class HookWrapper : std::uint8_t { fp16, bf16 };
template <>
inline constexpr auto kNames<HookWrapper> =
    names<HookWrapper>({{"fp16", HookWrapper::fp16}, {"bf16", HookWrapper::bf16}});

struct CompressionSpec {
  CompressionKind kind = CompressionKind::none;
  double share = 0.01;        // top_k: of the elements
  std::int64_t rank = 1;      // powersgd: matrix_approximation_rank; likewise:
  std::int64_t start = 1000;  // start_powerSGD_iter
  double min_rate = 2;        // min_compression_rate
  bool error_feedback = true;
  bool synchronize = true;  // the host waits for the GPU at the end of each bucket, as PyTorch's does
  std::optional<HookWrapper> wrapper{};  // fp16_compress_wrapper
};

// Batches that follow the GPUs' speeds.
struct BalanceSpec {
  int window = 10;  // steps between two settings, over which speeds are measured
  Bytes limit{};    // of a GPU's memory; 0: what it has
};

struct TrainingSpec {
  std::int64_t batch_per_gpu = 32;    // samples of one forward pass
  std::vector<std::int64_t> batches;  // by rank, which together are as many; empty: all alike
  std::optional<BalanceSpec> balance;
  int accumulation = 1;           // forward and backward passes per optimizer step
  std::optional<bool> no_sync{};  // all of them but the last, where the strategy can (reduces_each_pass)
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::none;  // of each unit
  int recompute_every = 1;  // with full: of so many units the last; the others keep their activations
  Precision precision = Precision::fp32;   // of the kernels
  Precision gradients = Precision::fp32;   // of gradients in memory and on the wire
  Precision parameters = Precision::fp32;  // of parameters and of the optimizer's state in memory
  Optimizer optimizer = Optimizer::sgd;
  OptimizerKernels optimizer_kernels = OptimizerKernels::fused;
  bool clip_norm = false;  // gradients are clipped by their norm before the update
  RooflineSpec roofline;
  std::vector<MeasuredRate> measured;  // per-layer times are scaled to reach them exactly; none: as priced
  std::vector<ExplicitLayerTime> layer_times;  // one per layer of the model; replaces the roofline
  Slowdown slowdown_while_communicating;       // 1/1 unless measured: one A100 trace shows 1.21
  std::string pytorch = "2.15";                // whose rules hold: 1.13, 2.0 to 2.15
  StrategyKind strategy = StrategyKind::ddp;   // the options of the others may stand beside
  CompressionSpec compression;
  DdpSpec ddp;
  FsdpSpec fsdp;
  ZeroSpec zero;
  ParameterServerSpec parameter_server;
  DataParallelSpec data_parallel;
  MirroredSpec mirrored;
  HorovodSpec horovod;
  LocalSgdSpec local_sgd;
  HostSpec host;
  std::optional<InputSpec> input;
  CollectiveSpec collective;
};

// GPUs that are always slow: their kernels take `factor` times as long.
struct SlowGpus {
  std::vector<std::int64_t> ranks;  // by name, or
  std::optional<double> fraction;   // each GPU with this probability
  double factor = 1;
};

// In each iteration, each GPU falls ill with `probability` and is slow by `factor` for `length` iterations.
struct TransientSlowdown {
  double probability = 0;
  int length = 1;
  double factor = 1;
};

// What a step of several GPUs loses beside communication, the same for all of them: a time (hooks, the host,
// clocks that fall), and waiting for the slowest, which grows with the logarithm of the GPUs; over the passes of
// an accumulated step it averages. Fitted by calibrate/fit/training_fit.h.
struct DelaySpec {
  Seconds per_step;
  double per_doubling = 0;  // of the layers' time, for each doubling of the GPUs
  friend bool operator==(const DelaySpec&, const DelaySpec&) = default;
};

// What published runs lose, where nothing is known of a machine's: fitted with equal weight to each submitter
// and precision of the tables in scenarios/validation/training (docs/accuracy.md).
inline constexpr DelaySpec kTypicalDelays{Seconds(1.4e-3), 0.016};

struct VariabilitySpec {
  Distribution per_operation;  // of every kernel
  Distribution per_iteration;  // of all kernels of a rank in an iteration
  Distribution per_step;       // of all kernels of all ranks in an iteration: one draw
  std::vector<SlowGpus> slow_gpus;
  std::vector<TransientSlowdown> transient;
  std::vector<std::int64_t> spared_gpus;  // ranks that neither slow_gpus nor transient touch
  std::uint32_t first_iteration = 0;      // whose draws the first iteration has: of a run that goes on
  std::optional<DelaySpec> delays;        // left out: none, and a profile may say them
};

enum class EngineChoice : std::uint8_t { automatic, event, vector };
template <>
inline constexpr auto kNames<EngineChoice> = names<EngineChoice>(
    {{"auto", EngineChoice::automatic}, {"event", EngineChoice::event}, {"vector", EngineChoice::vector}});

inline Strategy strategy_of(const TrainingSpec& training) {
  switch (training.strategy) {
    case StrategyKind::fsdp:
      return training.fsdp;
    case StrategyKind::zero:
      return training.zero;
    case StrategyKind::parameter_server:
      return training.parameter_server;
    case StrategyKind::data_parallel:
      return training.data_parallel;
    case StrategyKind::mirrored:
      return training.mirrored;
    case StrategyKind::horovod:
      return training.horovod;
    case StrategyKind::local_sgd:
      return training.local_sgd;
    case StrategyKind::ddp:
      break;
  }
  return training.ddp;
}

// FSDP, and ZeRO's stages that are: the others are DDP.
inline bool fully_shards(const TrainingSpec& training) {
  return training.strategy == StrategyKind::fsdp ||
         (training.strategy == StrategyKind::zero && training.zero.stage > 1);
}

// Whether forward runs again, all of it or a part, unit by unit, before backward.
inline bool recomputes(const TrainingSpec& training) {
  return training.activation_checkpointing != ActivationCheckpointing::none;
}

// Whether passes of accumulation reduce their gradients, each of them: of DDP as PyTorch has it, and of units. Where
// nothing is said ZeRO's do: DeepSpeed's stages 2 and 3 refuse no_sync (runtime/engine.py).
inline bool reduces_each_pass(const TrainingSpec& training) {
  const bool can = fully_shards(training) || (training.strategy == StrategyKind::ddp &&
                                              training.ddp.reduction == Reduction::pytorch_ddp);
  const bool no_sync = training.no_sync.value_or(training.strategy != StrategyKind::zero);
  return can && !no_sync && training.accumulation > 1;
}

// The same rate, for a training with other checkpointing. One that says of how many blocks one was recomputed was
// measured with some.
inline void pin_checkpointing(MeasuredRate& rate, const TrainingSpec& training) {
  using enum ActivationCheckpointing;
  rate.activation_checkpointing = rate.activation_checkpointing.value_or(
      rate.recompute_every > 1 ? full : training.activation_checkpointing);
  rate.recompute_every = rate.activation_checkpointing != full ? 1
                         : rate.recompute_every > 0            ? rate.recompute_every
                                                               : training.recompute_every;
}

// The same rates, for a training with another batch, accumulation or checkpointing.
inline std::vector<MeasuredRate> pinned_rates(const TrainingSpec& training) {
  std::vector<MeasuredRate> rates = training.measured;
  for (MeasuredRate& rate : rates) {
    rate.batch_per_gpu = rate.batch_per_gpu > 0 ? rate.batch_per_gpu : training.batch_per_gpu;
    rate.accumulation = rate.accumulation > 0 ? rate.accumulation : training.accumulation;
    pin_checkpointing(rate, training);
  }
  return rates;
}

// Of gradients in collectives.
inline Precision gradients_on_the_wire(const TrainingSpec& training) {
  return fully_shards(training) ? training.fsdp.reduce_precision.value_or(training.gradients)
                                : training.gradients;
}

struct RunSpec {
  int iterations = 20;  // steady ones; a warm-up iteration precedes them
  std::uint64_t seed = 1;
  EngineChoice engine = EngineChoice::automatic;
};

}  // namespace paceline
