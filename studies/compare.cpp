#include "studies/compare.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "core/version.h"
#include "scenarios/campaign.h"
#include "scenarios/description.h"
#include "scenarios/files.h"
#include "scenarios/gpu_memory.h"
#include "scenarios/readable.h"
#include "scenarios/reader.h"
#include "scenarios/result_json.h"
#include "scenarios/run_table.h"
#include "scenarios/schema_writer.h"
#include "scenarios/writer.h"
#include "sim/strategy/compression.h"

namespace paceline {
namespace {

constexpr const char *kPlace = "--strategies", *kReshard = "reshard_after_forward",
                     *kCompression = "/training/compression", *kCheckpointing = "activation_checkpointing",
                     *kRecomputeEvery = "recompute_every", *kNoSync = "no_sync";

// `options`: whose keys it takes.
struct NamedStrategy {
  const char* name;
  StrategyKind kind;
  int stage;  // 0: the file's
  StrategyKind options;
};
constexpr NamedStrategy kStrategies[] = {
    {"ddp", StrategyKind::ddp, 0, StrategyKind::ddp},
    {"fsdp", StrategyKind::fsdp, 0, StrategyKind::fsdp},
    {"zero1", StrategyKind::zero, 1, StrategyKind::ddp},
    {"zero2", StrategyKind::zero, 2, StrategyKind::fsdp},
    {"zero3", StrategyKind::zero, 3, StrategyKind::fsdp},
    {"parameter_server", StrategyKind::parameter_server, 0, StrategyKind::parameter_server},
    {"data_parallel", StrategyKind::data_parallel, 0, StrategyKind::data_parallel},
    {"mirrored", StrategyKind::mirrored, 0, StrategyKind::mirrored},
    {"horovod", StrategyKind::horovod, 0, StrategyKind::horovod},
    {"local_sgd", StrategyKind::local_sgd, 0, StrategyKind::local_sgd}};

constexpr const char* kOfStage1[] = {"reduce_scatter", "overlap_gather"};  // of ZeRO, beside ddp's options

const NamedStrategy& strategy_named(const std::string& name) {
  const auto* const found = std::ranges::find(kStrategies, name, &NamedStrategy::name);
  if (found == std::end(kStrategies)) {
    std::vector<std::string> known;
    std::ranges::transform(kStrategies, std::back_inserter(known), &NamedStrategy::name);
    const bool compression = find_named<CompressionKind>(name).has_value();
    throw InputError(
        unknown_name(
            "strategy", name, known,
            compression ? "It is a compression: write " + in_quotes("ddp:compression=" + name) + '.' : ""),
        kPlace);
  }
  return *found;
}

// At these characters, but not inside brackets and quotes.
std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool quoted = false;
  for (const char c : text) {
    quoted = quoted != (c == '"');
    depth += quoted ? 0 : c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    if (c == at && depth == 0 && !quoted) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool is_option_of_compression(const std::string& key) {
  static const std::vector<KeyPlaces> keys = scenario_keys();
  const auto found = std::ranges::find(keys, key, &KeyPlaces::key);
  return found != keys.end() && std::ranges::count(found->places, kCompression) > 0 &&
         std::ranges::count(found->places, "/training/ddp") == 0;
}

// "ddp:compression=powersgd:rank=4": of the compression that the choice has named before.
void add_to_compression(StrategyChoice& choice, const std::string& key, Json value) {
  const auto named = std::ranges::find(choice.edits, kCompression, &Edit::key);
  if (named == choice.edits.end()) {
    throw InputError("expected the compression before its option, such as " +
                         in_quotes("ddp:compression=powersgd:" + key + "=" + to_line(value)) + ", found " +
                         in_quotes(choice.name),
                     kPlace);
  }
  const auto* given = named->value.as<Json::Object>();
  Json::Object options = given != nullptr ? *given : Json::Object{{"kind", named->value}};
  std::erase_if(options, [&](const JsonMember& option) { return option.key == key; });
  options.push_back({key, std::move(value)});
  named->value = std::move(options);
}

StrategyChoice choice_in(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  const NamedStrategy& strategy = strategy_named(parts.front());
  StrategyChoice choice{text, {{"/training/strategy", name_of(strategy.kind)}}};
  if (strategy.stage > 0) {
    choice.edits.push_back({"/training/zero/stage", std::int64_t{strategy.stage}});
  }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t end = parts[i].find('=');
    if (end == std::string::npos || end == 0) {
      throw InputError("expected NAME:KEY=VALUE such as fsdp:shard_group=node, found " + in_quotes(text),
                       kPlace);
    }
    const std::string key = parts[i].substr(0, end);
    if (strategy.stage > 1 && key == kReshard) {
      throw InputError("expected another option of " + parts.front() + ", whose stage says what " +
                           in_quotes(kReshard) + " is, found " + in_quotes(text),
                       kPlace);
    }
    const std::string given = parts[i].substr(end + 1);
    Json value = key == "version" ? Json(given) : value_of_text(given);  // 0.19 is none
    const std::string options = "/training/" + std::string(name_of(strategy.options)) + '/';
    if (strategy.kind == StrategyKind::parameter_server && key == "stale") {
      choice.edits.push_back({options + "consistency", Json::Object{{key, std::move(value)}}});
    } else if (strategy.stage == 1 && std::ranges::count(kOfStage1, key) > 0) {
      choice.edits.push_back({"/training/zero/" + key, std::move(value)});
    } else if (key == kCheckpointing || key == kRecomputeEvery || key == kNoSync) {
      choice.edits.push_back({"/training/" + key, std::move(value)});
    } else if (strategy.options == StrategyKind::ddp && key == "compression") {
      choice.edits.push_back({kCompression, std::move(value)});
    } else if (strategy.options == StrategyKind::ddp && is_option_of_compression(key)) {
      add_to_compression(choice, key, std::move(value));
    } else {
      choice.edits.push_back({options + key, std::move(value)});
    }
  }
  const auto said = [&](const char* key) {
    return std::ranges::find(choice.edits, std::string("/training/") + key, &Edit::key);
  };
  const auto checkpointing = said(kCheckpointing), end = choice.edits.end();
  const auto* word = checkpointing == end ? nullptr : checkpointing->value.as<std::string>();
  if (word != nullptr && *word != name_of(ActivationCheckpointing::full) && said(kRecomputeEvery) == end) {
    choice.edits.push_back({std::string("/training/") + kRecomputeEvery, 1});
  }
  return choice;
}

// DDP's communication hooks.
bool has_hooks(const StrategyChoice& choice) {
  return strategy_named(split(choice.name, ':').front()).options == StrategyKind::ddp;
}

bool compresses(const Json& scenario) {
  const Json* given = value_at(scenario, kCompression);
  const Json* kind = given != nullptr && given->as<Json::Object>() != nullptr ? given->find("kind") : given;
  const auto* name = kind == nullptr ? nullptr : kind->as<std::string>();
  return given != nullptr && (name == nullptr || *name != name_of(CompressionKind::none));
}

// The file's compression is for those that have hooks; where none has, it stays for the reader to refuse.
std::vector<StrategyChoice> with_hooks_where_they_are(std::vector<StrategyChoice> choices,
                                                      const Json& scenario) {
  if (compresses(scenario) && std::ranges::any_of(choices, has_hooks)) {
    for (StrategyChoice& choice : choices) {
      if (!has_hooks(choice)) {
        choice.edits.push_back({kCompression, name_of(CompressionKind::none)});
      }
    }
  }
  return choices;
}

bool fits(const Prediction& p) { return does_not_fit(p.scenario).empty(); }

// The parts of a step, as the page calls them.
struct Part {
  const char* name;
  Seconds BreakdownSeconds::* seconds;
};
constexpr Part kParts[] = {{"compute", &BreakdownSeconds::compute},
                           {"exposed communication", &BreakdownSeconds::exposed_communication},
                           {"waiting for stragglers", &BreakdownSeconds::straggler_wait},
                           {"waiting for servers", &BreakdownSeconds::server_wait},
                           {"waiting for input", &BreakdownSeconds::input_wait},
                           {"launches and idle time", &BreakdownSeconds::other}};

// Of one set of samples of all workers.
Seconds step_of(const Prediction& p) {
  return Seconds(static_cast<double>(p.job.samples_per_iteration) / p.report.throughput);
}

// Samples per second of gradients that are stale, or dropped, are no samples per second of others.
std::string at_the_price_of(const Prediction& p) {
  if (p.report.period) {
    return ", with parameters averaged every " + std::to_string(p.report.period->steps) + " steps";
  }
  if (!p.report.servers) {
    return "";
  }
  const ServersReport& servers = *p.report.servers;
  return (servers.mean_staleness > 0
              ? ", with gradients " + fixed(servers.mean_staleness, 1) +
                    " updates stale (95 %: " + std::to_string(servers.staleness_p95) + ")"
              : "") +
         (servers.dropped_share > 0
              ? ", with " + fixed(100 * servers.dropped_share, 1) + " % of gradients dropped"
              : "");
}

// "loses 12.1 ms a step, 9.9 ms of it exposed communication"; less than a thousandth is as fast.
std::string against(const Prediction& best, const Prediction& p) {
  constexpr double kAlike = 1e-3;
  const Seconds lost = step_of(p) - step_of(best);
  if (std::abs(lost / step_of(best)) < kAlike) {
    return "is as fast";
  }
  const bool slower = lost.value > 0;
  const auto more = [&](const Part& part) {
    const Seconds difference = p.report.breakdown.*part.seconds - best.report.breakdown.*part.seconds;
    return slower ? difference : Seconds(-difference.value);
  };
  const Part& most =
      *std::ranges::max_element(kParts, {}, [&](const Part& part) { return more(part).value; });
  return (slower ? "loses " : "would save ") + readable_time(slower ? lost : Seconds(-lost.value)) +
         " a step, " + readable_time(more(most)) + (slower ? " more " : " less ") + most.name;
}

// Without compression, and all else as this one has it; where there is none, the first of this strategy.
struct Uncompressed {
  const ComparedStrategy* entry = nullptr;
  bool alike = false;
};
Uncompressed uncompressed(const std::vector<ComparedStrategy>& all, const ComparedStrategy& compressed) {
  const auto otherwise = [](const ComparedStrategy& each) {
    Scenario plain = each.prediction.scenario;
    plain.training.compression = {};
    return to_line(scenario_json(plain));
  };
  const std::string wanted = otherwise(compressed);
  Uncompressed found;
  for (const ComparedStrategy& other : all) {
    const TrainingSpec &t = other.prediction.scenario.training,
                       &training = compressed.prediction.scenario.training;
    const bool plain = t.strategy == training.strategy && t.compression.kind == CompressionKind::none &&
                       (t.strategy != StrategyKind::zero || t.zero.stage == training.zero.stage);
    const bool alike = plain && otherwise(other) == wanted;
    if (plain && (found.entry == nullptr || (alike && !found.alike))) {
      found = {&other, alike};
    }
  }
  return found;
}

// "ddp:compression=powersgd saves 61.00 ms of network and costs 74.00 ms by kernels and overlap."
std::string price_of_compression(const std::vector<ComparedStrategy>& all) {
  std::string text;
  for (const ComparedStrategy& each : all) {
    const Uncompressed plain = uncompressed(all, each);
    if (plain.entry == nullptr || !each.prediction.report.compression) {
      continue;
    }
    const Report &with = each.prediction.report, &without = plain.entry->prediction.report;
    const Seconds saved = without.exchange - with.exchange;
    const Seconds cost = with.step.mean - without.step.mean + saved;
    const auto amount = [](Seconds s) { return readable_time(s.value < 0 ? Seconds(-s.value) : s); };
    text += each.choice.name + (saved.value < 0 ? " adds " : " saves ") + amount(saved) + " of network and " +
            (cost.value < 0 ? "gains " : "costs ") + amount(cost) + " by kernels and overlap" +
            (plain.alike ? "" : ", against " + plain.entry->choice.name + ", whose other options differ") +
            ".\n";
  }
  return text;
}

bool any_fits(const std::vector<ComparedStrategy>& all) {
  return std::ranges::any_of(all, [](const auto& each) { return fits(each.prediction); });
}

// Of those that fit; of all where none does.
template <class Better>
const ComparedStrategy& best_of(const std::vector<ComparedStrategy>& all, const Better& better) {
  const bool any = any_fits(all);
  const ComparedStrategy* best = nullptr;
  for (const ComparedStrategy& each : all) {
    if ((fits(each.prediction) || !any) && (best == nullptr || better(each.prediction, best->prediction))) {
      best = &each;
    }
  }
  return *best;
}

// Who is the fastest, at which amount, and how the others stand against it.
template <class Better, class Amount, class Against>
std::string verdict_by(const std::vector<ComparedStrategy>& all, const Better& better, const Amount& amount,
                       const Against& stands) {
  const bool any = any_fits(all);
  const bool all_fit = std::ranges::all_of(all, [](const auto& each) { return fits(each.prediction); });
  const ComparedStrategy& best = best_of(all, better);
  std::string text = any ? "" : "None of them fits; if it did, ";
  text += best.choice.name +
          (all.size() == 1 ? " takes "
           : all_fit       ? " is the fastest, with "
           : any           ? " is the fastest that fits, with "
                           : " would be the fastest, with ") +
          amount(best.prediction) + at_the_price_of(best.prediction);
  for (const ComparedStrategy& each : all) {
    if (&each != &best) {
      text += "; " + each.choice.name + (any && !fits(each.prediction) ? " does not fit, and " : " ") +
              stands(best.prediction, each.prediction) + at_the_price_of(each.prediction);
    }
  }
  return text + '.';
}

std::string verdict_on(const std::vector<ComparedStrategy>& all) {
  return verdict_by(
      all, [](const Prediction& a, const Prediction& b) { return step_of(a) < step_of(b); },
      [](const Prediction& p) { return readable_time(step_of(p)) + " a step"; }, against);
}

// Options of the file for a strategy that isn't the one at hand.
std::vector<std::string> remarks_on(const Json& scenario, const std::vector<StrategyChoice>& choices) {
  std::vector<std::string> remarks;
  for (const StrategyKind kind : {StrategyKind::ddp, StrategyKind::fsdp}) {
    const std::string name(name_of(kind));
    const Json* options = value_at(scenario, "/training/" + name);
    const auto* given = options == nullptr ? nullptr : options->as<Json::Object>();
    std::vector<std::string> keys, without;
    for (const StrategyChoice& choice : choices) {
      const StrategyKind of = strategy_named(split(choice.name, ':').front()).options;
      const bool takes_them_too = kind == StrategyKind::ddp && of == StrategyKind::local_sgd;
      if (of != kind && !takes_them_too) {
        without.push_back(choice.name);
      }
    }
    for (std::size_t i = 0; given != nullptr && i < given->size(); ++i) {
      keys.push_back((*given)[i].key);
    }
    if (kind == StrategyKind::fsdp && std::ranges::find(keys, kReshard) != keys.end()) {
      for (const StrategyChoice& choice : choices) {
        if (strategy_named(split(choice.name, ':').front()).stage > 1) {
          remarks.push_back(in_quotes(kReshard) + " of fsdp in the file doesn't count for " +
                            in_quotes(choice.name) + ", whose stage says what it is");
        }
      }
    }
    if (!keys.empty() && !without.empty()) {
      remarks.push_back("options of " + name + " in the file (" + quoted_list(keys, "and") +
                        ") don't count for " + quoted_list(without, "and"));
    }
  }
  std::vector<std::string> of_stage_1, without_stage_1;
  for (const char* const key : kOfStage1) {
    if (value_at(scenario, std::string("/training/zero/") + key) != nullptr) {
      of_stage_1.emplace_back(key);
    }
  }
  for (const StrategyChoice& choice : choices) {
    if (strategy_named(split(choice.name, ':').front()).stage != 1) {
      without_stage_1.push_back(choice.name);
    }
  }
  if (!of_stage_1.empty() && !without_stage_1.empty()) {
    remarks.push_back("options of zero in the file (" + quoted_list(of_stage_1, "and") +
                      ") don't count for " + quoted_list(without_stage_1, "and"));
  }
  std::vector<std::string> without_hook;
  for (const StrategyChoice& choice : choices) {
    if (!has_hooks(choice)) {
      without_hook.push_back(choice.name);
    }
  }
  if (compresses(scenario) && !without_hook.empty()) {
    remarks.push_back("the compression in the file doesn't count for " + quoted_list(without_hook, "and") +
                      ": it is a communication hook, which DDP has and ZeRO's stage 1 with it");
  }
  return remarks;
}

std::string gigabytes(double bytes) { return fixed(bytes * 1e-9, 2) + " GB"; }

Json::Object row_json(const ComparedStrategy& each, bool of_scenarios) {
  Json::Object edits;
  for (const Edit& edit : each.choice.edits) {
    edits.push_back({edit.key, edit.value});
  }
  Json::Object object = of_scenarios
                            ? Json::Object{{"scenario", each.choice.name}}
                            : Json::Object{{"strategy", each.choice.name}, {"edits", std::move(edits)}};
  for (JsonMember& member : result_summary(each.prediction)) {
    object.push_back(std::move(member));
  }
  return object;
}

}  // namespace

Scenario scenario_with(const StrategyChoice& choice, Json scenario, const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  for (const Edit& edit : choice.edits) {
    set_at(scenario, edit.key, edit.value, folder);
  }
  return parse_scenario(to_line(scenario), file);
}

namespace {

// The file's own strategy says with what its rates were measured, whatever a choice makes of it.
void pin_checkpointing(const TrainingSpec& written, std::vector<MeasuredRate>& rates) {
  for (MeasuredRate& rate : rates) {
    paceline::pin_checkpointing(rate, written);
  }
}

}  // namespace

std::vector<Scenario> scenarios_of(const std::vector<StrategyChoice>& choices, const Json& scenario,
                                   const std::string& file, const std::function<Scenario(Scenario)>& adjust) {
  std::vector<Scenario> scenarios;
  for (const StrategyChoice& choice : choices) {
    Scenario chosen = scenario_with(choice, scenario, file);
    TrainingSpec written;
    read_object(*value_at(scenario, "/training"), written,
                {"/training", std::filesystem::path(file).parent_path().string(), 0});
    pin_checkpointing(written, chosen.training.measured);
    for (GpuKind& kind : chosen.gpus) {
      pin_checkpointing(written, kind.measured);
    }
    try {
      scenarios.push_back(adjust(std::move(chosen)));
    } catch (const InputError& error) {  // of the scenario, not of an option
      throw error.place().starts_with('/')
          ? InputError(choice.name + ": " + error.message(), error.place(), file)
          : error;
    }
  }
  return scenarios;
}

std::vector<StrategyChoice> strategy_choices(const std::string& list) {
  std::vector<StrategyChoice> choices;
  for (const std::string& each : split(list, ',')) {
    const std::size_t first = each.find_first_not_of(' '), last = each.find_last_not_of(' ');
    choices.push_back(choice_in(first == each.npos ? "" : each.substr(first, last + 1 - first)));
    if (std::ranges::count(choices, choices.back().name, &StrategyChoice::name) > 1) {
      throw InputError("expected each strategy once, found " + in_quotes(choices.back().name) + " twice",
                       kPlace);
    }
  }
  return choices;
}

namespace {

// Where nothing said makes ZeRO's passes of accumulation another thing than DDP's or FSDP's.
std::string passes_that_differ(const std::vector<ComparedStrategy>& all) {
  std::vector<std::string> in_each, in_the_last;
  for (const ComparedStrategy& each : all) {
    const TrainingSpec& training = each.prediction.scenario.training;
    TrainingSpec otherwise = training;
    otherwise.no_sync = reduces_each_pass(training);
    if (each.prediction.job.ranks() == 1 || reduces_each_pass(training) == reduces_each_pass(otherwise)) {
      continue;  // nothing to reduce, one pass, or nothing of the kind
    }
    if (!reduces_each_pass(training)) {
      in_the_last.push_back(each.choice.name);
    } else if (!training.no_sync) {
      in_each.push_back(each.choice.name);
    }
  }
  return in_each.empty() || in_the_last.empty()
             ? ""
             : "gradients are reduced in each pass of accumulation by " + quoted_list(in_each, "and") +
                   ", as DeepSpeed does, and in the last alone by " + quoted_list(in_the_last, "and") +
                   " (training.no_sync)";
}

// Each on a thread; remarks are on what they are.
Comparison predicted(const std::vector<StrategyChoice>& choices, const std::vector<NamedScenario>& scenarios,
                     int jobs, const ComparisonProgress& progress) {
  Machines machines;
  std::vector<std::optional<Prediction>> predictions(choices.size());
  std::mutex telling;
  for_each_on_threads(choices.size(), jobs, [&](std::size_t i) {
    const auto tell = [&](std::size_t done, std::size_t all) {
      const std::lock_guard lock(telling);
      progress(choices[i].name, done, all);
    };
    try {
      predictions[i] =
          predict(scenarios[i].scenario, {}, machines, progress ? StepProgress(tell) : StepProgress{});
    } catch (const InputError& error) {
      throw error.in_file(scenarios[i].file);
    }
  });
  Comparison comparison;
  bool faults = false;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const SentBytes sent = sent_bytes(predictions[i]->job);
    comparison.strategies.push_back({choices[i], std::move(*predictions[i]), sent});
    const ComparedStrategy& each = comparison.strategies.back();
    if (each.prediction.report.compression && orthogonalises_by_qr(each.prediction.scenario.training)) {
      comparison.remarks.push_back(
          "the time of " + in_quotes(each.choice.name) +
          " is a guess: above rank 2 PyTorch orthogonalises fp32 by a QR, whose kernels aren't known here; "
          "Gram-Schmidt stands in its place");
    }
    faults = faults || each.prediction.scenario.faults;
  }
  if (std::string differ = passes_that_differ(comparison.strategies); !differ.empty()) {
    comparison.remarks.push_back(std::move(differ));
  }
  if (faults) {
    comparison.remarks.emplace_back(
        "steps are compared: faults don't count here, `paceline run` tells what they leave");
  }
  return comparison;
}

// The same work for a sample.
bool train_alike(const ComparedStrategy& a, const ComparedStrategy& b) {
  const Model &one = a.prediction.scenario.model, &other = b.prediction.scenario.model;
  return parameter_count(one) == parameter_count(other) && forward_macs(one) == forward_macs(other);
}

// Where GPUs or samples of a step differ: samples a second, of all GPUs and of one.
std::string verdict_by_rate(const std::vector<ComparedStrategy>& all) {
  constexpr double kAlike = 1.001;
  const auto rate = [](const Prediction& p) { return p.report.throughput; };
  const auto of_gpu = [&](const Prediction& p) { return rate(p) / static_cast<double>(p.job.ranks()); };
  const auto amount = [](double samples) { return readable_count(samples) + " samples/s"; };
  const ComparedStrategy& most =
      best_of(all, [&](const Prediction& a, const Prediction& b) { return of_gpu(a) > kAlike * of_gpu(b); });
  return verdict_by(
             all, [&](const Prediction& a, const Prediction& b) { return rate(a) > rate(b); },
             [&](const Prediction& p) { return amount(rate(p)); },
             [&](const Prediction& best, const Prediction& p) {
               return "has " + fixed(100 * rate(p) / rate(best), 1) + " % of that";
             }) +
         " A GPU does most in " + most.choice.name + ": " + amount(of_gpu(most.prediction)) + '.';
}

std::string verdict_on_scenarios(const std::vector<ComparedStrategy>& all) {
  const ComparedStrategy& first = all.front();
  const auto same_step = [&](const ComparedStrategy& each) {
    const TrainingJob &a = first.prediction.job, &b = each.prediction.job;
    return a.ranks() == b.ranks() && a.samples_per_iteration == b.samples_per_iteration;
  };
  const auto alike = [&](const ComparedStrategy& each) { return train_alike(first, each); };
  return !std::ranges::all_of(all, alike)
             ? "They train different models, or samples of different lengths: none is called the fastest."
         : std::ranges::all_of(all, same_step) ? verdict_on(all)
                                               : verdict_by_rate(all);
}

}  // namespace

Comparison compare(const Json& scenario, const std::string& file, const std::vector<StrategyChoice>& asked,
                   int jobs, const std::function<Scenario(Scenario)>& adjust,
                   const ComparisonProgress& progress) {
  const std::vector<StrategyChoice> choices = with_hooks_where_they_are(asked, scenario);
  std::vector<NamedScenario> scenarios;
  for (Scenario& each : scenarios_of(choices, scenario, file, adjust)) {
    scenarios.push_back({"", file, std::move(each)});
  }
  Comparison comparison = predicted(choices, scenarios, jobs, progress);
  comparison.verdict = verdict_on(comparison.strategies);
  std::vector<std::string> remarks = remarks_on(scenario, choices);
  comparison.remarks.insert(comparison.remarks.begin(), remarks.begin(), remarks.end());
  return comparison;
}

std::vector<std::string> short_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    names.push_back(std::filesystem::path(path).stem().string());
  }
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end() ? names : paths;
}

Comparison compare_scenarios(const std::vector<NamedScenario>& scenarios, int jobs,
                             const ComparisonProgress& progress) {
  std::vector<StrategyChoice> choices;
  for (const NamedScenario& each : scenarios) {
    if (!simulates_steps(each.scenario)) {
      throw InputError("expected scenarios whose steps are simulated, found one that gives its step",
                       "/faults/step", each.file);
    }
    if (std::ranges::count(choices, each.name, &StrategyChoice::name) > 0) {
      throw InputError("expected each scenario once, found " + in_quotes(each.name) + " twice", "SCENARIO");
    }
    choices.push_back({each.name, {}});
  }
  Comparison comparison = predicted(choices, scenarios, jobs, progress);
  comparison.of_scenarios = true;
  comparison.verdict = verdict_on_scenarios(comparison.strategies);
  return comparison;
}

std::string comparison_text(const Comparison& comparison) {
  const bool serve = std::ranges::any_of(comparison.strategies, [](const ComparedStrategy& each) {
    return each.prediction.report.servers.has_value();
  });
  const bool averages = std::ranges::any_of(comparison.strategies, [](const ComparedStrategy& each) {
    return each.prediction.scenario.training.strategy == StrategyKind::local_sgd;
  });
  const bool of_scenarios = comparison.of_scenarios;
  std::vector<Cells> rows{
      {of_scenarios ? "scenario" : "strategy", "step", "samples/s", "exposed", "NVLink", "NIC", "memory"}};
  if (of_scenarios) {
    rows.front().insert(rows.front().begin() + 3, "of a GPU");
  }
  if (serve) {
    rows.front().insert(rows.front().end(), {"stale", "95 %", "dropped", "into server"});
  }
  const bool compress = std::ranges::any_of(comparison.strategies, [](const ComparedStrategy& each) {
    return each.prediction.report.compression.has_value();
  });
  if (compress) {
    rows.front().insert(rows.front().end(), {"sends", "hooks", "of step"});
  }
  rows.front().emplace_back("");
  std::string too_large;
  for (const auto& [choice, p, sent] : comparison.strategies) {
    const GpuMemory memory = memory_of(p.scenario);
    rows.push_back({choice.name, readable_time(p.report.step.mean), readable_count(p.report.throughput),
                    readable_time(p.report.breakdown.exposed_communication),
                    gigabytes(sent.nvlink + sent.pcie), gigabytes(sent.network),
                    gigabytes(static_cast<double>(memory.total().value))});
    if (of_scenarios) {
      rows.back().insert(rows.back().begin() + 3,
                         readable_count(p.report.throughput / static_cast<double>(p.job.ranks())));
    }
    if (serve) {
      const std::optional<ServersReport>& servers = p.report.servers;
      rows.back().push_back(servers ? fixed(servers->mean_staleness, 1) : "-");
      rows.back().push_back(servers ? std::to_string(servers->staleness_p95) : "-");
      rows.back().push_back(servers ? fixed(100 * servers->dropped_share, 1) + " %" : "-");
      rows.back().push_back(servers ? gigabytes(static_cast<double>(servers->hottest_server_in.value)) : "-");
    }
    if (compress) {
      const std::optional<CompressionReport>& hooks = p.report.compression;
      rows.back().push_back(!hooks             ? "-"
                            : hooks->ratio < 1 ? fixed(1 / hooks->ratio, 1) + " x"
                                               : "1/" + fixed(hooks->ratio, 1));
      rows.back().push_back(hooks ? readable_time(hooks->kernels) : "-");
      rows.back().push_back(hooks ? fixed(100 * (hooks->kernels / p.report.step.mean), 1) + " %" : "-");
    }
    rows.back().emplace_back(fits(p) ? "" : "does not fit");
    if (!fits(p)) {
      too_large +=
          "does not fit: " + choice.name + ", " + memory_text(memory, memory_of_gpu(p.scenario)) + '\n';
    }
  }
  const Prediction& any = comparison.strategies.front().prediction;
  const char* const plain = any.job.ranks() > 1 || serve || of_scenarios
                                ? ""
                                : "on one GPU every strategy is plain training: nothing is sharded\n";
  std::string headlines;
  for (const ComparedStrategy& each : comparison.strategies) {
    if (of_scenarios || &each == &comparison.strategies.front()) {
      headlines += (of_scenarios ? each.choice.name + ": " : "") + headline(each.prediction);
    }
  }
  return too_large + headlines + plain + '\n' + aligned(rows, 1) +
         "\nexposed: communication that no kernel hides, mean of all GPUs; NVLink, NIC: what a GPU sends a "
         "step\nby the algorithms that are taken, of which NVLS sends less than rings\n" +
         (serve ? "stale: updates between the parameters that a gradient was computed from and its own, mean "
                  "and "
                  "95 %;\nsamples/s: of gradients that were not dropped; into server: what all workers send "
                  "the one "
                  "that is sent most, a step\n"
                : "") +
         (compress ? "sends: of a ring all-reduce of all gradients; hooks: kernels of communication hooks, a "
                     "step\n"
                     "compression changes what is learned, too; this is about time\n"
                   : "") +
         (averages ? "local SGD changes what is learned: this is about time alone\n" : "") + '\n' +
         comparison.verdict + '\n' + price_of_compression(comparison.strategies);
}

std::string comparison_json(const Comparison& comparison) {
  Json::Array rows, remarks;
  for (const ComparedStrategy& each : comparison.strategies) {
    rows.emplace_back(row_json(each, comparison.of_scenarios));
  }
  for (const std::string& remark : comparison.remarks) {
    remarks.emplace_back(remark);
  }
  return to_text(Json(Json::Object{{"paceline", kVersion},
                                   {"model_version", kModelVersion},
                                   {comparison.of_scenarios ? "scenarios" : "strategies", std::move(rows)},
                                   {"verdict", comparison.verdict},
                                   {"remarks", std::move(remarks)}}));
}

}  // namespace paceline
