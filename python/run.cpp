// Predictions of training, and what a scenario may say.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <charconv>
#include <limits>
#include <tuple>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/training_interval.h"
#include "core/error.h"
#include "python/module.h"
#include "scenarios/json.h"
#include "scenarios/predict.h"
#include "scenarios/tables.h"
#include "studies/explain.h"
#include "topology/topology.h"

namespace nb = nanobind;

namespace paceline::python {
namespace {

using Text = std::optional<std::string>;

EngineChoice engine_named(const std::string& name) {
  const std::vector<std::string> known{"auto", "event", "vector"};
  for (const EngineChoice choice : {EngineChoice::automatic, EngineChoice::event, EngineChoice::vector}) {
    if (known[static_cast<std::size_t>(choice)] == name) {
      return choice;
    }
  }
  throw InputError(unknown_name("engine", name, known), "--engine");
}

std::string interval_json(const TrainingInterval& interval) {
  return to_text(Json(Json::Object{{"step_s", interval.step.value},
                                   {"low_s", interval.low.value},
                                   {"high_s", interval.high.value},
                                   {"extrapolated", interval.extrapolated},
                                   {"why", interval.why}}));
}

// result.json, the trace if asked for, and the interval of the step with a profile.
using RunTexts = std::tuple<std::string, Text, Text>;

RunTexts run(const std::string& text, const std::string& file_name, const Text& profile_text,
             const std::string& profile_name, const Text& engine, const Text& seed, const Text& iterations,
             bool explained, int jobs, std::uint32_t traced_ranks, std::uint32_t traced_iterations) {
  Scenario scenario = parse_scenario(text, file_name);
  apply({engine, seed, iterations}, scenario.run);
  std::optional<Profile> profile;
  if (profile_text) {
    profile = profile_of(*profile_text, profile_name);
  }
  try {
    if (profile) {
      scenario = with_profile(scenario, *profile);
    }
    const bool traced = traced_ranks > 0 && traced_iterations > 0;
    const Prediction prediction =
        predict(scenario, traced ? trace_of_first(traced_ranks, traced_iterations) : TraceRequest{});
    return {result_json(prediction,
                        explained ? explanation_json(prediction, explain(prediction, jobs)) : Json::Object()),
            traced ? Text(trace_json(prediction)) : Text(),
            profile ? Text(interval_json(training_interval(scenario, *profile))) : Text()};
  } catch (const InputError& error) {
    throw error.in_file(file_name);
  }
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

std::uint64_t whole_number(const std::string& text, std::uint64_t least, std::uint64_t most,
                           const char* option) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw InputError("expected a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
                         ", found \"" + text + '"',
                     option);
  }
  return value;
}

void apply(const RunOverrides& overrides, RunSpec& run) {
  constexpr std::uint64_t kMostIterations = 100'000;
  if (overrides.engine) {
    run.engine = engine_named(*overrides.engine);
  }
  if (overrides.seed) {
    run.seed = whole_number(*overrides.seed, 0, std::numeric_limits<std::uint64_t>::max(), "--seed");
  }
  if (overrides.iterations) {
    run.iterations =
        static_cast<int>(whole_number(*overrides.iterations, 1, kMostIterations, "--iterations"));
  }
}

void add_run(nb::module_& module) {
  const auto unlocked = nb::call_guard<nb::gil_scoped_release>();
  module.def("run", &run, nb::arg("scenario"), nb::arg("file_name"), nb::kw_only(),
             nb::arg("profile") = nb::none(), nb::arg("profile_name") = "", nb::arg("engine") = nb::none(),
             nb::arg("seed") = nb::none(), nb::arg("iterations") = nb::none(), nb::arg("explain") = false,
             nb::arg("jobs") = 1, nb::arg("traced_ranks") = 0, nb::arg("traced_iterations") = 0, unlocked,
             "result.json, with what `paceline explain` adds if asked for; the trace, if ranks and "
             "iterations of it are asked for; with a profile the step's "
             "interval of 90 %.");
  module.def("schema", &scenario_schema, unlocked, "The JSON Schema of a scenario.");
  module.def("presets", &presets, unlocked, "Names of gpus, nodes, models and clusters.");
  module.def("topology", &topology, nb::arg("cluster"), unlocked,
             "Devices and links of a cluster, as `paceline topology` prints them.");
}

}  // namespace paceline::python
