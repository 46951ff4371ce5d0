// What "faults" says, and what it can't mean.
#include "scenarios/faults.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/text.h"
#include "core/unknown_name.h"
#include "scenarios/campaign.h"
#include "scenarios/faults_trace.h"
#include "scenarios/named_json.h"
#include "scenarios/readable.h"
#include "scenarios/reader.h"
#include "scenarios/schema_writer.h"
#include "scenarios/writer.h"
#include "sim/strategy/fsdp.h"

namespace paceline {
namespace {

struct EverySteps {
  std::int64_t steps = 0;
};
template <class V>
void describe(V& v, EverySteps& s) {
  v.key("steps", s.steps, between(1, 1e9), "So many steps.", required());
}

struct WeibullLife {
  double weibull = 1;
};
template <class V>
void describe(V& v, WeibullLife& s) {
  v.key("weibull", s.weibull, between(0.1, 20),
        "The shape: below 1 what is new fails soonest, above 1 what is old.", required());
}

constexpr const char* kExponential = "exponential";

// The rules, without what stands for a time or steps.
std::vector<std::string> rule_names() {
  std::vector<std::string> names = all_names<IntervalRule>();
  std::erase(names, std::string(name_of(IntervalRule::fixed)));
  return names;
}

}  // namespace

void read(const Json& json, CheckpointInterval& interval, const Limits&, const Spot& spot) {
  const auto* text = json.as<std::string>();
  if (json.as<Json::Object>() != nullptr) {
    EverySteps given;
    read_object(json, given, spot);
    interval = {IntervalRule::fixed, {}, given.steps};
  } else if (text != nullptr && std::ranges::count(rule_names(), *text) == 1) {
    interval = {*find_named<IntervalRule>(*text), {}, 0};
  } else if (text != nullptr && !text->empty() && is_digit(text->front())) {
    const std::size_t digits = std::min(text->find_first_not_of("0123456789"), text->size());
    if (const std::string unit = text->substr(digits); unit == " steps" || unit == " step") {
      fail_at(spot, R"({"steps": )" + text->substr(0, digits) + '}', shown(json));
    }
    interval = {IntervalRule::fixed, {}, 0};
    read(json, interval.time, kCampaign, spot);
  } else {
    fail_at(spot, R"(a time such as "30 min", {"steps": 500}, "young", "daly" or "search")", shown(json));
  }
}

Json write(const CheckpointInterval& interval) {
  if (interval.rule != IntervalRule::fixed) {
    return name_of(interval.rule);
  }
  return interval.steps > 0 ? write(EverySteps{interval.steps}) : write(interval.time);
}

Json::Object schema_of(Type<CheckpointInterval>, const Limits&) {
  return one_of({titled("by a rule", schema_of_names(rule_names())),
                 schema_of(Type<LongSeconds>{}, kCampaign),
                 titled("in steps", schema_of(Type<EverySteps>{}, any()))});
}

void read(const Json& json, LifeDistribution& life, const Limits&, const Spot& spot) {
  const auto* text = json.as<std::string>();
  if (json.as<Json::Object>() != nullptr) {
    WeibullLife given;
    read_object(json, given, spot);
    life = {given.weibull};
  } else if (text != nullptr && *text == kExponential) {
    life = {};
  } else {
    fail_at(spot, R"("exponential" or {"weibull": 0.7})", shown(json));
  }
}

Json write(const LifeDistribution& life) {
  return life.weibull == 1 ? Json(kExponential) : write(WeibullLife{life.weibull});
}

Json::Object schema_of(Type<LifeDistribution>, const Limits&) {
  return one_of({titled("by name", schema_of_names({kExponential})),
                 titled("by its shape", schema_of(Type<WeibullLife>{}, any()))});
}

// ---- what the parts mean together ----

namespace {

void check_failure(const FailureSpec& failure, const CampaignSpec& machines, const Spot& spot) {
  const FailureTakes takes = taken_by(failure);
  const auto refuse = [&](const char* key, const std::string& expected) {
    fail_at(below(spot, key), expected, in_quotes(name_of(takes)));
  };
  if (parts_of(machines, failure.of) == 0) {
    fail_at(below(spot, "of"), "what the cluster has",
            in_quotes(name_of(failure.of)) + ": its nodes have none");
  }
  if (failure.of == FailingPart::leaf_switch && machines.nodes_per_leaf >= machines.nodes) {
    fail_at(below(spot, "of"), "what the cluster has",
            in_quotes(name_of(failure.of)) + ": its fabric has no leaves, or all nodes below one");
  }
  const bool switches = failure.of == FailingPart::leaf_switch,
             software = failure.of == FailingPart::software;
  if ((takes == FailureTakes::leaf) != switches && takes != FailureTakes::process) {
    refuse("takes", switches ? R"("process" or "leaf", as it is a switch)"
                             : R"("process" or "node", as it is no switch)");
  }
  if (software && takes != FailureTakes::process) {
    refuse("takes", R"("process", as software breaks no node)");
  }
  if (takes == FailureTakes::process && failure.repair.value > 0) {
    throw InputError("expected no repair where a process alone is gone, which starts again at once",
                     below(spot, "repair").place);
  }
  if (takes != FailureTakes::process && failure.repair.value == 0) {
    throw InputError(
        "missing key \"repair\": how long " +
            std::string(takes == FailureTakes::leaf ? "the nodes of the leaf are" : "the node is") +
            " out, such as \"24 h\"; without a spare the job waits for it",
        spot.place);
  }
}

void check_ends(const FaultsSpec& faults, const Spot& spot) {
  if (faults.steps > 0 && faults.samples > 0) {
    throw InputError("expected either steps or samples, found both", spot.place);
  }
  if (faults.steps == 0 && faults.samples == 0 && faults.length.value == 0) {
    throw InputError("expected what ends the campaign: \"length\": \"54 d\", or \"steps\" or \"samples\"",
                     spot.place);
  }
  if (faults.first_step && !faults.step) {
    throw InputError("expected \"step\" beside \"first_step\": without it both are simulated", spot.place);
  }
  for (std::size_t i = 0; faults.step && i < faults.link_flaps.size(); ++i) {
    if (faults.link_flaps[i].bandwidth_factor > 0) {
      fail_at(below(below(below(spot, "link_flaps"), i), "bandwidth_factor"),
              "0, a link that is gone for a while, beside a given \"step\", which says nothing of links with "
              "less bandwidth",
              number_text(faults.link_flaps[i].bandwidth_factor));
    }
  }
}

void check_events(const FaultsSpec& faults, const CampaignSpec& machines, const Spot& spot) {
  for (std::size_t i = 0; i < faults.events.size(); ++i) {
    const FailureEvent& event = faults.events[i];
    const auto place = [&](const char* key) {
      Spot at = below(below(spot, i), key);
      at.place = event.line > 0 ? "line " + std::to_string(event.line) : at.place;
      return at;
    };
    const auto known =
        std::ranges::find_if(faults.failures, [&](const FailureSpec& f) { return name_of(f) == event.what; });
    if (known == faults.failures.end()) {
      std::vector<std::string> names;
      for (const FailureSpec& failure : faults.failures) {
        names.push_back(name_of(failure));
      }
      throw InputError(unknown_name("failure", in_short(event.what), names), place("what").place);
    }
    const std::uint32_t parts = parts_of(machines, known->of);
    if (event.which >= parts) {
      fail_at(place("which"),
              "a " + std::string(name_of(known->of)) + " from 0 to " + std::to_string(parts - 1),
              std::to_string(event.which));
    }
    if (i > 0 && event.time < faults.events[i - 1].time) {
      fail_at(place("time"), "events in order of time",
              to_text(event.time) + " after " + to_text(faults.events[i - 1].time));
    }
  }
}

void check_elastic(const Scenario& scenario, const Spot& spot) {
  const int nodes = nodes_of_job(scenario.cluster);
  if (scenario.faults->elastic->min_nodes > nodes) {
    fail_at(below(spot, "min_nodes"), "at most the " + std::to_string(nodes) + " nodes of the job",
            std::to_string(scenario.faults->elastic->min_nodes));
  }
  const TrainingSpec& training = scenario.training;
  if (training.strategy == StrategyKind::parameter_server) {
    fail_at(spot, "a strategy that torchrun starts anew with fewer nodes",
            in_quotes(name_of(training.strategy)));
  }
  if (!training.batches.empty() || training.balance || !scenario.gpus.empty()) {
    throw InputError("expected GPUs that are all alike, found batches or kinds of their own", spot.place);
  }
  if (scenario.faults->step) {
    return;
  }
  if (scenario.faults->elastic->keep_batch && !training.layer_times.empty() && training.accumulation == 1) {
    throw InputError(
        "expected no keep_batch beside layer_times, which hold for one batch, and fewer nodes have a larger "
        "one",
        below(spot, "keep_batch").place);
  }
  const Scenario fewest = on_nodes_left(scenario, scenario.faults->elastic->min_nodes);
  if (fewest.training.accumulation > kMostPasses) {
    fail_at(below(spot, "keep_batch"),
            "at most " + std::to_string(kMostPasses) + " passes of a step with min_nodes",
            std::to_string(fewest.training.accumulation));
  }
  for (int left = scenario.faults->elastic->min_nodes; left < nodes; ++left) {
    try {
      require_shards(training, {static_cast<std::uint32_t>(left),
                                static_cast<std::uint32_t>(gpus_of_node(scenario.cluster))});
    } catch (const InputError& error) {
      throw InputError("expected to go on with " + plural(left, "node") + ", found that it can't: " +
                           error.message() + "; min_nodes, or " + error.place() + ", says otherwise",
                       below(spot, "min_nodes").place);
    }
  }
}

}  // namespace

void settle_faults(ScenarioFile& file, const Spot& spot) {
  Scenario scenario = file.scenario;
  scenario.cluster = file.cluster.spec;
  FaultsSpec& faults = *file.scenario.faults;
  check_ends(faults, spot);
  const CampaignSpec machines = campaign_machines(scenario);
  std::set<std::string> names;
  for (std::size_t i = 0; i < faults.failures.size(); ++i) {
    const Spot place = below(below(spot, "failures"), i);
    check_failure(faults.failures[i], machines, place);
    if (!names.insert(name_of(faults.failures[i])).second) {
      throw InputError("expected a name of its own, found " + in_quotes(name_of(faults.failures[i])) +
                           " twice: its draws are addressed by it",
                       place.place);
    }
  }
  if (!faults.trace.empty()) {
    if (!faults.events.empty()) {
      throw InputError("expected either failure_trace or events, found both", spot.place);
    }
    const auto [text, path] = text_in_file(faults.trace, below(spot, "failure_trace"));
    try {
      faults.events = read_failure_trace(text);
      check_events(faults, machines, {});
    } catch (const InputError& error) {
      throw error.in_file(path);
    }
    faults.trace.clear();
  }
  check_events(faults, machines, below(spot, "events"));
  if (file.scenario.gpus.size() > 1 && !faults.step &&
      !(faults.slow_nodes.empty() && faults.link_flaps.empty())) {
    fail_at(below(spot, faults.slow_nodes.empty() ? "link_flaps" : "slow_nodes"),
            "nodes that are all alike, or a given \"step\": which kind is slow decides what it costs",
            "some");
  }
  if (faults.elastic) {
    check_elastic(scenario, below(spot, "elastic"));
  }
}

}  // namespace paceline
