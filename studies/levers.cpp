#include "studies/levers.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"
#include "scenarios/gpu_memory.h"
#include "scenarios/quantities.h"
#include "scenarios/readable.h"
#include "scenarios/utilisation.h"
#include "scenarios/writer.h"
#include "sim/collective/nccl.h"
#include "sim/engine/variability.h"
#include "sim/strategy/ddp.h"
#include "sim/strategy/horovod.h"
#include "sim/strategy/parameter_server.h"
#include "sim/strategy/sharding.h"

namespace paceline {
namespace {

constexpr double kTwice = 2;
constexpr std::size_t kMostSpared = 3, kMostHealed = 5;

class Levers {
 public:
  explicit Levers(const Scenario& scenario) : scenario_(scenario), json_(scenario_json(scenario)) {}

  // A change that says nothing new is no lever.
  template <class F>
  void add(LeverKind kind, std::string change, std::string advice, const F& edit) {
    Scenario changed = scenario_;
    edit(changed);
    std::vector<Edit> edits = difference(json_, scenario_json(changed));
    for (const std::string key : {"node", "gpu"}) {
      if (each_run_says(*json_.find("cluster"), key)) {
        std::erase_if(edits, [&](const Edit& each) { return each.key.starts_with("/cluster/" + key + '/'); });
      }
    }
    if (!edits.empty() && !has(edits)) {
      all_.push_back({std::move(change), std::move(advice), kind, std::move(changed), std::move(edits)});
    }
  }

  std::vector<Lever> take() { return std::move(all_); }

 private:
  bool has(const std::vector<Edit>& edits) const {
    return std::ranges::any_of(all_, [&](const Lever& lever) { return lever.edits == edits; });
  }

  const Scenario& scenario_;
  Json json_;
  std::vector<Lever> all_;
};

// NCCL's own search of rings and trees goes by the links' speed; a graph from a file would stay as it was
// found for the old one.
bool searches(const ClusterSpec& cluster) { return !cluster.graphs; }

void add_network(const Scenario& scenario, Levers& all) {
  const ClusterSpec& cluster = scenario.cluster;
  const NodeSpec& node = cluster.node;
  if (cluster.nodes + server_nodes(scenario.training) < 2 || node.nics == 0) {
    return;
  }
  if (searches(cluster)) {
    const std::string rate = readable_rate(node.nic_bandwidth * kTwice);
    const bool alike = std::ranges::all_of(
        cluster.runs, [&](const NodeRun& run) { return run.node.nic_bandwidth == node.nic_bandwidth; });
    all.add(LeverKind::hardware, "NIC bandwidth x2" + (alike ? " (" + rate + ")" : ""),
            "with twice the NIC bandwidth" + (alike ? " (" + rate + " each)" : ""), [](Scenario& s) {
              for_each_node_spec(s.cluster, [](NodeSpec& each) {
                each.nic_bandwidth = each.nic_bandwidth * kTwice;
                for (NodeDevice& device : each.devices) {
                  device.bandwidth = device.bandwidth * (device.kind == NodePart::nic ? kTwice : 1);
                }
              });
            });
  }
  if (cluster.fabric.oversubscription > 1) {
    all.add(LeverKind::hardware, "no oversubscription", "without oversubscription of the fabric",
            [](Scenario& s) { s.cluster.fabric.oversubscription = 1; });
  }
  all.add(LeverKind::hardware, "network latency halved", "with half the network's latency", [](Scenario& s) {
    for_each_node_spec(s.cluster, [](NodeSpec& each) { each.nic_latency = each.nic_latency / kTwice; });
    s.cluster.fabric.switch_latency = s.cluster.fabric.switch_latency / kTwice;
  });
}

// What one thread carries over sockets may be less than the adapter does.
void add_sockets(const Scenario& scenario, Levers& all) {
  constexpr int kTimes = 4, kMostThreads = 16, kMostSockets = 64;  // src/transport/net_socket.cc
  const CollectiveSpec& spec = scenario.training.collective;
  const int threads = std::min(
      {kTimes * std::max(1, spec.socket_threads), kMostThreads, kMostSockets / spec.sockets_per_thread});
  if (scenario.cluster.nodes < 2 || scenario.cluster.node.network != NetworkKind::tcp ||
      spec.library != CollectiveLibrary::nccl || threads <= spec.socket_threads) {
    return;
  }
  const std::string setting = "NCCL_SOCKET_NTHREADS=" + std::to_string(threads);
  all.add(LeverKind::software, setting, "with " + setting,
          [&](Scenario& s) { s.training.collective.socket_threads = threads; });
}

// Cables of a kind; a node in short has the bandwidth of `in_short`.
void twice_as_fast(Scenario& scenario, CableKind kind, BytesPerSecond NodeSpec::* in_short) {
  for_each_node_spec(scenario.cluster, [&](NodeSpec& node) {
    if (node.devices.empty()) {
      node.*in_short = node.*in_short * kTwice;
    }
    for (NodeCable& cable : node.cables) {
      cable.bandwidth = cable.bandwidth * (cable.kind == kind ? kTwice : 1);
    }
  });
}

// PCIe and the sockets' link where they alone join a node's GPUs.
void add_inside_nodes(const ClusterSpec& cluster, Levers& all) {
  if (!searches(cluster) || cluster.gpus_per_node < 2) {
    return;
  }
  bool nvlink = false, sockets = false;
  for_each_node_spec(cluster, [&](const NodeSpec& node) {
    const auto has = [&](CableKind kind) {
      return std::ranges::count(node.cables, kind, &NodeCable::kind) > 0;
    };
    const bool in_short = node.devices.empty();
    nvlink = nvlink || has_nvlink(node);
    sockets = sockets || (in_short ? node.sockets > 1 : has(CableKind::socket));
  });
  if (nvlink) {
    all.add(LeverKind::hardware, "NVLink bandwidth x2", "with twice the NVLink bandwidth",
            [](Scenario& s) { twice_as_fast(s, CableKind::nvlink, &NodeSpec::nvlink_bandwidth); });
    return;
  }
  all.add(LeverKind::hardware, "PCIe bandwidth x2", "with twice the PCIe bandwidth",
          [](Scenario& s) { twice_as_fast(s, CableKind::pcie, &NodeSpec::pcie_bandwidth); });
  if (sockets) {
    all.add(LeverKind::hardware, "bandwidth between sockets x2", "with twice the bandwidth between sockets",
            [](Scenario& s) { twice_as_fast(s, CableKind::socket, &NodeSpec::socket_bandwidth); });
  }
}

void add_gpu(Levers& all) {
  all.add(LeverKind::unobtainable, "GPUs twice as fast", "with GPUs twice as fast", [](Scenario& s) {
    const auto twice = [](GpuSpec& gpu, std::vector<MeasuredRate>& rates) {
      for (MeasuredRate& measured : rates) {
        measured.rate = measured.rate * kTwice;
      }
      for (FlopsPerSecond& peak : gpu.peak) {
        peak = peak * kTwice;
      }
      gpu.memory_bandwidth = gpu.memory_bandwidth * kTwice;
    };
    twice(s.gpu, s.training.measured);
    for (ExplicitLayerTime& t : s.training.layer_times) {
      t = {t.forward / kTwice, t.backward / kTwice};
    }
    for (GpuKind& kind : s.gpus) {
      twice(kind.gpu, kind.measured);
    }
    if (!s.gpus.empty()) {
      s.gpu = s.gpus.front().gpu;
    }
  });
}

// Of kernels that nobody measured: what was measured has its format.
void add_memory_format(const Scenario& scenario, Levers& all) {
  const TrainingSpec& training = scenario.training;
  const GpuCosts costs{scenario.gpu, training.roofline, training.precision};
  if (compute_source(scenario) == "roofline" && scenario.gpus.size() < 2 &&
      channels_first_slowdown(costs, scenario.model, training.batch_per_gpu) >= kSlowdownMatters) {
    all.add(LeverKind::software, "images in channels_last", "with images in channels_last",
            [](Scenario& s) { s.training.roofline.memory_format = MemoryFormat::channels_last; });
  }
}

// Likewise.
void add_compiled_kernels(const Scenario& scenario, Levers& all) {
  const TrainingSpec& training = scenario.training;
  const GpuCosts costs{scenario.gpu, training.roofline, training.precision};
  if (compute_source(scenario) == "roofline" && scenario.gpus.size() < 2 &&
      training.roofline.kernels == KernelMode::eager &&
      eager_slowdown(costs, scenario.model, training.batch_per_gpu) >= kSlowdownMatters) {
    all.add(LeverKind::software, "compiled kernels (torch.compile)", "with compiled kernels (torch.compile)",
            [](Scenario& s) { s.training.roofline.kernels = KernelMode::compiled; });
  }
}

// Larger buckets as long as there are several, and all in one; and where all wait for backward's end, not to.
void add_buckets(const Prediction& p, Levers& all) {
  if (!reduction_rule(p.scenario.training.ddp.reduction).overlapped) {
    all.add(LeverKind::software, "reduction during backward", "with gradients reduced during backward",
            [](Scenario& s) {
              s.training.ddp.reduction = Reduction::pytorch_ddp;
              s.training.ddp.broadcast_buffers = false;
            });
  }
  Bytes gradients;
  for (const BucketReport& bucket : p.report.buckets) {
    gradients = gradients + bucket.bytes;
  }
  const TrainingSpec& training = p.scenario.training;
  const Bytes cap = bucket_limits(training.ddp, training.gradients, training.pytorch, p.job.ranks()).cap;
  const auto capped = [&](Bytes to, const std::string& how) {
    all.add(LeverKind::software, "bucket cap " + how + " (" + readable_size(to) + ")",
            "with buckets of " + readable_size(to), [&](Scenario& s) { s.training.ddp.bucket_cap = to; });
  };
  const bool several = p.report.buckets.size() > 1;
  for (const std::int64_t times : {2, 4, 8}) {
    if (several && cap.value <= gradients.value / times) {
      capped(times * cap, "x" + std::to_string(times));
    }
  }
  if (several) {
    all.add(LeverKind::software, "one bucket (" + readable_size(gradients) + ")",
            "with all gradients in one bucket",
            [&](Scenario& s) { s.training.ddp.bucket_cap = s.training.ddp.first_bucket = gradients; });
  }
  if (const Bytes half(std::min(cap, gradients).value / 2); half.value > 0) {
    capped(half, cap <= gradients ? "halved" : "of half the gradients");
  }
}

// What gradients of four bytes could be halved to: bf16 has the range of fp32, but not all GPUs have it.
Precision half_precision(const Scenario& scenario) {
  const auto has_bf16 = [](const GpuSpec& gpu) {
    return gpu.peak[static_cast<std::size_t>(Precision::bf16)].value > 0;
  };
  return has_bf16(scenario.gpu) && std::ranges::all_of(scenario.gpus, has_bf16, &GpuKind::gpu)
             ? Precision::bf16
             : Precision::fp16;
}

// In bf16 all of them; else fp16 on the wire alone, by PyTorch's hook where it can be had. Not where they are smaller.
void add_halved_gradients(const Scenario& scenario, Levers& all) {
  const TrainingSpec& training = scenario.training;
  if (bytes_per_element(training.ddp.wire.value_or(training.gradients)) < 4 ||
      bytes_per_element(training.gradients) < 4 || training.compression.kind != CompressionKind::none) {
    return;
  }
  if (half_precision(scenario) == Precision::bf16) {
    all.add(LeverKind::software, "gradients in bf16", "with gradients in bf16",
            [](Scenario& s) { s.training.gradients = Precision::bf16; });
    return;
  }
  const bool hook = training.strategy != StrategyKind::local_sgd && !training.ddp.join &&
                    training.ddp.reduction == Reduction::pytorch_ddp &&
                    !(training.strategy == StrategyKind::zero && training.zero.reduce_scatter) &&
                    training.collective.library == CollectiveLibrary::nccl;
  if (hook) {
    all.add(LeverKind::software, "gradients compressed to fp16",
            "with gradients compressed to fp16 by DDP's hook", [](Scenario& s) {
              s.training.ddp.wire.reset();
              s.training.compression.kind = CompressionKind::fp16;
            });
  }
}

// Of DDP, whose options ZeRO's first stage has too.
void add_ddp(const Prediction& p, Levers& all) {
  const Scenario& scenario = p.scenario;
  add_buckets(p, all);
  if (!reduction_rule(scenario.training.ddp.reduction).in_place) {
    all.add(LeverKind::software, "gradients as views of the buckets", "with gradient_as_bucket_view",
            [](Scenario& s) { s.training.ddp.gradient_as_bucket_view = true; });
  }
  if (std::ranges::any_of(scenario.model.layers,
                          [](const Layer& layer) { return layer.kind == LayerKind::batch_norm; })) {
    all.add(LeverKind::software, "no broadcast of buffers", "without broadcast_buffers",
            [](Scenario& s) { s.training.ddp.broadcast_buffers = false; });
  }
  add_halved_gradients(scenario, all);
}

// Whether it fits, or needs no more than now.
template <class Change>
bool fits_as_well(const Scenario& scenario, const Change& edit) {
  Scenario changed = scenario;
  edit(changed);
  const Bytes gpu = memory_of_gpu(scenario);
  return gpu.value == 0 || memory_of(changed).total() <= std::max(gpu, memory_of(scenario).total());
}

// What fits no worse than now.
void add_checkpointing(const Scenario& scenario, Levers& all) {
  if (!recomputes(scenario.training)) {
    return;
  }
  const auto none = [](Scenario& s) {
    pin_rates(s);
    s.training.activation_checkpointing = ActivationCheckpointing::none;
    s.training.recompute_every = 1;
  };
  const auto selective = [](Scenario& s) {
    pin_rates(s);
    s.training.activation_checkpointing = ActivationCheckpointing::selective_op;
    s.training.recompute_every = 1;
  };
  const int every = 2 * scenario.training.recompute_every;
  const auto fewer = [every](Scenario& s) {
    pin_rates(s);
    s.training.recompute_every = every;
  };
  Scenario with_fewer = scenario;
  fewer(with_fewer);
  if (fits_as_well(scenario, none)) {
    all.add(LeverKind::software, "no activation checkpointing", "without activation checkpointing", none);
    return;
  }
  if (scenario.training.activation_checkpointing != ActivationCheckpointing::full) {
    return;
  }
  Scenario by_operators = scenario;
  selective(by_operators);
  if (recomputes_products(by_operators.training, scenario.model) && fits_as_well(scenario, selective)) {
    all.add(LeverKind::software, "recomputation by operators", "with activation_checkpointing selective_op",
            selective);
  }
  if (!recomputed_units(with_fewer.training, scenario.model).empty() && fits_as_well(scenario, fewer)) {
    all.add(LeverKind::software, "one block of " + std::to_string(every) + " recomputed",
            "with recompute_every " + std::to_string(every), fewer);
  }
}

// Of FSDP, and of ZeRO's other stages where its options hold: what fits no worse than now.
void add_fsdp(const Prediction& p, Levers& all) {
  const Scenario& scenario = p.scenario;
  const auto add = [&](const std::string& change, const std::string& advice, const auto& edit) {
    if (fits_as_well(scenario, edit)) {
      all.add(LeverKind::software, change, advice, edit);
    }
  };
  const FsdpSpec& fsdp = scenario.training.fsdp;
  if (scenario.training.strategy == StrategyKind::fsdp && fsdp.reshard_after_forward.reshards) {
    add("parameters kept after forward", "without reshard_after_forward",
        [](Scenario& s) { s.training.fsdp.reshard_after_forward = {.reshards = false}; });
  }
  if (bytes_per_element(gradients_on_the_wire(scenario.training)) == 4) {
    const Precision half = half_precision(scenario);
    const std::string name(name_of(half));
    add("gradients reduced in " + name, "with reduce_precision " + name,
        [&](Scenario& s) { s.training.fsdp.reduce_precision = half; });
  }
  if (const std::int64_t gpus = scenario.cluster.gpus_per_node;
      gpus > 1 && static_cast<std::int64_t>(p.job.ranks()) > gpus && fsdp.shard_group == ShardGroup{}) {
    add("hybrid sharding by node", "with hybrid sharding in each node", [](Scenario& s) {
      s.training.fsdp.shard_group.node = true;
      s.training.fsdp.reshard_after_forward.within = 0;  // which needn't divide a node
    });
  }
}

// Where GPUs are not alike for good. Speeds are measured ten times in the run.
void add_balance(const Scenario& scenario, Levers& all) {
  const TrainingSpec& training = scenario.training;
  if ((scenario.gpus.empty() && scenario.variability.slow_gpus.empty()) || training.input ||
      !training.layer_times.empty() || !training.batches.empty()) {
    return;
  }
  all.add(
      LeverKind::software, "batches by speed", "with batches in proportion to the GPUs' speeds",
      [](Scenario& s) { s.training.balance = BalanceSpec{std::max(1, s.run.iterations / 10), Bytes(0)}; });
}

// Synchronous as before: what is stale or dropped is no lever but another training.
void add_servers(const Prediction& p, Levers& all) {
  const ParameterServerSpec& spec = p.scenario.training.parameter_server;
  all.add(LeverKind::hardware, "servers x2", "with twice the servers",
          [](Scenario& s) { s.training.parameter_server.servers.count *= 2; });
  all.add(LeverKind::hardware, "servers' memory bandwidth x2", "with twice the servers' memory bandwidth",
          [](Scenario& s) {
            BytesPerSecond& rate = s.training.parameter_server.servers.memory_bandwidth;
            rate = rate * kTwice;
          });
  if (p.scenario.cluster.gpus_per_node > 1 && spec.backup == 0) {
    all.add(LeverKind::software, "gradients summed in each node", "with gradients summed in each node",
            [](Scenario& s) { s.training.parameter_server.node = NodeGradients::aggregate; });
  }
  all.add(LeverKind::software, "pushes by tensor", "with gradients pushed as they come",
          [](Scenario& s) { s.training.parameter_server.overlap = ServerOverlap::by_tensor; });
}

// One process launches for all GPUs: a process for each, or a faster one.
void add_data_parallel(Levers& all) {
  all.add(LeverKind::software, "a process for each GPU (DDP)", "with a process for each GPU (DDP)",
          [](Scenario& s) { s.training.strategy = StrategyKind::ddp; });
  all.add(LeverKind::hardware, "host x2", "with a host that launches kernels twice as fast", [](Scenario& s) {
    s.training.host.kernel_launch = s.training.host.kernel_launch / kTwice;
    s.training.host.collective_launch = s.training.host.collective_launch / kTwice;
  });
}

// Where all wait for the last gradient, not to; and other packs.
void add_mirrored(const Prediction& p, Levers& all) {
  if (p.scenario.training.mirrored.cross_device_ops == CrossDeviceOps::nccl_then_ring) {
    all.add(LeverKind::software, "NCCL among all GPUs", "with NCCL among all GPUs (multi_worker)",
            [](Scenario& s) { s.training.mirrored.cross_device_ops = CrossDeviceOps::multi_worker; });
    return;
  }
  if (p.scenario.training.mirrored.cross_device_ops != CrossDeviceOps::multi_worker) {
    all.add(LeverKind::software, "an all-reduce for each gradient",
            "with NCCL and an all-reduce for each gradient (num_packs 0)", [](Scenario& s) {
              s.training.mirrored.cross_device_ops = CrossDeviceOps::nccl;
              s.training.mirrored.num_packs = 0;
            });
    all.add(LeverKind::software, "one all-reduce", "with NCCL and all gradients in one pack",
            [](Scenario& s) { s.training.mirrored = {}; });
    return;
  }
  if (p.scenario.training.collective.library == CollectiveLibrary::tensorflow) {
    all.add(LeverKind::software, "NCCL", "with NCCL in place of TensorFlow's ring",
            [](Scenario& s) { s.training.collective.library = CollectiveLibrary::nccl; });
  }
  for (const std::int64_t mebibytes : {12, 25, 50, 100, 200}) {
    const Bytes size(mebibytes << 20);
    all.add(LeverKind::software, "packs of " + readable_size(size), "with packs of " + readable_size(size),
            [&](Scenario& s) { s.training.mirrored.bytes_per_pack = size; });
  }
}

// What is fused, how often ranks agree, and what carries it: each that the version has, and that isn't so already.
void add_horovod(const Prediction& p, Levers& all) {
  const HorovodSpec& now = p.scenario.training.horovod;
  const HorovodRules rules = horovod_rules(now.version);
  for (const std::int64_t mebibytes : {1, 4, 16, 64, 256}) {
    const Bytes size(mebibytes << 20);
    if (size != now.fusion_threshold.value_or(rules.threshold)) {
      all.add(LeverKind::software, "fusion threshold " + readable_size(size),
              "with a fusion threshold of " + readable_size(size),
              [&](Scenario& s) { s.training.horovod.fusion_threshold = size; });
    }
  }
  for (const double milliseconds : {0.25, 1.0, 5.0, 20.0}) {
    const Seconds time(milliseconds * 1e-3);
    if (time != now.cycle_time.value_or(rules.cycle)) {
      all.add(LeverKind::software, "cycle time " + readable_time(time),
              "with a cycle of " + readable_time(time),
              [&](Scenario& s) { s.training.horovod.cycle_time = time; });
    }
  }
  if (!now.async_completion) {
    all.add(LeverKind::software, "asynchronous completion", "with a host that doesn't wait for reductions",
            [](Scenario& s) { s.training.horovod.async_completion = true; });
  }
  if (!now.fp16 && bytes_per_element(p.scenario.training.gradients) == 4) {
    all.add(LeverKind::software, "gradients reduced in fp16", "with gradients compressed to fp16",
            [](Scenario& s) { s.training.horovod.fp16 = true; });
  }
  const bool nccl = p.scenario.training.collective.library == CollectiveLibrary::nccl;
  if (nodes_of_job(p.scenario.cluster) < 2 || !nccl) {
    return;
  }
  if (rules.torus) {
    all.add(LeverKind::software, "torus all-reduces", "with torus all-reduces", [](Scenario& s) {
      s.training.horovod.torus = true;
      s.training.horovod.hierarchical = false;
    });
  }
  if (rules.hierarchical && p.topology->node().count(DeviceKind::cpu) > 0) {
    all.add(LeverKind::software, "hierarchical all-reduces", "with hierarchical all-reduces",
            [](Scenario& s) {
              s.training.horovod.hierarchical = true;
              s.training.horovod.torus = false;
            });
  }
  if (now.torus || now.hierarchical) {
    all.add(LeverKind::software, "one all-reduce of all GPUs", "with one all-reduce of all GPUs",
            [](Scenario& s) { s.training.horovod.torus = s.training.horovod.hierarchical = false; });
  }
}

void add_strategy(const Prediction& p, Levers& all) {
  if (p.report.servers) {
    add_servers(p, all);
  } else if (p.scenario.training.strategy == StrategyKind::data_parallel) {
    add_data_parallel(all);
  } else if (p.scenario.training.strategy == StrategyKind::mirrored) {
    add_mirrored(p, all);
  } else if (p.job.negotiation) {
    add_horovod(p, all);
  } else if (fully_shards(p.scenario.training)) {
    add_fsdp(p, all);
  } else if (p.scenario.training.strategy != StrategyKind::local_sgd ||
             p.scenario.training.local_sgd.group == LocalGroup::node) {
    add_ddp(p, all);
  }
  if (!p.report.servers && !p.scenario.training.balance &&
      p.scenario.training.strategy != StrategyKind::data_parallel &&
      p.scenario.training.strategy != StrategyKind::local_sgd && p.job.batches.empty()) {
    add_balance(p.scenario, all);
  }
  const auto accumulate = [](Scenario& s) {
    pin_rates(s);
    s.training.accumulation *= 2;
  };
  if (fits_as_well(p.scenario, accumulate)) {
    all.add(LeverKind::software, "accumulation x2", "with twice the accumulated batches per step",
            accumulate);
  }
  const auto no_sync = [](Scenario& s) { s.training.no_sync = true; };
  if (reduces_each_pass(p.scenario.training) && p.scenario.training.strategy != StrategyKind::zero &&
      fits_as_well(p.scenario, no_sync)) {
    all.add(LeverKind::software, "no_sync", "with passes but the last under no_sync", no_sync);
  }
}

// What NCCL takes for each collective of a step.
using Choices = std::vector<std::pair<Algorithm, Protocol>>;

Choices choices(NcclCollectives& nccl, const TrainingJob& job) {
  Choices taken;
  for (const std::uint32_t number : job.main().steady.collectives) {
    const CollectivePlan& plan = job.plans[number];
    const TunerChoice choice = nccl.tuned(plan.kind, plan.bytes);
    taken.emplace_back(choice.algorithm, choice.protocol);
  }
  return taken;
}

// NCCL_ALGO and NCCL_PROTO as NCCL reads them.
std::string nccl_name(Algorithm algorithm) {
  std::string text(name_of(algorithm));
  std::erase(text, '_');
  return text;
}

struct Setting {
  std::string algorithm, protocol;
  friend auto operator<=>(const Setting&, const Setting&) = default;
};

// Without each of what the tuner takes for the largest all-reduce, and each alone that NCCL's tuner doesn't
// think hopeless.
std::set<Setting> settings(NcclCollectives& nccl, const CollectiveSpec& now, Bytes largest) {
  nccl.ask_for("", "");
  const std::vector<TunerChoice> possible = nccl.possible(CollectiveKind::all_reduce, largest, kHopeless);
  std::set<Setting> all{{"", now.protocol}, {now.algorithm, ""}};
  for (const TunerChoice& choice : possible) {
    const std::string algorithm = nccl_name(choice.algorithm),
                      protocol = std::string(name_of(choice.protocol));
    all.insert({algorithm, now.protocol});
    all.insert({now.algorithm, protocol});
  }
  const TunerChoice& tuned = possible.front();
  all.insert({'^' + nccl_name(tuned.algorithm), now.protocol});
  all.insert({now.algorithm, '^' + std::string(name_of(tuned.protocol))});
  return all;
}

std::string named(const Setting& to, const Setting& now) {
  const auto one = [](const char* variable, const std::string& value) {
    return value.empty() ? std::string("without ") + variable : variable + ('=' + value);
  };
  return to.protocol == now.protocol ? one("NCCL_ALGO", to.algorithm) : one("NCCL_PROTO", to.protocol);
}

// Other algorithms and protocols, where NCCL could run them for every collective of a step, and where that
// changes what it runs.
void add_algorithms(const Prediction& p, Machines& machines, Levers& all) {
  const CollectiveSpec& spec = p.scenario.training.collective;
  if (spec.library != CollectiveLibrary::nccl || spec.choose != AlgorithmChoice::tuner ||
      p.report.buckets.empty()) {
    return;
  }
  const std::shared_ptr<const Topology> topology = machines.topology(p.scenario);
  NcclCollectives nccl(*topology, spec, {});
  Bytes largest;
  for (const BucketReport& bucket : p.report.buckets) {
    largest = std::max(largest, bucket.bytes);
  }
  const Setting now{spec.algorithm, spec.protocol};
  std::set<Choices> seen{choices(nccl, p.job)};
  for (const Setting& to : settings(nccl, spec, largest)) {
    nccl.ask_for(to.algorithm, to.protocol);
    try {
      if (!seen.insert(choices(nccl, p.job)).second) {
        continue;
      }
    } catch (const InputError&) {  // leaves nothing that NCCL could run
      continue;
    }
    const std::string name = named(to, now);
    all.add(LeverKind::software, name, (name.starts_with("without") ? "" : "with ") + name, [&](Scenario& s) {
      s.training.collective.algorithm = to.algorithm;
      s.training.collective.protocol = to.protocol;
    });
  }
}

void add_steadiness(const Scenario& scenario, Levers& all) {
  if (scenario.variability.delays && *scenario.variability.delays != DelaySpec{}) {
    all.add(LeverKind::unobtainable, "no delays", "without delays",
            [](Scenario& s) { s.variability.delays = DelaySpec{}; });
  }
  if (scenario.variability.per_operation.kind == DistributionKind::none &&
      scenario.variability.per_iteration.kind == DistributionKind::none &&
      scenario.variability.per_step.kind == DistributionKind::none &&
      (!scenario.training.input || scenario.training.input->jitter.kind == DistributionKind::none)) {
    return;
  }
  all.add(LeverKind::unobtainable, "no jitter", "without jitter", [](Scenario& s) {
    s.variability.per_operation = s.variability.per_iteration = s.variability.per_step = {};
    if (s.training.input) {
      s.training.input->jitter = {};
    }
  });
}

// GPUs that are slow in this run, those first that were waited for most; and all of them.
void add_slow_gpus(const Prediction& p, Levers& all) {
  const Scenario& scenario = p.scenario;
  const std::vector<bool> slow =
      slowed_ranks(scenario.variability, p.job.ranks(), scenario.run.seed, scenario.run.iterations);
  std::size_t spared = 0;
  for (const StragglerReport& s : p.report.stragglers) {
    if (slow[s.rank.index()] && spared < kMostSpared) {
      ++spared;
      const std::string without =
          "without the slowness of rank " + std::to_string(s.rank.value) + " (" + s.gpu + ")";
      all.add(LeverKind::hardware, without, without,
              [&](Scenario& to) { to.variability.spared_gpus.push_back(s.rank.value); });
    }
  }
  if (const auto count = static_cast<std::size_t>(std::ranges::count(slow, true));
      count > 0 && !(count == 1 && spared == 1)) {
    all.add(LeverKind::hardware, "no slow GPU", "without any slow GPU", [](Scenario& s) {
      s.variability.slow_gpus.clear();
      s.variability.transient.clear();
    });
  }
}

// The degraded links that cost most, as the run has found them.
void add_links(const Prediction& p, Levers& all) {
  for (std::size_t i = 0; i < std::min(kMostHealed, p.links.size()); ++i) {
    const std::string& name = p.links[i].link;
    all.add(LeverKind::hardware, name + " healthy", "with " + name + " healthy", [&](Scenario& s) {
      s.cluster.degraded.erase(s.cluster.degraded.begin() + static_cast<std::ptrdiff_t>(p.links[i].degraded));
    });
  }
}

void add_surroundings(Levers& all) {
  all.add(LeverKind::hardware, "no traffic of others", "without the traffic of others", [](Scenario& s) {
    s.background.clear();
    s.other_jobs.clear();
  });
  all.add(LeverKind::hardware, "input x2", "with data loaders twice as fast", [](Scenario& s) {
    if (s.training.input) {
      s.training.input->rate = s.training.input->rate * kTwice;
    }
  });
}

}  // namespace

std::vector<Lever> levers(const Prediction& p, Machines& machines) {
  Levers all(p.scenario);
  add_memory_format(p.scenario, all);
  add_compiled_kernels(p.scenario, all);
  const bool distributed = p.job.ranks() > 1 || p.report.servers;
  if (distributed) {
    if (!p.report.servers) {
      add_algorithms(p, machines, all);
    }
    add_strategy(p, all);
  }
  add_checkpointing(p.scenario, all);
  add_slow_gpus(p, all);
  add_links(p, all);
  add_surroundings(all);
  if (distributed) {
    add_sockets(p.scenario, all);
    add_network(p.scenario, all);
    add_inside_nodes(p.scenario.cluster, all);
  }
  add_steadiness(p.scenario, all);
  add_gpu(all);
  return all.take();
}

}  // namespace paceline
