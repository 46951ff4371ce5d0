// Predictions of training, and what a scenario may say.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/training_interval.h"
#include "calibrate/import/trace_files.h"
#include "core/error.h"
#include "python/module.h"
#include "python/options.h"
#include "python/watched.h"
#include "scenarios/campaign.h"
#include "scenarios/gpu_memory.h"
#include "scenarios/json.h"
#include "scenarios/predict.h"
#include "scenarios/profile.h"
#include "scenarios/scenario.h"
#include "scenarios/tables.h"
#include "studies/campaign_view.h"
#include "studies/compare.h"
#include "studies/compare_campaigns.h"
#include "studies/explain.h"
#include "studies/run_view.h"
#include "studies/strategy_choice.h"
#include "topology/topology.h"

namespace nb = nanobind;

namespace paceline::python {
namespace {

using Text = std::optional<std::string>;

std::string interval_json(const TrainingInterval& interval) {
  return to_text(Json(Json::Object{{"step_s", interval.step.value},
                                   {"low_s", interval.low.value},
                                   {"high_s", interval.high.value},
                                   {"extrapolated", interval.extrapolated},
                                   {"why", interval.why},
                                   {"own_rate", interval.own_rate},
                                   {"own_delays", interval.own_delays}}));
}

std::optional<Profile> profile_of(const RunRequest& request) {
  if (!request.profile) {
    return std::nullopt;
  }
  Profile profile = parse_profile(request.profile->text, request.profile->file);
  profile.any_machine = request.allow_other_machine;
  return profile;
}

// As it is compared.
Scenario adjusted(Scenario scenario, const RunRequest& request, const std::optional<Profile>& profile) {
  apply(request.overrides, scenario.run);
  if (request.require_fit) {
    require_fit(scenario);
  }
  return profile ? with_profile(scenario, *profile) : scenario;
}

// A run that was traced, until its timeline is wanted.
class Trace {
 public:
  explicit Trace(Prediction prediction) : prediction_(std::move(prediction)) {}

  std::string text() const { return trace_json(prediction_); }

  void save(const std::string& path) const {
    check_trace_place(path);
    const std::vector<OutputFile> files = trace_files(path, prediction_);
    write_files(files);
    remove_older_traces(path, files);
  }

 private:
  Prediction prediction_;
};

// What a page shows of a run.
class View {
 public:
  explicit View(RunView view) : view_(std::move(view)) {}

  std::string about() const { return to_text(view_.about); }

  nb::dict columns() const {
    nb::dict columns;
    for (const Column& each : view_.columns) {
      columns[each.name.c_str()] = nb::make_tuple(each.type, nb::bytes(each.bytes.data(), each.bytes.size()));
    }
    return columns;
  }

 private:
  RunView view_;
};

// result.json, the trace if asked for, the interval of the step with a profile, and the views of step and campaign if
// asked for.
using Outcome = std::tuple<std::string, std::optional<Trace>, Text, std::optional<View>, std::optional<View>>;

std::optional<View> view_of(const Scenario& scenario, const CampaignPrediction& campaign,
                            const RunRequest& wanted) {
  return wanted.view ? std::optional<View>(campaign_view(scenario, campaign)) : std::nullopt;
}

// go_on: called now and then; may throw.
template <class GoOn>
Outcome run_scenario(Scenario scenario, const std::optional<Profile>& profile, const RunRequest& wanted,
                     const GoOn& go_on) {
  const auto progress = [&](const auto&...) { go_on(); };
  if (profile) {
    scenario = with_profile(scenario, *profile);
  }
  if (wanted.require_fit) {
    require_fit(scenario);
  }
  Machines machines;
  if (!simulates_steps(scenario)) {
    if (wanted.trace || (wanted.view && (wanted.view->step || wanted.view->ranks))) {
      throw InputError(
          "expected steps that are simulated, found one that is given: there is nothing to look into",
          "/faults/step");
    }
    const CampaignPrediction campaign = predict_campaign(
        scenario, machines, {.log = wanted.view.has_value(), .levers = true, .progress = progress});
    return {campaign_result_json(scenario, campaign), std::nullopt, Text(), std::nullopt,
            view_of(scenario, campaign, wanted)};
  }
  if (scenario.faults) {
    static_cast<void>(asked_campaign(scenario));  // before the steps are simulated
  }
  Prediction prediction =
      predict(scenario, wanted.view ? request_for_view(scenario) : TraceRequest{}, machines, progress);
  if (wanted.trace) {
    record_trace(prediction, trace_request(*wanted.trace, prediction));
  }
  Json::Object more;
  if (wanted.explain) {
    const ExplanationSoFar so_far{.tried = [&](const auto&...) { go_on(); }};
    more = explanation_json(prediction, explain(prediction, wanted.jobs, machines, so_far));
  }
  if (wanted.trace) {
    more.push_back({"communication_overlap", overlap_json(prediction)});
  }
  std::optional<View> of_campaign;
  if (scenario.faults) {
    const CampaignPrediction campaign = predict_campaign(
        scenario, machines, {.log = wanted.view.has_value(), .levers = true, .progress = progress});
    more.push_back({"campaign", campaign_json(scenario, campaign)});
    of_campaign = view_of(scenario, campaign, wanted);
  }
  std::string text = result_json(prediction, std::move(more));
  std::optional<View> view;
  if (wanted.view) {
    view.emplace(run_view(prediction, *wanted.view));
  }
  return {std::move(text), wanted.trace ? std::optional<Trace>(std::move(prediction)) : std::nullopt,
          profile ? Text(interval_json(training_interval(scenario, *profile))) : Text(), std::move(view),
          std::move(of_campaign)};
}

Outcome run(const std::string& text, const std::string& file_name, const std::string& asked) {
  const auto request = read_request<RunRequest>(asked);
  Scenario scenario = parse_scenario(text, file_name);
  apply(request.overrides, scenario.run);
  const std::optional<Profile> profile = profile_of(request);
  try {
    std::optional<Outcome> outcome;
    watched([&](const auto& go_on) { outcome = run_scenario(std::move(scenario), profile, request, go_on); },
            hear_signals);
    return std::move(*outcome);
  } catch (const InputError& error) {
    throw error.in_file(file_name);
  }
}

std::string compare_strategies(const std::string& text, const std::string& file_name,
                               const std::string& strategies, const std::string& asked) {
  const auto request = read_request<RunRequest>(asked);
  const std::optional<Profile> profile = profile_of(request);
  const Json scenario = scenario_of_result(parse_json(text));
  const std::vector<StrategyChoice> choices = strategy_choices(strategies);
  const auto adjust = [&](Scenario each) { return adjusted(std::move(each), request, profile); };
  std::string made;
  watched(
      [&](const auto& go_on) {
        const auto progress = [&](const auto&...) { go_on(); };
        made = gives_step(scenario)
                   ? comparison_json(
                         compare_campaigns(scenario, file_name, choices, request.jobs, adjust, progress))
                   : comparison_json(compare(scenario, file_name, choices, request.jobs, adjust, progress));
      },
      hear_signals);
  return made;
}

std::string compare_given(const std::vector<std::string>& texts, const std::vector<std::string>& file_names,
                          const std::string& asked) {
  const auto request = read_request<RunRequest>(asked);
  const std::optional<Profile> profile = profile_of(request);
  const std::vector<std::string> names = short_names(file_names);
  std::vector<NamedScenario> scenarios;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Scenario scenario = parse_scenario(texts[i], file_names[i]);
    try {
      scenarios.push_back({names[i], file_names[i], adjusted(std::move(scenario), request, profile)});
    } catch (const InputError& error) {
      throw error.in_json_file(file_names[i]);
    }
  }
  std::string made;
  watched(
      [&](const auto& go_on) {
        const auto progress = [&](const auto&...) { go_on(); };
        made = comparison_json(compare_scenarios(scenarios, request.jobs, progress));
      },
      hear_signals);
  return made;
}

Json::Array names_json(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

std::string presets() {
  return to_text(Json(Json::Object{{"gpus", names_json(gpu_preset_names())},
                                   {"nodes", names_json(node_preset_names())},
                                   {"models", names_json(model_names())},
                                   {"clusters", names_json(cluster_names())}}));
}

std::string topology(const std::string& cluster) {
  return topology_table(build_checked_topology(load_cluster(cluster)));
}

}  // namespace

void add_run(nb::module_& module) {
  const auto unlocked = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<Trace>(module, "Trace", "The timeline of a run.")
      .def("text", &Trace::text, unlocked, "All ranks in one JSON file.")
      .def("save", &Trace::save, nb::arg("path"), unlocked,
           "Writes what `paceline run --trace PATH` does: a file, or a folder with one for each rank.");
  nb::class_<View>(module, "View", "What a page shows of a run.")
      .def("about", &View::about,
           "A JSON object: the step, which ranks are shown, names of what columns number.")
      .def("columns", &View::columns, nb::sig("def columns(self) -> dict[str, tuple[str, bytes]]"),
           "Numbers by name: their type as numpy has it, and their bytes (studies/run_view.h).");
  module.def("run", &run, nb::arg("scenario"), nb::arg("file_name"), nb::arg("options"), unlocked,
             "result.json, with what `paceline explain` adds if asked for; the trace if asked for; with a "
             "profile the step's interval of 90 %; the views of a step and of a campaign if asked for. The "
             "options are a JSON object (python/options.h).");
  module.def("compare", &compare_strategies, nb::arg("scenario"), nb::arg("file_name"), nb::arg("strategies"),
             nb::arg("options"), unlocked,
             "The JSON of `paceline compare --json`; strategies as its --strategies, options as of `run`.");
  module.def("compare_scenarios", &compare_given, nb::arg("scenarios"), nb::arg("file_names"),
             nb::arg("options"), unlocked,
             "The JSON of `paceline compare --json` of several scenarios; options as of `run`.");
  module.def("remark_on_version", &remark_on_version, nb::arg("scenario"), nb::arg("file_name"), unlocked,
             "What the user of a result must know: that another model version wrote it; or nothing.");
  module.def("schema", &scenario_schema, unlocked, "The JSON Schema of a scenario.");
  module.def("presets", &presets, unlocked, "Names of gpus, nodes, models and clusters.");
  module.def("preset", &preset_json, nb::arg("name"), unlocked, "The JSON of `paceline presets NAME`.");
  module.def("topology", &topology, nb::arg("cluster"), unlocked,
             "Devices and links of a cluster, as `paceline topology` prints them.");
}

}  // namespace paceline::python
