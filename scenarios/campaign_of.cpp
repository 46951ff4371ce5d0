#include <algorithm>
#include <cmath>
#include <functional>

#include "core/error.h"
#include "core/fingerprint.h"
#include "scenarios/campaign.h"
#include "scenarios/quantities.h"
#include "scenarios/readable.h"
#include "sim/engine/simulate.h"
#include "sim/strategy/memory.h"
#include "sim/strategy/run_length.h"

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
  const double all = static_cast<double>((whole.parameters + whole.optimizer).value);
  const double told = static_cast<double>(s.faults->checkpoint.bytes.value);
  const double scale = told > 0 ? told / all : 1;
  const double gpu = static_cast<double>((kept.parameters + kept.optimizer).value) * scale;
  const double gpus = layout.gpus_per_node, nodes = layout.nodes;
  // A copy of what is whole on each GPU serves the node; shards add up.
  const double shared = static_cast<double>(kept.parameters.value) * scale;
  const bool sharded_parameters =
      fully_shards(training) && !(training.strategy == StrategyKind::zero && training.zero.stage < 3);
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
  const NodeSpec& node = s.cluster.node;
  double nics = node.nic_bandwidth.value * node.nics;
  for (const NodeDevice& device : node.devices) {
    nics += device.bandwidth.value;
  }
  return {c.gpu_bandwidth.value > 0 ? c.gpu_bandwidth.value : node.pcie_bandwidth.value,
          c.node_bandwidth.value > 0 ? c.node_bandwidth.value : nics, c.storage_bandwidth.value};
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

// ---- states ----

namespace {

constexpr int kMostAlike = 3;  // parts in one passing state that are told apart in number

std::int64_t samples_of_step(const Scenario& s, int nodes) {
  return std::int64_t{nodes} * gpus_of_node(s.cluster) * s.training.batch_per_gpu * s.training.accumulation;
}

// The same job on the cluster as it is then: the last nodes are slow, or their links flap.
Scenario in_state(const Scenario& whole, const ClusterState& state) {
  Scenario s = whole;
  const FaultsSpec& faults = *whole.faults;
  const int all = nodes_of_job(s.cluster), gpus = gpus_of_node(s.cluster);
  s.faults.reset();
  (s.cluster.job_nodes > 0 ? s.cluster.job_nodes : s.cluster.nodes) = state.nodes;
  if (state.nodes < all && faults.elastic && faults.elastic->keep_batch) {  // the fullest GPU decides
    s.training.batch_per_gpu = (s.training.batch_per_gpu * all + state.nodes - 1) / state.nodes;
  }
  int node = state.nodes;
  for (std::size_t i = 0; i < state.passing.size(); ++i) {
    for (int k = 0; k < state.passing[i] && node > 0; ++k) {
      --node;
      if (i < faults.slow_nodes.size()) {
        SlowGpus slow{{}, 0, faults.slow_nodes[i].factor};
        for (int g = 0; g < gpus; ++g) {
          slow.ranks.push_back(std::int64_t{node} * gpus + g);
        }
        s.variability.slow_gpus.push_back(std::move(slow));
      } else if (faults.link_flaps[i - faults.slow_nodes.size()].bandwidth_factor > 0) {
        s.cluster.degraded.push_back(
            {.from = "node" + std::to_string(node) + "/nic0",
             .to = {},
             .bandwidth_factor = faults.link_flaps[i - faults.slow_nodes.size()].bandwidth_factor,
             .extra_latency = {}});
      }
    }
  }
  return s;
}

}  // namespace

const StateSteps& CampaignSteps::operator()(const ClusterState& state) {
  if (const auto known = known_.find(state); known != known_.end()) {
    return known->second;
  }
  ClusterState alike = state;
  for (int& parts : alike.passing) {
    parts = std::min(parts, kMostAlike);
  }
  if (alike != state) {
    return (*this)(alike);
  }
  StateSteps steps = scenario_.faults->step ? given(state) : simulated(state);
  const std::optional<ElasticSpec>& elastic = scenario_.faults->elastic;
  steps.samples = samples_of_step(
      scenario_, elastic && elastic->keep_batch ? nodes_of_job(scenario_.cluster) : state.nodes);
  return known_.emplace(state, std::move(steps)).first->second;
}

// A step that is given is one of all nodes: what the others share of its batch takes so much longer. Slow nodes make it
// slow by their factor; of links nothing is known.
StateSteps CampaignSteps::given(const ClusterState& state) const {
  const FaultsSpec& faults = *scenario_.faults;
  const bool shared = faults.elastic && faults.elastic->keep_batch;
  double factor = shared ? static_cast<double>(nodes_of_job(scenario_.cluster)) / state.nodes : 1;
  double slowest = 1;
  for (std::size_t i = 0; i < faults.slow_nodes.size(); ++i) {
    slowest = state.passing[i] > 0 ? std::max(slowest, faults.slow_nodes[i].factor) : slowest;
  }
  factor *= slowest;
  const SimTime step = to_sim_time(to_seconds(*faults.step) * factor);
  return {{step}, step, to_sim_time(to_seconds(faults.first_step.value_or(*faults.step)) * factor), 1};
}

// Where steps jitter each is drawn, unless there are too many.
bool CampaignSteps::draws(SimTime step) const {
  constexpr double kMostDrawn = 3e8;
  const VariabilitySpec& v = scenario_.variability;
  const auto varies = [](const Distribution& d) { return d.kind != DistributionKind::none; };
  const bool jitters = varies(v.per_operation) || varies(v.per_iteration) || varies(v.per_step) ||
                       !v.transient.empty() ||
                       (scenario_.training.input && varies(scenario_.training.input->jitter));
  const FaultsSpec& faults = *scenario_.faults;
  const double runs = faults.seeds * (1.0 + static_cast<double>(kNames<CampaignLever>.size()));
  const double length = faults.length.value > 0 ? faults.length.value / to_seconds(step).value : kMostDrawn;
  const double work = faults.steps > 0 ? 2.0 * static_cast<double>(faults.steps) : length;
  return jitters && std::min(length, work) * runs <= kMostDrawn;
}

StateSteps CampaignSteps::simulated(const ClusterState& state) {
  const Scenario scenario = in_state(scenario_, state);
  auto [topology, job] = machines_.build(scenario);
  const Result result = simulate(job, with_length(scenario.run, scenario.training));
  StateSteps steps;
  const std::vector<SimTime>& ends = result.iteration_end;
  steps.first = ends.front();
  for (std::size_t i = 1; i < ends.size(); ++i) {
    steps.steps.push_back(ends[i] - ends[i - 1]);
  }
  const auto count = static_cast<std::int64_t>(steps.steps.size());
  steps.mean = {((ends.back() - ends.front()).ps + count / 2) / count};
  if (!draws(steps.mean)) {
    steps.steps = {steps.mean};
  }
  return steps;
}

// ---- campaigns ----

Goal intervals_for(double share, Seconds d, Seconds m) {
  const double lost = 1 - share;
  Goal goal;
  goal.longest_restart = Seconds(m.value * (lost - std::sqrt(2 * d.value / m.value)));
  for (const double minutes : {1.0, 2.0, 5.0, 10.0, 15.0, 30.0}) {
    // t^2 / 2M - (lost - R / M) t + d <= 0
    const double a = lost - minutes * 60 / m.value, root = a * a - 2 * d.value / m.value;
    const bool holds = a > 0 && root >= 0;
    goal.rows.push_back({Seconds(minutes * 60), Seconds(holds ? m.value * (a - std::sqrt(root)) : 0),
                         Seconds(holds ? m.value * (a + std::sqrt(root)) : 0)});
  }
  return goal;
}

namespace {

void require_progress(const CampaignSpec& spec, const IntervalInputs& inputs) {
  if (inputs.m.value == 0 && spec.checkpoint.rule != IntervalRule::fixed) {
    throw InputError("expected a time or steps, as no failure has an mtbf that " +
                         in_quotes(name_of(spec.checkpoint.rule)) + " could follow",
                     "/faults/checkpoint/interval");
  }
  if (inputs.m.value > 0 && inputs.m < inputs.r + inputs.d) {
    throw InputError("expected failures less often than a restart and a checkpoint take, found one every " +
                         readable_duration(inputs.m) + " and " + readable_duration(inputs.r) + " + " +
                         readable_duration(inputs.d) + ": the job would hardly ever get anywhere",
                     "/faults");
  }
}

void require_upload(const CampaignSpec& spec, const StateSteps& steps) {
  const CheckpointTimes& c = spec.checkpoint;
  const CampaignTime interval = c.steps > 0 ? CampaignTime(steps.mean) * c.steps : c.interval;
  const CampaignTime uploads = interval * (c.memory ? c.storage_every : 1);
  if (uploads < c.upload) {
    throw InputError("expected an interval at least as long as an upload, " +
                         readable_duration(Seconds(to_seconds(c.upload))) + ", found " +
                         readable_duration(Seconds(to_seconds(uploads))),
                     "/faults/checkpoint/interval");
  }
}

Spread goodput_of_all(const std::vector<CampaignReport>& reports) {
  std::vector<double> shares;
  for (const CampaignReport& report : reports) {
    shares.push_back(report.goodput_share());
  }
  return spread_of(std::move(shares));
}

}  // namespace

CampaignPrediction predict_campaign(const Scenario& scenario, Machines& machines, bool log) {
  const FaultsSpec& faults = *scenario.faults;
  if (!faults.step &&
      (scenario.training.balance || scenario.training.strategy == StrategyKind::parameter_server)) {
    throw InputError(std::string("expected \"step\", a step's time, as steps ") +
                         (scenario.training.balance ? "that are balanced" : "with parameter servers") +
                         " are not simulated for a campaign",
                     "/faults");
  }
  CampaignSteps steps(scenario, machines);
  const StepsOf steps_of = [&](const ClusterState& state) -> const StateSteps& { return steps(state); };
  const CampaignSpec asked = campaign_spec(scenario);
  CampaignPrediction p;
  p.inputs = interval_inputs(asked);
  require_progress(asked, p.inputs);
  p.healthy = steps({asked.nodes, std::vector<int>(asked.passing.size())});
  p.given = faults.step.has_value();
  p.spec = with_interval(asked);
  require_upload(p.spec, p.healthy);
  p.spec.log = log;
  p.reports = run_campaigns(p.spec, steps_of, faults.seeds);
  if (p.inputs.m.value > 0) {
    for (const auto& [name, lever] : kNames<CampaignLever>) {
      const CampaignSpec changed = with_interval(with_lever(asked, lever));
      p.levers.push_back({lever, goodput_of_all(run_campaigns(changed, steps_of, faults.seeds)).mean});
    }
  }
  p.states = steps.states();
  return p;
}

Spread goodput_of(const CampaignPrediction& p) { return goodput_of_all(p.reports); }

std::uint64_t fingerprint_of(const CampaignPrediction& p) {
  std::uint64_t hash = 0;
  for (const CampaignReport& report : p.reports) {
    hash = mix64(hash ^ fingerprint_of(report));
  }
  return hash;
}

}  // namespace paceline
