// What "training" of a scenario may say; see description.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/names.h"
#include "core/random.h"
#include "kernels/cost_model.h"
#include "scenarios/json.h"
#include "scenarios/limits.h"
#include "scenarios/quantities.h"
#include "sim/collective/spec.h"
#include "sim/training.h"

namespace paceline {

struct Spot;

// What a cost parameter may be, by its name.
struct CostForm {
  const Dimension* dimension;  // nullptr: a ratio
  const Limits& limits;
};
CostForm form_of_cost(std::string_view name);
double read_cost(const Json&, std::string_view name, const Spot&);
Json cost_json(std::string_view name, double value);

// What the keys mean together: fills in what follows, throws InputError where they clash.
void settle_pytorch(TrainingSpec&, const Spot&);  // before what the file says of collectives
void require_ascending(const std::vector<Correction>&, const Spot&);
void require_channels(const CollectiveSpec&, const Spot&);
// A rate for each batch; layer_times hold for one (measured_rates.cpp).
void require_distinct_batches(const TrainingSpec&, const Spot&);

template <class V>
void describe(V& v, Distribution& s) {
  const bool preset = v.preset(s,
                               "A spread of step times that was measured, over its mean (derived from MLPerf "
                               "v0.7 logs of BERT on DGX A100, not verified by MLCommons).");
  v.key("distribution", s.kind, any(), "The shape; every distribution has mean 1.", required_unless(preset));
  const bool values = s.kind == DistributionKind::empirical;
  const bool cv = !values && s.kind != DistributionKind::none;
  const std::string kind = "the distribution is " + std::string(name_of(s.kind));
  const double most = s.kind == DistributionKind::normal        ? 0.5
                      : s.kind == DistributionKind::exponential ? 1
                                                                : 3;
  v.key(
      "cv", s.cv, between(0, most),
      "Coefficient of variation, standard deviation over mean: at most 0.5 for normal (cut at 0, so that its "
      "mean is 1.004 there), 1 for exponential, 3 for lognormal and gamma.",
      cv || v.lists_all() ? required_unless(v.lists_all()) : absent(kind));
  v.key("values", s.values, between(1e-6, 1e6).length(1, 1'000'000),
        "Observed times or factors, drawn with equal probability; divided by their mean.",
        values || v.lists_all() ? required_unless(preset || v.lists_all()) : absent(kind));
}

template <class V>
void describe(V& v, RooflineSpec& s) {
  v.key("compute_efficiency", s.compute_efficiency, above(0, 1),
        "Share of its peak that a large kernel reaches; left out: the GPU's `product_efficiency`.");
  v.key("half_work", s.half_work, between(0, 1),
        "Work at which a kernel reaches half of that, as its time at peak: smaller kernels leave the GPU "
        "idle.");
  v.key("memory_efficiency", s.memory_efficiency, above(0, 1),
        "Share of its memory bandwidth that a kernel reaches.");
  v.key("memory_start", s.memory_start, between(0, 1),
        "What a kernel that memory bounds takes beside its bytes: until all of it runs, and until its last "
        "part has ended.");
  v.key("quantise_efficiency", s.quantise_efficiency, above(0, 1),
        "Of the memory's bandwidth, of kernels that quantise; left out: memory_efficiency.");
  v.key("dequantise_efficiency", s.dequantise_efficiency, above(0, 1),
        "The same of kernels that unpack and add; left out: memory_efficiency.");
  v.key("top_k_efficiency", s.top_k_efficiency, above(0, 1),
        "The same of selection, for a pass over the values.");
  v.key("conv_efficiency", s.conv_efficiency, above(0, 1),
        "Share of the peak that large convolutions reach where it is more than four times fp32's, if other "
        "kernels "
        "reach as much; elsewhere as other kernels, at most 0.9.");
  v.key("kernels", s.kernels, any(),
        "compiled: what surrounds products and norms is fused, as by torch.compile, XLA, or Megatron's "
        "kernels; eager: each operation is a kernel, as in PyTorch under autocast.");
  v.key("memory_format", s.memory_format, any(),
        "How images lie in memory. PyTorch's default is channels_first, in which tensor cores of more than "
        "four times fp32's peak have convolutions' inputs and outputs transposed.");
  v.key("attention_passes", s.attention_passes, between(0, 1000),
        "What attention takes beside its products, forward, as passes over its output.");
  v.key("norm_passes", s.norm_passes, between(0, 100),
        "How often a batch norm's output crosses memory forward, with the elementwise work around it; left "
        "out: 5, of eager kernels in bf16 9.");
  v.key("layer_norm_passes", s.layer_norm_passes, between(0, 1000),
        "The same of a layer norm or RMSNorm; left out: 20, of eager kernels 45.");
}

template <class V>
void describe(V& v, ExplicitLayerTime& s) {
  v.key("forward", s.forward, kDuration, "Its forward pass of a whole batch.", required());
  v.key("backward", s.backward, kDuration, "Its backward pass of a whole batch.", required());
}

template <class V>
void describe(V& v, JoinSpec& s) {
  v.key(
      "batches", s.batches, between(1, 100'000).length(1, 1'000'000),
      "How many batches each GPU has: one that has finished adds zeros to the others' reductions. The run is "
      "as long as the longest has batches.",
      required());
}

template <class V>
void describe(V& v, DdpSpec& s) {
  v.key("reduction", s.reduction, any(),
        "Whose rule says when gradients are reduced, and in which pieces: overlapped with backward "
        "(pytorch_ddp, apex_ddp, megatron) or when it has ended (apex_ddp_delayed, horovod_0.19, "
        "horovod_0.21, mxnet_horovod_group, after_backward). Horovod's background thread, which reduces "
        "while backward runs, is the strategy horovod. unknown: as pytorch_ddp, and the interval of a "
        "profile holds after_backward too.");
  v.key("bucket_cap", s.bucket_cap, kSize,
        "DDP's bucket_cap_mb, Apex's message_size, Horovod's fusion threshold: a gradient bucket is closed "
        "when it holds as much; left out: the reduction's, 25 MiB for pytorch_ddp.");
  v.key("wire", s.wire, any(),
        "Number format of gradients in all-reduces, where it isn't that of `gradients` (a compression hook "
        "that casts).");
  v.key("first_bucket", s.first_bucket, kSize,
        "The same for the first bucket; left out: 1 MiB, or, where bucket_cap is given and PyTorch is 2.4 or "
        "newer, bucket_cap.");
  v.key("gradient_as_bucket_view", s.gradient_as_bucket_view, any(),
        "Gradients live in the buckets: no copies.");
  v.key("broadcast_buffers", s.broadcast_buffers, any(),
        "Rank 0 sends its buffers (batch norm's statistics) before each forward pass.");
  v.key("find_unused_parameters", s.find_unused_parameters, any(),
        "Search for unused parameters before backward.");
  v.key("static_graph", s.static_graph, any(),
        "The graph stays as it is: the first step reduces when backward has ended, and none searches.");
  v.key("join", s.join, any(), "Inputs that end at different steps; left out: all end together.");
}

template <class V>
void describe(V& v, FsdpSpec& s) {
  v.key(
      "units", s.units, any(),
      "What is gathered at once. \"blocks\": consecutive layers whose names agree up to their first number, "
      "such as layers.7; layers in none are the root's, which is gathered first and kept.");
  v.key("param_precision", s.param_precision, any(),
        "Number format of gathered parameters (param_dtype); left out: that of `precision`, with fp8 16 "
        "bits. fp8: of "
        "the blocks' products alone (torchao's enable_fsdp_float8_all_gather).");
  v.key("reduce_precision", s.reduce_precision, any(),
        "Number format of gradients in the reduce-scatter (reduce_dtype); left out: that of `gradients`.");
  v.key("reshard_after_forward", s.reshard_after_forward, any(),
        "Free a unit's parameters after its forward pass, and gather them again for its backward pass; a "
        "number: from that many ranks, which divides the shard group (1: false).");
  v.key("shard_group", s.shard_group, any(),
        "Hybrid sharding: which ranks share one copy of the parameters, while gradients are all-reduced "
        "across such groups; left out: all.");
}

template <class V>
void describe(V& v, ZeroSpec& s) {
  v.key(
      "stage", s.stage, between(1, 3),
      "What is sharded: 1: the optimizer's state, with ddp's options; 2: gradients too, with fsdp's options, "
      "reshard_after_forward false; 3: parameters too, reshard_after_forward true.");
  v.key("reduce_scatter", s.reduce_scatter, any(),
        "Stage 1: buckets are reduce-scattered instead of all-reduced: a GPU gets the sums of what its "
        "optimizer updates, for half the bytes (Megatron-Core's use_distributed_optimizer, with ddp's "
        "reduction megatron).");
  v.key("overlap_gather", s.overlap_gather, any(),
        "Stage 1: updated parameters are gathered bucket by bucket beside the next forward pass, instead of "
        "all before it (Megatron-Core's overlap_param_gather).");
}

template <class V>
void describe(V& v, BalanceSpec& s) {
  v.key("window", s.window, between(1, 1e6), "Steps over which speeds are measured.");
  v.key("limit", s.limit, between(0, kMostBytes).absent_at_zero(),
        "Memory that a GPU's batch may need; left out: what the GPU has.");
}

template <class V>
void describe(V& v, ServersSpec& s) {
  v.key("count", s.count, between(1, 10'000), "How many there are.");
  v.key(
      "placement", s.placement, any(),
      "own_nodes: each on a node of its own, like the cluster's, behind all others; with_workers: on CPUs of "
      "the job's nodes, one node after the other.");
  v.key("memory_bandwidth", s.memory_bandwidth, kBandwidth,
        "Of a server's host: what summing gradients and updating parameters read and write goes by it. "
        "Default: four channels of DDR4-2400, one socket.");
}

template <class V>
void describe(V& v, ParameterServerSpec& s) {
  v.key("servers", s.servers, any(), "The servers, and where they stand.");
  v.key(
      "consistency", s.consistency, any(),
      "When a worker is answered. sync: when the gradients of all workers are in the update; async: when its "
      "own are; {\"stale\": s}: when its own are, and no worker has pushed more than s times less often.");
  v.key("backup", s.backup, between(0, kMostRanks),
        "With sync: an update takes the first gradients, of so many workers less than all; later ones of the "
        "same step are dropped.");
  v.key("partition", s.partition, kSize,
        "Gradients are cut into partitions of at most this size, each for the next server (BytePS: \"4.096 "
        "MB\"); left out: whole tensors, each for the server that has least.");
  v.key("overlap", s.overlap, any(),
        "none: push after the backward pass, pull before the forward pass; by_tensor: push when a gradient "
        "exists, pull before the layer that needs it; priority: likewise, and of what waits, front layers "
        "first.");
  v.key("node", s.node, any(),
        "each: every GPU pushes and pulls for itself (tf_cnn_benchmarks' parameter_server on one node, with "
        "one server with_workers); aggregate: gradients of a node are summed on one of its GPUs (each tensor "
        "on the next), which pushes, pulls and copies for all (its distributed_replicated).");
}

template <class V>
void describe(V& v, DataParallelSpec& s) {
  v.key("transfers", s.transfers, any(),
        "How parameters get to the other GPUs before each forward pass, and gradients back: with nccl's "
        "broadcast and reduce, or copies from GPU to GPU, one after the other (a PyTorch without NCCL).");
}

template <class V>
void describe(V& v, MirroredSpec& s) {
  v.key("cross_device_ops", s.cross_device_ops, any(),
        "Who reduces gradients. nccl: NcclAllReduce, when the last gradient exists (tf_cnn_benchmarks' "
        "replicated with NCCL: num_packs 0); reduction_to_one_device: copies to the first GPU, which sums "
        "and copies to all; copy_to_devices: likewise, each gradient to the next GPU (tf_cnn_benchmarks' "
        "replicated without NCCL); hierarchical_copy: HierarchicalCopyAllReduce, within halves of the GPUs "
        "and between two of them; multi_worker: MultiWorkerMirroredStrategy's packs, each when its last "
        "gradient exists; nccl_then_ring: tf_cnn_benchmarks' distributed_all_reduce with nccl/xring, each "
        "gradient in the nodes, in a ring of their first GPUs, and back.");
  v.key("num_packs", s.num_packs, between(0, 10'000),
        "Of nccl and hierarchical_copy: all gradients are joined and cut into as many equal packs; 0: each "
        "gradient is reduced by itself, when it exists; left out: 1.");
  v.key("bytes_per_pack", s.bytes_per_pack, between(0, kMostBytes),
        "Of multi_worker: a pack is closed when it holds more; left out, or 0: one pack.");
}

template <class V>
void describe(V& v, HorovodSpec& s) {
  v.key("version", s.version, text(20),
        "The Horovod whose rules hold: \"0.9\" to \"0.28\". Up to 0.20 the threshold is 64 MiB and the cycle "
        "5 ms, from 0.21 on 128 MiB and 1 ms; up to 0.22 the background thread waits until gradients exist.");
  v.key("fusion_threshold", s.fusion_threshold, between(0, kMostBytes),
        "HOROVOD_FUSION_THRESHOLD: tensors that are queued are reduced together up to this size; 0: each "
        "alone. Left out: as the version has it.");
  v.key("cycle_time", s.cycle_time, between(0, 100),
        "HOROVOD_CYCLE_TIME: how often ranks agree on what is queued everywhere. Left out: as the version "
        "has it.");
  v.key("negotiation", s.negotiation, between(1e-6, 10),
        "What agreeing takes, beyond the wait for the last rank: an all-reduce of some bytes among hosts.");
  v.key("fp16", s.fp16, any(),
        "Compression.fp16: gradients are cast before they are queued, and back afterwards.");
  v.key("async_completion", s.async_completion, any(),
        "HOROVOD_ENABLE_ASYNC_COMPLETION: the host goes on to the optimizer, and its stream alone waits.");
  v.key(
      "hierarchical", s.hierarchical, any(),
      "HOROVOD_HIERARCHICAL_ALLREDUCE, since 0.15: NCCL reduces and scatters in each node, MPI reduces "
      "between hosts what is copied there, NCCL gathers in each node; the background thread waits for MPI.");
  v.key("torus", s.torus, any(),
        "HOROVOD_TORUS_ALLREDUCE, since 0.26: likewise, but NCCL reduces between nodes, and nothing is "
        "copied to hosts.");
  v.key("memory_bandwidth", s.memory_bandwidth, between(1e6, 1e15),
        "Of a CPU's memory, which hierarchical's copies between GPUs and host share.");
}

template <class V>
void describe(V& v, LocalSgdSpec& s) {
  v.key("period", s.period, between(1, 100'000),
        "Parameters are averaged over all GPUs after every so many steps; a run's steps are rounded up to "
        "whole periods.");
  v.key("warm_up", s.warm_up, between(0, 1e12),
        "Steps of DDP before them: a run's warm-up, which doesn't count, is then DDP's first step.");
  v.key("group", s.group, any(),
        "node: the GPUs of each node all-reduce their gradients in every step, in buckets as ddp says "
        "(post-local SGD); none: a step between two averages exchanges nothing.");
  v.key("copy_back", s.copy_back, any(),
        "Averaged parameters are copied to where they were; false: they become views of the buffer that was "
        "averaged, as PyTorch leaves them.");
}

template <class V>
void describe(V& v, HostSpec& s) {
  v.key("kernel_launch", s.kernel_launch, between(0, 10), "Time of the host to launch a kernel.");
  v.key("collective_launch", s.collective_launch, between(0, 10), "Time of the host to launch a collective.");
  v.key("runs_ahead", s.runs_ahead, between(0, 1000), "Steps that the host may be ahead of its GPU.");
  v.key("unused_search", s.unused_search, between(0, 10),
        "Time of the host to look for a parameter in the autograd graph, with find_unused_parameters.");
}

template <class V>
void describe(V& v, InputSpec& s) {
  v.key("rate", s.rate, kSampleRate,
        "Samples that the data loader of one process makes per second: of one GPU, with data_parallel of "
        "all.",
        required());
  v.key("prefetch", s.prefetch, between(1, 10'000), "Batches that may wait for the GPU.");
  v.key("jitter", s.jitter, any(), "Variation of the time that the loader takes for a batch.");
}

template <class V>
void describe(V& v, Correction& s) {
  v.key("collective", s.kind, any(), "Which collective.", required());
  v.key("bytes", s.bytes, kSize, "Its size, as nccl-tests counts it.", required());
  v.key("factor", s.factor, above(0, 1000), "What its time is multiplied by.", required());
}

template <class V>
void describe(V& v, CollectiveSpec& s) {
  v.key("library", s.library, any(),
        "nccl; mpi: OpenMPI's ring over TCP; gloo: as PyTorch's process groups run it over TCP; tensorflow: "
        "MultiWorkerMirroredStrategy's CommunicationImplementation.RING. For the last three only `costs` "
        "counts of these keys.");
  v.key(
      "nccl", s.nccl, text(20),
      "The NCCL whose tuner and graph search decide: \"2.12\" to \"2.30\"; left out in training: PyTorch's.");
  v.key("algorithm", s.algorithm, text(200, 0),
        "NCCL_ALGO: \"ring\", \"^nvls,nvlstree\", \"allreduce:tree\" ...; or \"hierarchical\"; left out: the "
        "tuner chooses.");
  v.key("protocol", s.protocol, text(200, 0),
        "NCCL_PROTO: \"simple\", \"^ll128\" ...; left out: the tuner chooses.");
  v.key("min_channels", s.min_channels, between(1, 64).absent_at_zero(),
        "NCCL_MIN_NCHANNELS, of rings and trees; left out: NCCL's.");
  v.key("max_channels", s.max_channels, between(1, 64).absent_at_zero(),
        "NCCL_MAX_NCHANNELS, of NVLS too, as NCCL_MAX_CTAS; left out: NCCL's.");
  v.key("cross_nic", s.cross_nic, between(0, 2),
        "NCCL_CROSS_NIC: 0: rings keep to their rail; 1: they may leave it; 2: NCCL decides.");
  v.key("pxn", s.pxn, any(), "Reach a NIC through a GPU that is nearer to it (NCCL_PXN_DISABLE=0).");
  v.key(
      "socket_threads", s.socket_threads, between(0, 16),
      "NCCL_SOCKET_NTHREADS: threads that send, and as many that receive, what a channel carries over TCP "
      "sockets; 0: the GPU's one proxy thread does it for all its channels, as in NCCL but on EC2 (2, with 8 "
      "sockets each) and in Google's cloud (4).");
  v.key("sockets_per_thread", s.sockets_per_thread, between(1, 64),
        "NCCL_NSOCKS_PERTHREAD: TCP sockets of each of them.");
  v.key("nvls", s.nvls, any(), "Use NVLink SHARP where there is (NCCL_NVLS_ENABLE).");
  v.key("buffer", s.sizes.buffer, between(64e3, 1e9).absent_at_zero(),
        "NCCL_BUFFSIZE; left out, here and below: what the network's plugin sets, else NCCL's.");
  v.key("nvls_chunk", s.sizes.nvls_chunk, between(16e3, 64e6).absent_at_zero(), "NCCL_NVLS_CHUNKSIZE.");
  v.key("nvls_tree_chunk", s.sizes.nvls_tree_chunk, between(16e3, 64e6).absent_at_zero(),
        "NCCL_NVLSTREE_MAX_CHUNKSIZE.");
  v.key("peer_chunk", s.sizes.peer_chunk, between(4e3, 64e6).absent_at_zero(), "NCCL_P2P_NET_CHUNKSIZE.");
  v.key("limited_fifos", s.limited_fifos, any(),
        "A sender waits for its receiver when NCCL's buffer between them is full; false: buffers never "
        "fill.");
  v.key("costs", s.costs, any(),
        "Values of cost parameters by name; the others keep their defaults, which follow GPU, CPU and "
        "network. No other than that of a profile that is fitted to it.");
  v.key("choose", s.choose, any(),
        "Who chooses algorithm and protocol: NCCL's tuner, or a choice that is always the fastest.");
  v.key("fastest_from", s.fastest_from, between(0, kMostChosen),
        "With fastest: of collectives of so many bytes on; the tuner chooses for smaller ones.");
  v.key("fastest_to", s.fastest_to, between(0, kMostChosen), "Likewise: up to so many bytes.");
  v.key("corrections", s.corrections, list(0, 10'000),
        "Factors on the times of collectives by kind and ascending size, log-linear between the sizes: what "
        "a profile has beyond costs.");
  v.settle([&](const Spot& spot) { require_ascending(s.corrections, spot); });
}

template <class V>
void describe(V& v, MeasuredRate& s) {
  v.key("rate", s.rate, kSampleRate, "Samples of one GPU per second, or \"tokens/s\".", required());
  v.key("batch_per_gpu", s.batch_per_gpu, between(1, 1'000'000).absent_at_zero(),
        "The batch_per_gpu that it was measured with; left out: the training's.");
  v.key("accumulation", s.accumulation, between(1, kMostPasses).absent_at_zero(),
        "The accumulation that it was measured with; left out: the training's.");
  v.key("activation_checkpointing", s.activation_checkpointing, any(),
        "With which activation checkpointing it was measured; left out: the training's.");
  v.key("recompute_every", s.recompute_every, between(1, 1000).absent_at_zero(),
        "The recompute_every that it was measured with; left out: the training's.");
}

template <class V>
void describe(V& v, TrainingSpec& s) {
  v.key("batch_per_gpu", s.batch_per_gpu, between(1, 1'000'000), "Samples of one forward pass on one GPU.",
        required());
  v.key("batches", s.batches, between(1, 1e9).length(0, 1'000'000),
        "The batch of each GPU, where they differ: together as many samples as batch_per_gpu says; a "
        "gradient counts by its samples.");
  v.key("balance", s.balance, any(),
        "Every so many steps the batches are set in proportion to the speeds that the GPUs have shown, "
        "together as many samples as before.");
  v.key("accumulation", s.accumulation, between(1, kMostPasses),
        "Forward and backward passes per optimizer step; all but the last exchange nothing unless `no_sync` "
        "says otherwise, but with data_parallel, which has nothing of the kind.");
  v.key(
      "no_sync", s.no_sync, any(),
      "With accumulation. true: passes but the last run under no_sync. false: each reduces its gradients, as "
      "PyTorch's DDP and FSDP do unless they are told otherwise, and DeepSpeed's ZeRO 2 and 3 always; FSDP "
      "and those then keep no whole gradients. Left out: false with zero, else true. Other strategies, ZeRO "
      "1, and DDP with another `reduction` don't use it.");
  v.key(
      "activation_checkpointing", s.activation_checkpointing, any(),
      "full: a block keeps its inputs alone, and runs forward again before its backward pass. selective_op: "
      "it keeps what attention, products with a bias or in fp8, and every other of the rest wrote, too; "
      "all else runs again (torchtitan's selective checkpointing by operators). Blocks are consecutive "
      "layers whose names agree up to their first number, with full FSDP's units where it shards; what is in "
      "no block never runs again.");
  v.key("recompute_every", s.recompute_every, between(1, 1000),
        "With full activation checkpointing: of so many blocks only the last runs forward again, the others "
        "keep what they wrote (torchtitan's selective checkpointing by layers, its option \"2\" for every "
        "other block).");
  v.key("precision", s.precision, any(),
        "Number format of the kernels: it decides their peak rate and their bytes (of fp8 those of products; "
        "all "
        "else is in 16 bits).");
  v.key(
      "gradients", s.gradients, any(),
      "Number format of gradients in memory and on the wire. Under FSDP with 16-bit parameters (param_dtype) "
      "PyTorch's are that format's.");
  v.key("parameters", s.parameters, any(),
        "Number format of the optimizer's state in memory and of the parameters that it updates: fp32 with "
        "mixed precision, whatever the kernels' precision; bf16 where the whole model was cast.");
  v.key("optimizer", s.optimizer, any(),
        "It decides its memory and traffic. sgd: with momentum; lamb, lars: with a norm of each tensor and "
        "its gradient; adam_8bit: moments of one byte and a constant for each 256 (bitsandbytes).");
  v.key("optimizer_kernels", s.optimizer_kernels, any(),
        "How the optimizer runs. fused: as PyTorch's fused=True and Apex; foreach (PyTorch's own default on "
        "GPUs): operation by operation, all tensors at once; for_loop: each tensor by itself. adam_8bit "
        "always has one kernel for each tensor.");
  v.key("clip_norm", s.clip_norm, any(),
        "Clip gradients by their norm: all of them are read once more, scaled, and, where they are sharded, "
        "a number is all-reduced, before the update.");
  v.key("measured", s.measured, any().length(0, 100),
        "What one GPU reaches, step and optimizer included: layer times are scaled to reach it exactly. A "
        "rate, or with the batch and accumulation that it was measured with, or a list with several batches; "
        "left out: layer times stay the roofline's, an estimate.");
  v.key(
      "layer_times", s.layer_times, list(0, 10'000),
      "Measured times, one entry per layer of the model in its order, instead of the roofline; of GPUs that "
      "are alike and have equal batches.");
  v.key("roofline", s.roofline, any(), "How much of a GPU's peak rates kernels reach.");
  v.key("slowdown_while_communicating", s.slowdown_while_communicating, between(1, 100),
        "Kernels take this many times as long while a collective runs on their GPU: 1.21, or \"121/100\".");
  v.key("pytorch", s.pytorch, text(20),
        "The PyTorch whose rules hold: \"1.13\", \"2.0\" to \"2.15\"; from 2.4 on a bucket_cap that is given "
        "is the first bucket's too. Its packages' NCCL runs where \"collective\" has no \"nccl\".");
  v.settle([&](const Spot& spot) { settle_pytorch(s, spot); });
  v.key(
      "strategy", s.strategy, any(),
      "How GPUs share the work: PyTorch's DistributedDataParallel, its fully_shard, ZeRO, parameter servers, "
      "torch.nn.DataParallel on one node, TensorFlow's mirrored strategies, Horovod, or local SGD. Options "
      "of the others may stand beside.");
  v.key("compression", s.compression, any(),
        "DDP's communication hook: what it computes to send less. A name, or an object with options.");
  v.key("ddp", s.ddp, any(), "PyTorch DistributedDataParallel's options.");
  v.key("fsdp", s.fsdp, any(), "PyTorch fully_shard's options.");
  v.key("zero", s.zero, any(), "ZeRO's options.");
  v.key("parameter_server", s.parameter_server, any(), "Options of parameter servers.");
  v.key("data_parallel", s.data_parallel, any(), "torch.nn.DataParallel's options.");
  v.key("mirrored", s.mirrored, any(),
        "Options of TensorFlow's MirroredStrategy and MultiWorkerMirroredStrategy.");
  v.key("horovod", s.horovod, any(), "Horovod's options.");
  v.key("local_sgd", s.local_sgd, any(), "Options of local SGD.");
  v.key("host", s.host, any(), "The host thread that launches work on its GPU.");
  v.key("input", s.input, any(),
        "The data loader, of GPUs with equal batches; left out: it is never the bottleneck.");
  v.key("collective", s.collective, any(), "How collectives run: library, algorithm, costs.");
  v.settle([&](const Spot& spot) { require_distinct_batches(s, spot); });
}

}  // namespace paceline
