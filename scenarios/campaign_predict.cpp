// Steps of the states that a campaign meets, and its campaigns.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/fingerprint.h"
#include "scenarios/campaign.h"
#include "scenarios/quantities.h"
#include "scenarios/readable.h"
#include "sim/engine/simulate.h"
#include "sim/strategy/run_length.h"

namespace paceline {

namespace {

constexpr int kMostAlike = 3;  // parts in one passing state that are told apart in number

std::int64_t samples_of_step(const Scenario& s, int nodes) {
  return std::int64_t{nodes} * gpus_of_node(s.cluster) * s.training.batch_per_gpu * s.training.accumulation;
}

// The same job on the cluster as it is then: the last nodes are slow, or their links flap.
Scenario in_state(const Scenario& whole, const ClusterState& state) {
  const FaultsSpec& faults = *whole.faults;
  const int gpus = gpus_of_node(whole.cluster);
  Scenario s = on_nodes_left(whole, state.nodes);
  int node = state.nodes;
  for (std::size_t i = 0; i < state.passing.size(); ++i) {
    for (int k = 0; k < state.passing[i] && node > 0; ++k) {
      --node;
      if (i < faults.slow_nodes.size()) {
        SlowGpus slow{{}, {}, faults.slow_nodes[i].factor};
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

double CampaignSteps::to_draw(SimTime step) const {
  constexpr double kLost = 2;  // as many as survive are undone, at most so
  const VariabilitySpec& v = scenario_.variability;
  const auto varies = [](const Distribution& d) { return d.kind != DistributionKind::none; };
  const bool jitters = varies(v.per_operation) || varies(v.per_iteration) || varies(v.per_step) ||
                       !v.transient.empty() ||
                       (scenario_.training.input && varies(scenario_.training.input->jitter));
  const FaultsSpec& faults = *scenario_.faults;
  if (!jitters || faults.step) {
    return 0;
  }
  const double runs = faults.seeds * (1.0 + static_cast<double>(kNames<CampaignLever>.size()));
  const auto samples = static_cast<double>(samples_of_step(scenario_, nodes_of_job(scenario_.cluster)));
  const double work =
      std::max(static_cast<double>(faults.steps), static_cast<double>(faults.samples) / samples);
  const LongSeconds longest = faults.length.value > 0 ? faults.length : kLongestCampaign;
  const double length = longest.value / to_seconds(step).value;
  return (work > 0 ? std::min(length, kLost * work) : length) * runs;
}

StateSteps CampaignSteps::simulated(const ClusterState& state) {
  const Scenario scenario = in_state(scenario_, state);
  const auto built = [&] {
    try {
      return machines_.build(scenario);
    } catch (const InputError& error) {
      throw state.nodes < nodes_of_job(scenario_.cluster)
          ? InputError("expected to go on with " + plural(state.nodes, "node") +
                           ", found that it can't: " + error.what(),
                       "/faults/elastic/min_nodes")
          : error;
    }
  }();
  const Result result = simulate(built.job, with_length(scenario.run, scenario.training));
  StateSteps steps;
  const std::vector<SimTime>& ends = result.iteration_end;
  steps.first = ends.front();
  for (std::size_t i = 1; i < ends.size(); ++i) {
    steps.steps.push_back(ends[i] - ends[i - 1]);
  }
  const auto count = static_cast<std::int64_t>(steps.steps.size());
  steps.mean = {((ends.back() - ends.front()).ps + count / 2) / count};
  if (const double all = to_draw(steps.mean); all == 0 || all > kMostDrawn) {
    steps.steps = {steps.mean};
  }
  return steps;
}

// ---- campaigns ----

Goal intervals_for(double share, Seconds d, Seconds m, Seconds least) {
  const double lost = 1 - share;
  Goal goal;
  const Seconds best = std::max(young_interval(d, m), least);
  goal.longest_restart = m * (lost - best / m / 2 - (d.value > 0 ? d / best : 0));
  for (const double minutes : {1.0, 2.0, 5.0, 10.0, 15.0, 30.0}) {
    // t^2 / 2M - (lost - R / M) t + d <= 0
    const double a = lost - minutes * 60 / m.value, root = a * a - 2 * d.value / m.value;
    const Seconds from = m * (a - std::sqrt(root)), to = m * (a + std::sqrt(root));
    const bool holds = a > 0 && root >= 0 && to >= least;
    goal.rows.push_back(
        {Seconds(minutes * 60), holds ? std::max(from, least) : Seconds(), holds ? to : Seconds()});
  }
  return goal;
}

std::vector<std::string> fatal_failures(const CampaignSpec& spec) {
  std::vector<std::string> names;
  for (const FailureKind& kind : spec.failures) {
    if (spec.checkpoint.memory && !spec.checkpoint.storage && !memory_survives(spec, kind)) {
      names.push_back(kind.name);
    }
  }
  return names;
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
                         readable_duration(to_seconds(c.upload)) + ", found " +
                         readable_duration(to_seconds(uploads)),
                     "/faults/checkpoint/interval");
  }
}

// A log has what was done between any two checkpoints.
void require_short_log(const CampaignSpec& spec, const StateSteps& steps) {
  constexpr double kMostLogged = 1e7;
  const CheckpointTimes& c = spec.checkpoint;
  const double step = to_seconds(steps.mean).value;
  const double interval =
      std::max(step, c.steps > 0 ? step * static_cast<double>(c.steps) : to_seconds(c.interval).value);
  const double samples = static_cast<double>(spec.work_samples) / static_cast<double>(steps.samples);
  const double work = std::max(static_cast<double>(spec.work_steps), samples) * step;
  const double given = to_seconds(spec.length).value;
  const double length = work > 0 ? std::min(work, given) : given;
  if (interval > 0 && length / (interval + to_seconds(c.stall).value) > kMostLogged) {
    throw InputError("expected at most 10 million checkpoints to tell what happened when, found about " +
                         readable_large(length / (interval + to_seconds(c.stall).value)) +
                         ": make the interval longer, or the campaign shorter",
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

CampaignSpec asked_campaign(const Scenario& scenario) {
  const FaultsSpec& faults = *scenario.faults;
  if (!faults.step &&
      (scenario.training.balance || scenario.training.strategy == StrategyKind::parameter_server)) {
    throw InputError(std::string("expected \"step\", a step's time, as steps ") +
                         (scenario.training.balance ? "that are balanced" : "with parameter servers") +
                         " are not simulated for a campaign",
                     "/faults");
  }
  CampaignSpec asked = campaign_spec(scenario);
  require_progress(asked, interval_inputs(asked));
  return asked;
}

CampaignPrediction predict_campaign(const Scenario& scenario, Machines& machines,
                                    const CampaignWanted& wanted) {
  const FaultsSpec& faults = *scenario.faults;
  const CampaignSpec asked = asked_campaign(scenario);
  CampaignSteps steps(scenario, machines);
  const StepsOf steps_of = [&](const ClusterState& state) -> const StateSteps& { return steps(state); };
  CampaignPrediction p;
  p.inputs = interval_inputs(asked);
  p.healthy = steps({asked.nodes, std::vector<int>(asked.passing.size())});
  p.given = faults.step.has_value();
  p.to_draw = steps.to_draw(p.healthy.mean);
  p.taken = p.given ? StepTaken::given : p.healthy.steps.size() > 1 ? StepTaken::drawn : StepTaken::mean;
  p.spec = with_interval(asked);
  require_upload(p.spec, p.healthy);
  p.spec.log = wanted.log;
  if (wanted.log) {
    require_short_log(p.spec, p.healthy);
  }
  const bool levers = wanted.levers && p.inputs.m.value > 0;
  const auto seeds = static_cast<std::size_t>(faults.seeds);
  std::size_t done = 0;
  const auto tell = [&] {
    if (wanted.progress) {
      wanted.progress(++done, seeds * (1 + (levers ? kNames<CampaignLever>.size() : 0)));
    }
  };
  p.reports = run_campaigns(p.spec, steps_of, faults.seeds, tell);
  if (levers) {
    for (const auto& [name, lever] : kNames<CampaignLever>) {
      const CampaignSpec changed = with_interval(with_lever(asked, lever));
      p.levers.push_back({lever, goodput_of_all(run_campaigns(changed, steps_of, faults.seeds, tell)).mean});
    }
  }
  p.states = steps.states();
  return p;
}

std::string why_taken(const CampaignPrediction& p) {
  if (p.taken == StepTaken::given) {
    return "as told";
  }
  if (p.taken == StepTaken::drawn) {
    return "one of the " + std::to_string(p.healthy.steps.size()) + " simulated of its state, drawn";
  }
  const std::string mean = "the mean of those simulated of its state";
  return p.to_draw == 0
             ? mean
             : mean + ", not drawn ones: " + readable_large(p.to_draw) +
                   " would be drawn in all seeds and levers, more than " + readable_large(kMostDrawn);
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
