#include "app/run.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "app/options.h"
#include "app/progress.h"
#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/training_interval.h"
#include "calibrate/import/trace_files.h"
#include "core/error.h"
#include "scenarios/campaign.h"
#include "scenarios/file_kind.h"
#include "scenarios/files.h"
#include "scenarios/gpu_memory.h"
#include "scenarios/json.h"
#include "scenarios/predict.h"
#include "scenarios/run_table.h"
#include "scenarios/scenario.h"
#include "scenarios/trace.h"
#include "studies/compare.h"
#include "studies/compare_campaigns.h"
#include "studies/edit.h"
#include "studies/explain.h"
#include "studies/strategy_choice.h"

namespace paceline {
namespace {

// Before the simulation: nobody should wait for a result that can't be kept.
void check_places(const RunOptions& options) {
  std::vector<NamedFile> inputs, outputs;
  if (options.scenarios.empty()) {
    inputs.push_back({"the scenario", options.scenario});
  }
  for (const std::string& scenario : options.scenarios) {
    inputs.push_back({"the scenario", scenario});
  }
  if (options.profile) {
    inputs.push_back({"the profile", *options.profile});
  }
  for (const auto& [name, path] :
       {std::pair{"--out", options.out}, {"--trace", options.trace.path}, {"--events", options.events}}) {
    if (path) {
      outputs.push_back({name, *path});
    }
  }
  require_apart(inputs, outputs);
  if (options.out) {
    require_place(*options.out);
  }
  if (options.events == kStandard) {
    throw InputError("expected a file's name, found \"-\"", "--events");
  }
  if (options.events) {
    require_place(*options.events);
  }
  check_trace(options.trace);
}

Json parse_named(const GivenFile& file) {
  try {
    Json json = parse_json(file.text);
    require_kind(json, {FileKind::scenario, FileKind::result});
    return json;
  } catch (const InputError& error) {
    throw error.in_file(file.name);
  }
}

// As it is written, with "POINTER=VALUE" set in it; a value that is no JSON is a text.
Json written_with(const GivenFile& file, const std::vector<std::string>& settings) {
  Json json = scenario_of_result(parse_named(file));
  for (const std::string& setting : settings) {
    const std::size_t end = setting.find('=');
    if (end == std::string::npos) {
      throw InputError("expected POINTER=VALUE such as /run/seed=2, found " + in_quotes(setting), "--set");
    }
    try {
      const std::string pointer = setting.substr(0, end);
      if (!set_at(json, pointer, value_of_text(setting.substr(end + 1)),
                  std::filesystem::path(file.name).parent_path().string())) {
        throw InputError(pointer + ": expected a key that the scenario says, which null leaves out");
      }
    } catch (const InputError& error) {
      throw InputError(error.what(), "--set");
    }
  }
  return json;
}

void tell_version(const GivenFile& file) {
  if (const std::string text = remark_on_version(file.text, file.name); !text.empty()) {
    remark(file.name + ": " + text);
  }
}

Scenario load_with(const GivenFile& file, const std::vector<std::string>& settings) {
  Scenario scenario = settings.empty() ? parse_scenario(file.text, file.name)
                                       : parse_scenario(to_line(written_with(file, settings)), file.name);
  tell_version(file);
  return scenario;
}

// What --out and --trace ask for: all files, or none; then the result on the standard output.
void write_outputs(const RunOptions& options, const Prediction& prediction, Json::Object more,
                   std::vector<OutputFile> files) {
  const bool piped = options.out == kStandard;
  if (options.trace.path) {
    for (OutputFile& file : trace_files(*options.trace.path, prediction)) {
      files.push_back(std::move(file));
    }
    more.push_back({"communication_overlap", overlap_json(prediction)});
  }
  const std::string result = options.out ? result_json(prediction, std::move(more)) : "";
  if (options.out && !piped) {
    files.push_back({*options.out, result});
  }
  write_files(files);
  if (options.trace.path) {
    remove_older_traces(*options.trace.path, files);
  }
  if (piped) {
    print(result);
  }
}

// Each part as soon as it is known.
Explanation explain_and_print(const Prediction& prediction, int jobs, Machines& machines) {
  print(collectives_text(prediction));
  ExplanationProgress progress;
  Explanation why = explain(prediction, jobs, machines,
                            {.path =
                                 [&](const CriticalPath& path) {
                                   progress.clear();
                                   print(path_text(prediction, path));
                                 },
                             .tried = [&](std::size_t tried, std::size_t levers,
                                          const Sensitivity* best) { progress.show(tried, levers, best); }});
  progress.clear();
  print(levers_text(why));
  return why;
}

// What --events asks for.
void add_events(const RunOptions& options, const std::optional<CampaignPrediction>& campaign,
                std::vector<OutputFile>& files) {
  if (options.events) {
    files.push_back({*options.events, campaign_events_csv(campaign->reports.front())});
  }
}

// Many steps may take long: local SGD's whole periods, join's batches.
Prediction prediction_of(const RunOptions& options, const Scenario& scenario, Machines& machines) {
  ProgressLines lines;
  const auto tell = [&](std::size_t done, std::size_t all) { lines.show("steps", done, all); };
  return predict(scenario, {}, machines, options.quiet ? StepProgress{} : tell);
}

CampaignPrediction campaign_of(const RunOptions& options, const Scenario& scenario, Machines& machines) {
  ProgressLines lines;
  const auto tell = [&](std::size_t done, std::size_t all) {
    if (!options.quiet) {
      lines.show("campaigns", done, all);
    }
  };
  return predict_campaign(scenario, machines,
                          {.log = options.events.has_value(), .levers = true, .progress = tell});
}

// A campaign whose step is given: there is no step to look into.
void print_campaign(const RunOptions& options, const Scenario& scenario, Machines& machines) {
  if (options.trace.path) {
    throw InputError("expected a scenario whose steps are simulated, found \"step\" in /faults", "--trace");
  }
  const std::optional<CampaignPrediction> campaign = campaign_of(options, scenario, machines);
  const std::string result = options.out ? campaign_result_json(scenario, *campaign) : "";
  std::vector<OutputFile> files;
  add_events(options, campaign, files);
  if (options.out && options.out != kStandard) {
    files.push_back({*options.out, result});
  }
  if (!options.quiet) {
    print(campaign_table(scenario, *campaign));
  }
  write_files(files);
  if (options.out == kStandard) {
    print(result);
  }
}

void predict_and_print(const RunOptions& options) {
  const GivenFile file = read_given(options.scenario);
  Scenario scenario = load_with(file, options.settings);
  apply(options.overrides, scenario.run);
  check_places(options);
  const int jobs = thread_count(options.jobs, "--jobs");
  Json::Object explanation;
  try {
    std::optional<Profile> profile;
    if (options.profile) {
      profile = profile_in(*options.profile, options.allow_other_machine);
      scenario = with_profile(scenario, *profile);
    }
    if (options.require_fit) {
      require_fit(scenario);
    }
    Machines machines;
    if (options.events && !scenario.faults) {
      throw InputError("expected a scenario with \"faults\", found none", "--events");
    }
    if (!simulates_steps(scenario)) {
      print_campaign(options, scenario, machines);
      return;
    }
    if (scenario.faults) {
      static_cast<void>(asked_campaign(scenario));  // before the steps are simulated and told
    }
    Prediction prediction = prediction_of(options, scenario, machines);
    if (options.trace.path) {
      record_trace(prediction, trace_request(options.trace.choice, prediction));
    }
    if (!options.quiet) {
      print(terminal_table(prediction) +
            (profile ? interval_text(training_interval(scenario, *profile)) : ""));
    }
    if (!options.no_explain && (options.out || (!options.quiet && can_print()))) {
      const Explanation why =
          options.quiet ? explain(prediction, jobs, machines) : explain_and_print(prediction, jobs, machines);
      explanation = explanation_json(prediction, why);
    }
    std::optional<CampaignPrediction> campaign;
    if (scenario.faults) {
      campaign = campaign_of(options, scenario, machines);
      explanation.push_back({"campaign", campaign_json(scenario, *campaign)});
    }
    if (!options.quiet) {
      print(overlap_text(prediction) + (campaign ? '\n' + campaign_table(scenario, *campaign) : "") +
            terminal_footer(prediction));
    }
    std::vector<OutputFile> files;
    add_events(options, campaign, files);
    write_outputs(options, prediction, std::move(explanation), std::move(files));
  } catch (const InputError& error) {
    throw error.in_file(file.name);
  }
}

void write_comparison(const RunOptions& options, const std::string& json,
                      const std::function<std::string()>& text) {
  if (options.out && options.out != kStandard) {
    write_files(std::vector<OutputFile>{{*options.out, json}});
  }
  print(options.json || options.out == kStandard ? json : text());
}

// One in several ways, or several as they are.
void check_compared(const RunOptions& options) {
  const std::size_t scenarios = options.scenarios.size();
  if (scenarios == 1 && options.strategies.empty()) {
    throw InputError("missing --strategies, or another scenario to compare this one with", "compare");
  }
  if (scenarios > 1 && !options.strategies.empty()) {
    throw InputError(
        "expected one scenario beside strategies (in one word, with commas), or several without, found " +
            in_quotes(options.scenarios[1]) + " too",
        "--strategies");
  }
}

using Adjust = std::function<Scenario(Scenario)>;

// "steps of ddp".
ComparisonProgress progress_of(const std::string& what, const RunOptions& options, ProgressLines& lines) {
  if (options.quiet) {
    return {};
  }
  return [what, &lines](const std::string& of, std::size_t done, std::size_t all) {
    lines.show(what + " of " + of, done, all);
  };
}

void print_comparison(const RunOptions& options, const Comparison& comparison, const std::string& of) {
  for (const std::string& each : comparison.remarks) {
    remark(of + each);
  }
  write_comparison(options, comparison_json(comparison), [&] { return comparison_text(comparison); });
}

void compare_files(const RunOptions& options, const std::vector<GivenFile>& files, int jobs,
                   const Adjust& adjust) {
  std::vector<std::string> paths;
  std::ranges::transform(files, std::back_inserter(paths), &GivenFile::name);
  const std::vector<std::string> names = short_names(paths);
  std::vector<NamedScenario> scenarios;
  for (std::size_t i = 0; i < files.size(); ++i) {
    try {
      scenarios.push_back({names[i], paths[i], adjust(load_with(files[i], options.settings))});
    } catch (const InputError& error) {
      throw error.in_json_file(paths[i]);
    }
  }
  ProgressLines lines;
  print_comparison(options, compare_scenarios(scenarios, jobs, progress_of("steps", options, lines)), "");
}

void compare_strategies(const RunOptions& options, const GivenFile& file, int jobs, const Adjust& adjust) {
  const Json written = written_with(file, options.settings);
  tell_version(file);
  const std::vector<StrategyChoice> choices = strategy_choices(options.strategies);
  ProgressLines lines;
  if (gives_step(written)) {
    const CampaignComparison comparison =
        compare_campaigns(written, file.name, choices, jobs, adjust, progress_of("seeds", options, lines));
    write_comparison(options, comparison_json(comparison), [&] { return comparison_text(comparison); });
    return;
  }
  const ComparisonProgress progress = progress_of("steps", options, lines);
  print_comparison(options, compare(written, file.name, choices, jobs, adjust, progress), file.name + ": ");
}

void compare_and_print(const RunOptions& options) {
  check_compared(options);
  std::vector<GivenFile> files;
  std::ranges::transform(options.scenarios, std::back_inserter(files), read_given);
  check_places(options);
  const int jobs = thread_count(options.jobs, "--jobs");
  std::optional<Profile> profile;
  if (options.profile) {
    profile = profile_in(*options.profile, options.allow_other_machine);
  }
  const auto adjust = [&](Scenario scenario) {
    apply(options.overrides, scenario.run);
    if (options.require_fit) {
      require_fit(scenario);
    }
    return profile ? with_profile(scenario, *profile) : scenario;
  };
  if (files.size() > 1) {
    compare_files(options, files, jobs, adjust);
  } else {
    compare_strategies(options, files.front(), jobs, adjust);
  }
}

}  // namespace

void RunCommands::add_to(CLI::App& app) {
  run_ = app.add_subcommand("run", "Predict step time, throughput and scaling of a scenario.");
  add_scenario(run_);
  add_common(run_);
  options_.trace.add_to(run_);
  run_->add_flag("--quiet", options_.quiet, "Print nothing on the terminal");
  run_->add_flag("--no-explain", options_.no_explain,
                 "Without the critical path and what would change the step: one simulation instead of many");
  run_->add_option(
      "--events", options_.events,
      "Of a campaign (\"faults\"): write what happened when, with the first seed, to this CSV file");
  run_->footer("Example: paceline run scenarios/slow_gpu_64.json --out result.json --trace trace.json");
  explain_ = app.add_subcommand(
      "explain", "Why a step takes as long as it does, and what would change it: all by simulating again.");
  add_scenario(explain_);
  add_common(explain_);
  explain_->footer("Example: paceline explain scenarios/slow_gpu_64.json");
  compare_ = app.add_subcommand(
      "compare", "Strategies or scenarios side by side: time, communication, memory, and who wins by what.");
  compare_
      ->add_option(
          "SCENARIO", options_.scenarios,
          "A scenario or a result.json, to be trained by several strategies; or several of them, as they "
          "are; - reads one from the standard input")
      ->required();
  add_common(compare_);
  compare_->add_option("--strategies", options_.strategies,
                       "ddp, fsdp, zero1, zero2, zero3, horovod, local_sgd, mirrored, data_parallel, "
                       "parameter_server, with commas; NAME:KEY=VALUE changes one of its options");
  compare_->add_flag("--json", options_.json, "JSON instead of a table");
  compare_->footer(
      "Example: paceline compare scenarios/fsdp_llama3_8b.json --strategies "
      "ddp,zero1,fsdp,fsdp:shard_group=node\n"
      "paceline compare scenarios/network_200g.json scenarios/network_400g.json");
}

void RunCommands::add_scenario(CLI::App* command) {
  command
      ->add_option(
          "SCENARIO", options_.scenario,
          "A scenario (JSON), or a result.json, whose scenario is run again; - reads it from the standard "
          "input")
      ->required();
}

void RunCommands::add_common(CLI::App* command) {
  command->add_option("--engine", options_.overrides.engine,
                      "auto, event or vector, instead of the scenario's");
  command->add_option("--seed", options_.overrides.seed,
                      "Seed of all random draws, instead of the scenario's");
  command->add_option("--iterations", options_.overrides.iterations,
                      "Steps to simulate, instead of the scenario's");
  command
      ->add_option("--set", options_.settings,
                   "POINTER=VALUE: another value in the scenario, such as /training/batch_per_gpu=64; null "
                   "leaves the key out "
                   "(repeatable)")
      ->allow_extra_args(false);
  command->add_option("--profile", options_.profile,
                      "What calibration knows of the machine (see `paceline calibrate fit`)");
  command->add_flag("--allow-other-machine", options_.allow_other_machine,
                    "Take the costs of a profile of another machine");
  command->add_option(
      "--out", options_.out,
      "Write the result (of a run, with its scenario) to this JSON file; - prints it instead of the page");
  command->add_flag("--require-fit", options_.require_fit,
                    "Fail, and name what would fit, where training needs more memory than a GPU has");
  command->add_option("--jobs", options_.jobs, "Threads for what is simulated again; all cores if left out");
}

void RunCommands::run() {
  if (compare_->parsed()) {
    compare_and_print(options_);
    return;
  }
  options_.quiet = options_.quiet || options_.out == kStandard;  // the result alone
  predict_and_print(options_);
}

}  // namespace paceline
