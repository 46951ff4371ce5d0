#include <algorithm>
#include <limits>

#include "core/error.h"
#include "scenarios/campaign.h"
#include "sim/strategy/memory.h"
#include "sim/strategy/sharding.h"

namespace paceline {
namespace {

constexpr const char* kCheckpoint = "/faults/checkpoint";

CampaignTime noticed_after(NoticedBy by, const DetectionSpec& d) {
  switch (by) {
    case NoticedBy::exit:
      return to_campaign_time(d.monitor_interval);
    case NoticedBy::keep_alive:
      return to_campaign_time(d.keep_alive * d.keep_alives);
    case NoticedBy::timeout:
      break;
  }
  return to_campaign_time(d.collective_timeout + d.watchdog);
}

// What of a checkpoint takes which way: of the GPU and of the node that have most, and of all together.
struct Shares {
  double gpu = 0, node = 0, all = 0;  // bytes
};
struct CheckpointBytes {
  Shares saved, loaded;
};

// Replicas are saved once, by the first of them; everybody loads what it keeps.
CheckpointBytes bytes_of(const Scenario& s) {
  const RankLayout layout{static_cast<std::uint32_t>(nodes_of_job(s.cluster)),
                          static_cast<std::uint32_t>(gpus_of_node(s.cluster))};
  const TrainingSpec& training = s.training;
  if (training.strategy == StrategyKind::parameter_server) {
    throw InputError(
        "expected \"stall\", \"upload\" and /faults/restart/load in times, as parameters are kept by servers",
        kCheckpoint);
  }
  const GpuMemory whole = memory_of(strategy_of(training), s.model, training, RankLayout{1, 1});
  const GpuMemory kept = memory_of(strategy_of(training), s.model, training, layout);
  const bool sharded_parameters =
      fully_shards(training) && !(training.strategy == StrategyKind::zero && training.zero.stage < 3);
  // One GPU alone keeps a copy in the arithmetic's format beside its parameters, which shards don't.
  const double shards = sharded_parameters ? shard_ranks(training.fsdp.shard_group, layout) : 1;
  const GpuMemory& of_all = sharded_parameters ? kept : whole;
  const double all = static_cast<double>((of_all.parameters + of_all.optimizer).value) * shards;
  const double told = static_cast<double>(s.faults->checkpoint.bytes.value);
  const double scale = told > 0 ? told / all : 1;
  const double gpu = static_cast<double>((kept.parameters + kept.optimizer).value) * scale;
  const double gpus = layout.gpus_per_node, nodes = layout.nodes;
  // A copy of what is whole on each GPU serves the node; shards add up.
  const double shared = static_cast<double>(kept.parameters.value) * scale;
  const bool sharded_optimizer = training.strategy != StrategyKind::ddp;
  const double optimizer = gpu - shared;
  const double node = std::min(
      all * scale, shared * (sharded_parameters ? gpus : 1) + optimizer * (sharded_optimizer ? gpus : 1));
  return {{gpu, node, all * scale}, {gpu, node, node * nodes}};
}

struct Rates {
  double gpu = 0, node = 0, storage = 0;
};
Rates rates_of(const Scenario& s) {
  const CheckpointSpec& c = s.faults->checkpoint;
  double of_gpu = std::numeric_limits<double>::infinity(), of_node = of_gpu;  // of the slowest kind of node
  const auto slowest = [&](const NodeSpec& node, std::uint32_t, std::uint32_t) {
    double nics = node.nic_bandwidth.value * node.nics;
    for (const NodeDevice& device : node.devices) {
      nics += device.bandwidth.value;
    }
    of_gpu = std::min(of_gpu, node.pcie_bandwidth.value);
    of_node = std::min(of_node, nics);
  };
  for_each_node(s.cluster, slowest);
  return {c.gpu_bandwidth.value > 0 ? c.gpu_bandwidth.value : of_gpu,
          c.node_bandwidth.value > 0 ? c.node_bandwidth.value : of_node, c.storage_bandwidth.value};
}

void require_rate(double rate, const char* key, const char* what) {
  if (!(rate > 0)) {
    throw InputError(std::string("missing key \"") + key + "\": " + what, kCheckpoint);
  }
}

void add_checkpoint_times(const Scenario& s, CampaignSpec& spec) {
  const CheckpointSpec& c = s.faults->checkpoint;
  const RestartSpec& r = s.faults->restart;
  CheckpointTimes& times = spec.checkpoint;
  const bool memory = c.kind == CheckpointKind::in_memory || c.kind == CheckpointKind::two_level;
  const bool storage = c.kind != CheckpointKind::in_memory, sync = c.kind == CheckpointKind::sync;
  times.memory = memory;
  times.storage = storage;
  times.storage_every = c.storage_every;
  times.rule = c.interval.rule;
  times.interval = to_campaign_time(c.interval.time);
  times.steps = c.interval.steps;
  const bool stall_told = c.stall.has_value(), upload_told = sync || !storage || c.upload.has_value();
  const bool load_told = r.load.has_value() || !storage;
  CheckpointBytes bytes;
  Rates rates;
  if (!stall_told || !upload_told || !load_told || memory) {
    bytes = bytes_of(s);
    rates = rates_of(s);
  }
  const auto to_storage = [&](const Shares& shares) {
    require_rate(rates.storage, "storage_bandwidth", "a checkpoint has bytes, but nowhere to go with them");
    require_rate(rates.node, "node_bandwidth", "the node has no NIC");
    return Seconds(std::max(shares.node / rates.node, shares.all / rates.storage));
  };
  const auto across_pcie = [&](const Shares& shares) {
    require_rate(rates.gpu, "gpu_bandwidth", "the node's devices are listed one by one");
    return Seconds(shares.gpu / rates.gpu);
  };
  const Seconds stall = stall_told ? to_seconds(*c.stall)
                                   : across_pcie(bytes.saved) + (sync ? to_storage(bytes.saved) : Seconds());
  times.stall = to_campaign_time(stall);
  if (storage && !sync) {
    times.upload = to_campaign_time(c.upload ? to_seconds(*c.upload) : to_storage(bytes.saved));
  }
  spec.restart.load = to_campaign_time(r.load    ? to_seconds(*r.load)
                                       : storage ? to_storage(bytes.loaded) + across_pcie(bytes.loaded)
                                                 : Seconds());
  if (memory) {
    require_rate(rates.node, "node_bandwidth", "the node has no NIC to reach its peer");
    times.memory_copy = to_campaign_time(Seconds(bytes.saved.node / rates.node));
    spec.restart.load_from_memory = to_campaign_time(across_pcie(bytes.loaded));
    spec.restart.fetch_from_peer = to_campaign_time(Seconds(bytes.loaded.node / rates.node));
  }
}

}  // namespace

CampaignSpec campaign_machines(const Scenario& s) {
  const FaultsSpec& faults = *s.faults;
  CampaignSpec spec;
  spec.nodes = nodes_of_job(s.cluster);
  spec.gpus_per_node = gpus_of_node(s.cluster);
  spec.nics_per_node = s.cluster.node.nics;
  spec.nodes_per_leaf =
      s.cluster.fabric.kind == FabricKind::single_switch ? spec.nodes : s.cluster.fabric.nodes_per_leaf;
  spec.spares = faults.spares;
  spec.min_nodes = faults.elastic ? faults.elastic->min_nodes : 0;
  for (const FailureSpec& f : faults.failures) {
    const NoticedBy by = noticed_by(f);
    spec.failures.push_back({name_of(f), f.of, taken_by(f), noticed_after(by, faults.detection),
                             by == NoticedBy::timeout, to_campaign_time(f.mtbf), f.distribution.weibull,
                             to_campaign_time(f.repair)});
  }
  for (std::size_t i = 0; i < faults.slow_nodes.size(); ++i) {
    spec.passing.push_back({"slow nodes " + std::to_string(i), to_campaign_time(faults.slow_nodes[i].every),
                            to_campaign_time(faults.slow_nodes[i].lasts)});
  }
  const CampaignTime timeout = noticed_after(NoticedBy::timeout, faults.detection);
  for (std::size_t i = 0; i < faults.link_flaps.size(); ++i) {
    const LinkFlaps& flaps = faults.link_flaps[i];
    const std::string name = "link flaps " + std::to_string(i);
    const bool dead = flaps.bandwidth_factor == 0, fails = dead && to_campaign_time(flaps.lasts) > timeout;
    if (fails) {  // a collective gives up before the link is back
      spec.failures.push_back({name,
                               FailingPart::node,
                               FailureTakes::process,
                               timeout,
                               true,
                               to_campaign_time(flaps.every),
                               1,
                               {}});
    }
    spec.passing.push_back(
        {name, fails ? CampaignTime() : to_campaign_time(flaps.every), to_campaign_time(flaps.lasts), dead});
  }
  return spec;
}

CampaignSpec campaign_spec(const Scenario& s) {
  const FaultsSpec& faults = *s.faults;
  CampaignSpec spec = campaign_machines(s);
  for (const FailureEvent& event : faults.events) {
    const auto kind = std::ranges::find(spec.failures, event.what, &FailureKind::name);
    spec.trace.push_back({to_campaign_time(event.time),
                          static_cast<std::size_t>(kind - spec.failures.begin()),
                          static_cast<std::uint32_t>(event.which)});
  }
  const RestartSpec& r = faults.restart;
  spec.restart = {.stop = to_campaign_time(r.stop),
                  .rendezvous = to_campaign_time(r.rendezvous),
                  .start = to_campaign_time(r.start),
                  .initialisation = to_campaign_time(r.initialisation),
                  .load = {},
                  .load_from_memory = {},
                  .fetch_from_peer = {},
                  .replacement = to_campaign_time(r.replacement),
                  .join_timeout = to_campaign_time(r.join_timeout),
                  .resubmit = to_campaign_time(r.resubmit),
                  .last_call = to_campaign_time(r.last_call),
                  .restarts = r.max_restarts};
  add_checkpoint_times(s, spec);
  spec.work_steps = faults.steps;
  spec.work_samples = faults.samples;
  spec.length = to_campaign_time(faults.length.value > 0 ? faults.length : kLongestCampaign);
  spec.seed = s.run.seed;
  return spec;
}

}  // namespace paceline
