#include "app/replay.h"

#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "app/options.h"
#include "calibrate/fit/collective_fit.h"
#include "calibrate/import/import.h"
#include "calibrate/replay/replay.h"
#include "calibrate/replay/torch_plan.h"
#include "core/error.h"
#include "core/fingerprint.h"
#include "scenarios/files.h"
#include "scenarios/json.h"
#include "scenarios/predict.h"
#include "scenarios/scenario.h"

namespace paceline {
namespace {

void require_files_apart(const ReplayOptions& options) {
  std::vector<NamedFile> outputs;
  for (const auto& [name, path] : {std::pair{"--steps", options.steps}, {"--measured", options.measured}}) {
    if (path) {
      outputs.push_back({name, *path});
    }
  }
  require_apart({{{"the scenario", options.scenario}, {"the profile", options.profile.value_or("")}}},
                outputs);
}

// PyTorch, or the measuring program.
bool runs_torch(const std::string& with) {
  const bool torch = with == "torch";
  if (!torch && !with.empty()) {
    throw InputError("expected torch, found " + in_short(with), "--with");
  }
  return torch;
}

std::string what_ranks_do(const Prediction& prediction, bool torch, const std::string& scenario) {
  try {
    return torch ? torch_plan(prediction.scenario) : steps_csv(prediction.job);
  } catch (const InputError& error) {
    throw error.in_file(scenario);
  }
}

// Named after what they hold: the measuring program skips what its file has.
struct ReplayFiles {
  std::string steps, measured;
};
ReplayFiles files_for(const std::string& text, const ReplayOptions& options, bool torch) {
  const std::string name = checksum(text).substr(0, 6);
  return {options.steps.value_or((torch ? "plan-" : "steps-") + name + (torch ? ".json" : ".csv")),
          options.measured.value_or("measured-" + name + ".csv")};
}

// For the shell.
std::string quoted(const std::string& path) {
  std::string text = "'";
  for (const char c : path) {
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return text + '\'';
}

// What starts the ranks of `python -m paceline.replay`, but for its arguments.
std::string torch_command(const std::string& launcher) {
  const bool torchrun = launcher.find("torchrun") != std::string::npos;
  return launcher + (torchrun ? " -m paceline.replay " : " python3 -m paceline.replay ");
}

std::string arguments_for(const ReplayFiles& files, bool torch) {
  return (torch ? "" : " --train ") + quoted(files.steps) + " --out " + quoted(files.measured);
}

std::string shell_line(const std::string& launcher, const ReplayFiles& files, bool torch) {
  return (torch ? torch_command(launcher) : launcher + ' ' + quoted(measuring_program())) +
         arguments_for(files, torch);
}

// For several ranks, whose launcher isn't known.
std::string instructions(const ReplayOptions& options, const Prediction& prediction, const ReplayFiles& files,
                         bool torch) {
  const std::string ranks = std::to_string(prediction.job.ranks());
  const ClusterSpec& cluster = prediction.scenario.cluster;
  const std::string torchrun = "torchrun --nnodes " + std::to_string(nodes_of_job(cluster)) +
                               " --nproc-per-node " + std::to_string(gpus_of_node(cluster));
  const std::string profile = options.profile ? " --profile " + quoted(*options.profile) : "";
  return "Wrote " + files.steps + ". Run it on " + ranks + " ranks with your launcher, then compare:\n  " +
         (torch ? torch_command(torchrun) : "mpirun -np " + ranks + " paceline-measure-mpi") +
         arguments_for(files, torch) + "\n  paceline calibrate replay " + quoted(options.scenario) + profile +
         " --measured " + quoted(files.measured) + '\n';
}

void run_in_shell(const std::string& line) {
  heed_broken_pipes();
  const int failed = std::system(line.c_str());
  ignore_broken_pipes();
  if (failed != 0) {
    throw InputError("the measurement failed: " + line);
  }
}

}  // namespace

void replay(const ReplayOptions& options) {
  require_files_apart(options);
  const GivenFile file = read_given(options.scenario);
  const Scenario given = parse_scenario(file.text, file.name);
  const Prediction prediction =
      predict(options.profile ? with_profile(given, profile_in(*options.profile)) : given);
  const bool torch = runs_torch(options.with);
  if (options.measured && std::filesystem::exists(*options.measured)) {
    if (!options.launcher.empty()) {
      throw InputError("expected a new file for what will be measured: it exists", "--measured",
                       *options.measured);
    }
    print(replay_table(prediction, import_file(*options.measured)));
    return;
  }
  const std::string text = what_ranks_do(prediction, torch, file.name);
  const ReplayFiles files = files_for(text, options, torch);
  write_file(files.steps, text);
  if (prediction.job.ranks() > 1 && options.launcher.empty()) {
    print(instructions(options, prediction, files, torch));
    return;
  }
  run_in_shell(shell_line(options.launcher, files, torch));
  print(replay_table(prediction, import_file(files.measured)));
}

}  // namespace paceline
