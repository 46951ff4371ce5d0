#include "studies/strategy_choice.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "core/unknown_name.h"
#include "scenarios/description.h"
#include "scenarios/reader.h"
#include "scenarios/schema_writer.h"

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
  StrategyChoice choice{
      text, {{"/training/strategy", name_of(strategy.kind)}}, strategy.options, strategy.stage};
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
bool has_hooks(const StrategyChoice& choice) { return choice.options == StrategyKind::ddp; }

bool compresses(const Json& scenario) {
  const Json* given = value_at(scenario, kCompression);
  const Json* kind = given != nullptr && given->as<Json::Object>() != nullptr ? given->find("kind") : given;
  const auto* name = kind == nullptr ? nullptr : kind->as<std::string>();
  return given != nullptr && (name == nullptr || *name != name_of(CompressionKind::none));
}

Scenario scenario_with(const StrategyChoice& choice, Json scenario, const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  for (const Edit& edit : choice.edits) {
    set_at(scenario, edit.key, edit.value, folder);
  }
  return parse_scenario(to_line(scenario), file);
}

// The file's own strategy says with what its rates were measured, whatever a choice makes of it.
void pin_to_written(Scenario& chosen, const TrainingSpec& written) {
  const auto pin = [&](std::vector<MeasuredRate>& rates) {
    for (MeasuredRate& rate : rates) {
      pin_checkpointing(rate, written);
    }
  };
  pin(chosen.training.measured);
  for (GpuKind& kind : chosen.gpus) {
    pin(kind.measured);
  }
}

}  // namespace

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

std::vector<Scenario> scenarios_of(const std::vector<StrategyChoice>& choices, const Json& scenario,
                                   const std::string& file, const std::function<Scenario(Scenario)>& adjust) {
  std::vector<Scenario> scenarios;
  for (const StrategyChoice& choice : choices) {
    Scenario chosen = scenario_with(choice, scenario, file);
    TrainingSpec written;
    read_object(*value_at(scenario, "/training"), written,
                {"/training", std::filesystem::path(file).parent_path().string(), 0});
    pin_to_written(chosen, written);
    try {
      scenarios.push_back(adjust(std::move(chosen)));
    } catch (const InputError& error) {
      throw error.in_json_file(file, choice.name);
    }
  }
  return scenarios;
}

std::vector<std::string> remarks_on(const Json& scenario, const std::vector<StrategyChoice>& choices) {
  std::vector<std::string> remarks;
  for (const StrategyKind kind : {StrategyKind::ddp, StrategyKind::fsdp}) {
    const std::string name(name_of(kind));
    const Json* options = value_at(scenario, "/training/" + name);
    const auto* given = options == nullptr ? nullptr : options->as<Json::Object>();
    std::vector<std::string> keys, without;
    for (const StrategyChoice& choice : choices) {
      const bool takes_them_too = kind == StrategyKind::ddp && choice.options == StrategyKind::local_sgd;
      if (choice.options != kind && !takes_them_too) {
        without.push_back(choice.name);
      }
    }
    for (std::size_t i = 0; given != nullptr && i < given->size(); ++i) {
      keys.push_back((*given)[i].key);
    }
    if (kind == StrategyKind::fsdp && std::ranges::find(keys, kReshard) != keys.end()) {
      for (const StrategyChoice& choice : choices) {
        if (choice.stage > 1) {
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
    if (choice.stage != 1) {
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

}  // namespace paceline
