#include "app/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "app/options.h"
#include "app/progress.h"
#include "app/replay.h"
#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/fit_files.h"
#include "calibrate/import/import.h"
#include "calibrate/measure_help.h"
#include "calibrate/validate/defaults.h"
#include "calibrate/validate/judge.h"
#include "calibrate/validate/pairs.h"
#include "core/error.h"
#include "core/text.h"
#include "scenarios/files.h"
#include "scenarios/json.h"
#include "scenarios/profile.h"
#include "scenarios/scenario.h"

namespace paceline {
namespace {

void measure(const CLI::App& command) {
  const std::vector<std::string> given = command.remaining();
  if (std::ranges::any_of(given, [](const std::string& word) { return word == "-h" || word == "--help"; })) {
    print(command.help("paceline calibrate"));
    return;
  }
  const std::string program = measuring_program();
  std::vector<std::string> words{program};
  words.insert(words.end(), given.begin(), given.end());
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  heed_broken_pipes();
  execv(program.c_str(), arguments.data());
  throw InputError("can't start it", {}, program);
}

// To six digits: a profiler knows no more.
std::string microseconds(Seconds time) { return formatted("%g us", time.value * 1e6); }

// A trace's layers, in order, as training.layer_times has them.
std::string layer_times(const MeasuredData& data) {
  Json::Array layers;
  for (const LayerMeasurement& layer : data.layers) {
    if (layer.origin.file != data.layers.front().origin.file) {
      throw InputError("expected the trace of one rank, found layers in " +
                           in_short(data.layers.front().origin.file) + " and in " +
                           in_short(layer.origin.file) + ": name one of them",
                       "--layers");
    }
    if (layer.forward.value > 0) {  // not the optimizer
      layers.push_back(
          Json::Object{{"forward", microseconds(layer.forward)}, {"backward", microseconds(layer.backward)}});
    }
  }
  if (layers.empty()) {
    throw InputError("expected a profiler's trace with layers, found none", "--layers");
  }
  return to_text(Json(std::move(layers))) + "\n";
}

void import_data(const std::vector<std::string>& files, const std::optional<std::string>& csv,
                 const std::optional<std::string>& layers) {
  std::vector<NamedFile> inputs, outputs;
  std::vector<std::string> paths;
  for (const std::string& file : files) {
    inputs.push_back({"one of the measurements", file});
    paths.push_back(path_to_read(file));
  }
  for (const auto& [name, path] : {std::pair{"--csv", csv}, {"--layers", layers}}) {
    if (path && *path != kStandard) {
      outputs.push_back({name, *path});
    }
  }
  require_apart(inputs, outputs);
  const MeasuredData data = import_files(paths);
  if (layers) {
    write_given(*layers, layer_times(data));
  }
  if (csv) {
    std::ostringstream text;
    write_csv(data, text);
    write_given(*csv, text.str());
  }
  print(layers == kStandard || csv == kStandard ? "" : import_summary(data));
}

// Printed piece by piece, whenever it is flushed.
class PrintedPage : public std::stringbuf {
  int sync() override {
    print(str());
    str({});
    return 0;
  }
};

// What commands are told of logs.
JudgedLog judged(const FitFiles& files, const std::optional<std::string>& profile, bool any_machine = false) {
  ProgressLines lines;
  LogFiles logs{files, profile ? std::optional(profile_in(*profile, any_machine)) : std::nullopt};
  logs.files.progress = shown_on(lines);
  return judge(logs);
}

void fit(const FitFiles& request, const std::string& out) {
  const bool piped = out == kStandard;  // the profile alone
  std::vector<NamedFile> inputs{{"the cluster", request.cluster}};
  for (const std::string& file : request.files) {
    inputs.push_back({"one of the measurements", file});
  }
  if (request.scenario) {
    inputs.push_back({"the scenario", *request.scenario});
  }
  require_apart(inputs, {{{"--out", out}}});
  require_place(out);
  PrintedPage pieces;
  std::ostream page(piped ? nullptr : &pieces);
  ProgressLines lines;
  FitFiles with_progress = request;
  with_progress.progress = shown_on(lines);
  const Profile profile = fit_files(with_progress, page);
  page.flush();
  write_given(out, to_json(profile));  // whatever becomes of the diagnosis, which reads the files again
  if (!piped && !implausible(profile).empty() && profile.library == CollectiveLibrary::nccl) {
    try {
      for (const std::string& line : judged(request, std::nullopt).verdict) {
        print("calibrate diagnose: " + line + '\n');
      }
    } catch (const InputError& error) {
      print(std::string("calibrate diagnose: ") + error.what() + '\n');
    }
  }
  print(piped ? "" : "Wrote " + out + ".\n");
}

void defaults(const std::string& index, const std::optional<std::string>& folder) {
  if (folder) {  // nobody should wait for tables that can't be kept
    std::error_code error;
    std::filesystem::create_directories(*folder, error);
    require_place(*folder + "/fitted_costs.inc");
  }
  ProgressLines lines;
  const DefaultsFit fit = fit_defaults(index, shown_on(lines));
  print(defaults_page(fit));
  if (folder) {
    write_file(*folder + "/fitted_costs.inc", generation_source(fit));
    write_file(*folder + "/fitted_network_costs.inc", network_source(fit));
    write_file(*folder + "/fitted_spread.inc", spread_source(fit));
  }
}

void pairs(const std::string& index) {
  ProgressLines lines;
  print(pairs_page(compare_pairs(index, shown_on(lines))));
}

}  // namespace

void CalibrateCommands::add_to(CLI::App& app) {
  calibrate_ = app.add_subcommand("calibrate",
                                  "Measure real hardware, or read measurements, and fit the model to them.");
  calibrate_->require_subcommand(1);
  calibrate_->footer("Example: paceline calibrate fit all_reduce.log --cluster dgx-h100 -o profile.json");
  add_measure();
  add_import();
  add_fit();
  add_judging();
  add_replay();
  add_defaults();
  add_pairs();
}

void CalibrateCommands::add_measure() {
  measure_ = calibrate_->add_subcommand(
      "measure", "Measure collectives and kernels on this machine (CUDA and NCCL, or CPU and MPI).");
  measure_->prefix_command();
  measure_->footer(measure_help("paceline calibrate measure") +
                   "\nExample: paceline calibrate measure --out measured.csv");
}

void CalibrateCommands::add_import() {
  import_ = calibrate_->add_subcommand(
      "import", "Read nccl-tests output, its JSON, CSV and profiler traces, and say what was found.");
  import_->add_option("DATA", files_, "Files or folders")->required();
  import_->add_option("--csv", csv_, "Write all collectives to this CSV file");
  import_->add_option("--layers", layers_,
                      "Write the layers of a profiler's trace to this JSON file, for training.layer_times");
  import_->footer("Example: paceline calibrate import all_reduce.log --csv all_reduce.csv");
}

void CalibrateCommands::add_fit() {
  fit_ = calibrate_->add_subcommand("fit", "Fit the model's parameters to measurements.");
  fit_->add_option("DATA", fit_files_, "Files or folders, as `paceline calibrate import` reads them")
      ->required();
  fit_->add_option("--cluster", cluster_,
                   "What was measured: a node preset, a built-in cluster, or a JSON file (a scenario's "
                   "machines alone)")
      ->required();
  fit_->add_option("-o,--out", profile_out_, "The profile to write")->required();
  fit_->add_option("--nccl", nccl_, "NCCL version of the measurements, where the files don't say");
  fit_->add_option("--nodes", nodes_, "Nodes that took part, where the files don't say");
  fit_->add_option("--gpus-per-node", gpus_per_node_, "GPUs of each of them, where the files don't say");
  add_settings(fit_);
  fit_->add_option("--library", library_, "nccl, mpi, gloo or tensorflow")->capture_default_str();
  fit_->add_option("--scenario", scenario_of_rows_,
                   "Whose throughput rows (columns gpus, nodes, accumulation, throughput or tokens_per_s) "
                   "and on whose GPU the kernels are");
  fit_->add_option("--overlap", overlap_,
                   "stated: gradients are reduced as the scenario says; unknown: a framework that may reduce "
                   "them after backward")
      ->capture_default_str();
  fit_->footer("Example: paceline calibrate fit all_reduce.log --cluster dgx-h100 -o profile.json");
}

void CalibrateCommands::add_settings(CLI::App* command) {
  command->add_option("--algo", algorithm_, "NCCL_ALGO as it was set, where the files don't say");
  command->add_option("--proto", protocol_, "NCCL_PROTO, likewise");
  command
      ->add_option("--set", settings_,
                   "KEY=VALUE of training.collective as it was, likewise: socket_threads=4, buffer=\"8 MiB\" "
                   "(repeatable; docs/scenario.md)")
      ->allow_extra_args(false);
}

void CalibrateCommands::add_judging() {
  compare_ = calibrate_->add_subcommand(
      "compare",
      "Put logs beside what the machine should take, row by row, and say whether it is as it should be.");
  diagnose_ = calibrate_->add_subcommand(
      "diagnose", "Find the one fault, missing feature or setting that explains logs best.");
  for (CLI::App* const command : {compare_, diagnose_}) {
    command->add_option("LOGS", fit_files_, "Files or folders, as `paceline calibrate import` reads them")
        ->required();
    command
        ->add_option(
            "--cluster", cluster_,
            "What the machine should be: a node preset, a built-in cluster, or a JSON file (a scenario's "
            "machines alone)")
        ->required();
    command->add_option("--nodes", nodes_, "Nodes that took part, where the logs don't say");
    command->add_option("--gpus-per-node", gpus_per_node_, "GPUs of each of them, where the logs don't say");
    add_settings(command);
    command->add_option("--library", library_, "What ran the collectives: nccl, mpi, gloo or tensorflow")
        ->capture_default_str();
    command->add_option("--profile", profile_, "What calibration knows of such a machine");
    command->add_flag("--allow-other-machine", allow_other_machine_,
                      "Take the costs of a profile of another machine");
    command->add_option("--nccl", nccl_, "NCCL version, where the logs don't say");
    command->add_flag("--json", json_, "JSON instead of a page");
  }
  compare_->footer("Example: paceline calibrate compare all_reduce.log --cluster dgx-h100");
  diagnose_->footer("Example: paceline calibrate diagnose all_reduce.log --cluster dgx-h100 --nodes 2");
}

void CalibrateCommands::add_replay() {
  replay_ = calibrate_->add_subcommand(
      "replay", "Run a scenario's layers and buckets for real, and compare with the prediction.");
  replay_->add_option("SCENARIO", scenario_, "A scenario whose ranks are those that will run")->required();
  replay_->add_option(
      "--with", with_,
      "torch: PyTorch itself runs the step, with layers that wait as long as they should take "
      "(python -m paceline.replay)");
  replay_->add_option("--launch", launcher_,
                      "What starts the ranks: \"mpirun -np 2\", \"torchrun --nproc-per-node 2\"");
  replay_->add_option("--steps", steps_,
                      "Where to write what ranks do; steps-NUMBER.csv, with torch plan-NUMBER.json");
  replay_->add_option("--measured", measured_,
                      "The measured steps: read if the file exists; else written, as measured-NUMBER.csv");
  replay_->add_option("--profile", profile_, "What calibration knows of the machine");
  replay_->footer(
      "Example: paceline calibrate replay scenarios/replay_two_hosts.json --launch \"mpirun -np 2\"");
}

void CalibrateCommands::add_defaults() {
  defaults_ = calibrate_->add_subcommand(
      "defaults", "Fit the default costs of collectives to an index of tables, and judge them site by site.");
  defaults_->add_option("INDEX", index_, "A CSV of tables (scenarios/validation/README.md)")->required();
  defaults_->add_option("-o,--out", tables_,
                        "The folder for the tables of costs, as sim/collective has them");
  defaults_->footer("Example: paceline calibrate defaults scenarios/validation/collectives/index.csv");
}

void CalibrateCommands::add_pairs() {
  pairs_ = calibrate_->add_subcommand(
      "pairs", "What a profile of each table of an index is worth at the other tables of its cluster.");
  pairs_->add_option("INDEX", index_, "A CSV of tables (scenarios/validation/README.md)")->required();
  pairs_->footer("Example: paceline calibrate pairs scenarios/validation/collectives/index.csv");
}

void CalibrateCommands::run() const {
  if (measure_->parsed()) {
    measure(*measure_);
  } else if (import_->parsed()) {
    import_data(files_, csv_, layers_);
  } else if (fit_->parsed()) {
    fit({.files = fit_files_,
         .cluster = cluster_,
         .library = library_,
         .overlap = overlap_,
         .nccl = nccl_,
         .nodes = nodes_,
         .gpus_per_node = gpus_per_node_,
         .algorithm = algorithm_,
         .protocol = protocol_,
         .settings = collective_settings(settings_),
         .scenario = scenario_of_rows_},
        profile_out_);
  } else if (defaults_->parsed()) {
    defaults(index_, tables_);
  } else if (pairs_->parsed()) {
    pairs(index_);
  } else if (compare_->parsed() || diagnose_->parsed()) {
    const JudgedLog log = judged({.files = fit_files_,
                                  .cluster = cluster_,
                                  .library = library_,
                                  .nccl = nccl_,
                                  .nodes = nodes_,
                                  .gpus_per_node = gpus_per_node_,
                                  .algorithm = algorithm_,
                                  .protocol = protocol_,
                                  .settings = collective_settings(settings_)},
                                 profile_, allow_other_machine_);
    print(compare_->parsed() ? json_ ? compare_json(log) : compare_text(log)
          : json_            ? diagnose_json(log)
                             : diagnose_text(log));
  } else {
    replay({scenario_, launcher_, steps_, measured_, profile_, with_});
  }
}

}  // namespace paceline
