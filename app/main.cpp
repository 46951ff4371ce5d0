// paceline: the command line. Exit status 0: done; 2: the input is wrong; 1: our fault.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iostream>
#include <new>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "app/calibrate.h"
#include "app/commit.h"
#include "app/completion.h"
#include "app/manual.h"
#include "app/mistakes.h"
#include "app/options.h"
#include "app/progress.h"
#include "app/python.h"
#include "app/run.h"
#include "app/studies.h"
#include "calibrate/fit/collective_fit.h"
#include "calibrate/validate/validate.h"
#include "core/error.h"
#include "core/standard_streams.h"
#include "core/text.h"
#include "core/version.h"
#include "scenarios/collective_options.h"
#include "scenarios/files.h"
#include "scenarios/json.h"
#include "scenarios/predict.h"
#include "scenarios/scenario.h"
#include "scenarios/schema_markdown.h"
#include "scenarios/tables.h"
#include "studies/edit.h"
#include "studies/study.h"
#include "topology/topology.h"

namespace paceline {
namespace {

std::string first_steps() {
  const std::string examples = examples_folder();
  const std::pair<std::string, std::string> lines[] = {
      {"run " + examples + "/first_node.json", "a step's time, where it goes, and what would change it"},
      {"presets", "GPUs, nodes, models and clusters that a scenario may name"},
      {"collective all_reduce --cluster dgx-h100 --nodes 2", "what nccl-tests would print"},
      {"sweep " + examples + "/studies/strong_resnet50.json --out strong", "every point of a study"}};
  std::string text = "Paceline predicts how data-parallel training scales. What to try first:\n\n";
  for (const auto& [line, meaning] : lines) {
    text.append("  paceline ").append(line).append("\n      ").append(meaning).append("\n");
  }
  return text + "\n`paceline help` lists all commands, `paceline help COMMAND` explains one.\n";
}

void show_topology(const std::string& cluster, const std::optional<std::string>& graphviz) {
  if (graphviz) {
    require_apart({{{"the cluster", cluster}}}, {{{"--graphviz", *graphviz}}});
    require_place(*graphviz);
  }
  const Topology topology = build_checked_topology(load_cluster(path_to_read(cluster)));
  const std::string page = topology_table(topology);
  if (graphviz) {
    std::ostringstream graph;
    write_graphviz(topology, graph);
    write_given(*graphviz, graph.str());
  }
  print(graphviz == kStandard ? "" : page);
}

struct CollectiveCommand {
  CollectiveOptions options;
  std::vector<std::string> settings;  // KEY=VALUE of training.collective
  std::optional<std::string> profile;
  bool json = false, allow_other_machine = false;
};

struct ValidateOptions {
  std::vector<std::string> paths{examples_folder() + "/validation"};
  bool json = false, markdown = false;
};

void test_collective(CollectiveCommand command) {
  const Profile profile =
      command.profile ? profile_in(*command.profile, command.allow_other_machine) : Profile{};
  command.options.settings = collective_settings(command.settings);
  const auto [result, intervals] = predict_collectives(command.options, profile);
  print(command.json ? nccl_tests_json(result, intervals) : nccl_tests_table(result, intervals));
}

// Whether all that was claimed holds.
bool validate(const ValidateOptions& options) {
  const ValidationForm form = options.json       ? ValidationForm::json
                              : options.markdown ? ValidationForm::markdown
                                                 : ValidationForm::table;
  ProgressLines lines;
  const ValidationResult result = run_validation(options.paths, form, shown_on(lines));
  print(result.text);
  return result.holds;
}

// The release, the commit in parentheses where it is known, the model version.
std::string program_version() {
  std::string text = version_text();
  if (!commit().empty()) {
    text.insert(text.find(','), " (" + std::string(commit()) + ')');
  }
  return text;
}

// One subcommand each; they run when the line has been read whole.
struct CommandLine {
  CLI::App app{
      "Paceline predicts how data-parallel training scales: it simulates GPUs, links, collectives and "
      "stragglers from a JSON scenario."};
  RunCommands runs;
  std::string cluster;
  std::optional<std::string> graphviz;
  CollectiveCommand collective_command;
  CLI::App* collective = nullptr;
  CalibrateCommands calibrate;
  ValidateOptions validate_options;
  CLI::App* validate = nullptr;
  CLI::App* topology = nullptr;
  CLI::App* presets = nullptr;
  std::optional<std::string> preset;
  bool presets_of_compression = false;
  CLI::App* schema = nullptr;
  bool schema_as_markdown = false, schema_of_study = false;
  StudyCommands studies;
  PythonCommands python;
  CLI::App* help = nullptr;
  std::vector<std::string> help_on;
  bool help_as_manual = false;
  CLI::App* completion = nullptr;
  std::string shell;

  CommandLine() {
    app.name("paceline");
    app.require_subcommand(1);
    app.set_version_flag("-v,-V,--version", program_version());
    app.footer(
        "Example: paceline run scenarios/first_node.json\n"
        "`paceline help COMMAND` tells more. Exit status: 0 done, 2 the input is wrong, 1 our fault.");
    runs.add_to(app);
    add_collective();
    calibrate.add_to(app);
    studies.add_to(app);
    python.add_to(app);
    add_validate();
    add_topology();
    presets =
        app.add_subcommand("presets", "List the GPUs, nodes, models and clusters that a scenario may name.");
    presets->add_option("NAME", preset, "Print this one in full instead: JSON, to be changed");
    presets->add_flag("--compression", presets_of_compression,
                      "What DDP's communication hooks compute and send, instead");
    presets->footer("Example: paceline presets\npaceline presets dgx-h100 > cluster.json");
    schema = app.add_subcommand("schema", "Print the JSON Schema of a scenario, for an editor's completion.");
    schema->add_flag("--markdown", schema_as_markdown,
                     "Lists of all keys for people instead (docs/scenario.md)");
    schema->add_flag("--study", schema_of_study, "Of a study (`paceline sweep`) instead of a scenario");
    schema->footer("Example: paceline schema > scenario.schema.json");
    help = app.add_subcommand("help", "Explain a command.");
    help->add_option("COMMAND", help_on, "a command, such as run or calibrate fit; all if left out");
    help->add_flag("--man", help_as_manual, "The manual page of all commands, for man(1)");
    help->footer("Example: paceline help run");
    completion = app.add_subcommand("completion", "Print what completes commands and options in your shell.");
    completion->add_option("SHELL", shell, "bash, zsh or fish")->required();
    completion->footer("Example: source <(paceline completion bash)");
  }

 private:
  void add_collective() {
    CollectiveOptions& o = collective_command.options;
    collective = app.add_subcommand("collective", "Print what nccl-tests would print on a cluster.");
    collective
        ->add_option("COLLECTIVE", o.kind,
                     "all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall or sendrecv")
        ->required();
    collective
        ->add_option(
            "--cluster", o.cluster,
            "A node preset, a built-in cluster, or a JSON file; a scenario's brings its training.collective")
        ->required();
    collective->add_option("--nodes", o.nodes, "Nodes, instead of the cluster's");
    collective->add_option("--gpus-per-node", o.gpus_per_node, "GPUs of each node in use; all if left out");
    collective->add_option("-b", o.first, "Smallest size: 8, 64K, 1 GiB")->capture_default_str();
    collective->add_option("-e", o.last, "Largest size")->capture_default_str();
    CLI::Option* const factor = collective->add_option("-f", o.factor, "Factor between sizes");
    factor->capture_default_str();
    collective->add_option("-i", o.increment, "Step between sizes, instead of a factor")->excludes(factor);
    collective->add_option(
        "--nccl", o.nccl,
        "NCCL version, 2.12 to 2.30; the scenario's, the profile's, or the newest, if left out");
    collective->add_option("--algo", o.algorithm,
                           "As NCCL_ALGO, which all_to_all and send_recv don't heed; or hierarchical; the "
                           "scenario's if left out");
    collective->add_option("--proto", o.protocol, "As NCCL_PROTO, likewise; the scenario's if left out");
    collective->add_option("--gpus-per-process", o.gpus_per_process,
                           "GPUs that one process drives, as -g of nccl-tests; 1 if left out");
    collective->add_option(
        "--library", o.library,
        "nccl, mpi, gloo or tensorflow; the scenario's, the profile's, or nccl, if left out");
    collective
        ->add_option("--set", collective_command.settings,
                     "KEY=VALUE of training.collective, such as nvls=false, max_channels=8, buffer=\"8 MiB\" "
                     "(repeatable; docs/scenario.md)")
        ->allow_extra_args(false);
    collective->add_option("--profile", collective_command.profile,
                           "What calibration knows of the machine (see `paceline calibrate fit`), or cost "
                           "parameters in a JSON file");
    collective->add_flag("--allow-other-machine", collective_command.allow_other_machine,
                         "Take the costs of a profile of another machine");
    collective->add_flag("--json", collective_command.json, "JSON instead of a table");
    collective->add_flag("--explain", o.explain,
                         "Which part of the time is launch, latency, fill, bandwidth");
    collective->add_flag("--all", o.all, "What every algorithm and protocol would take, beside the choice");
    collective->footer(
        "Example: paceline collective all_reduce --cluster dgx-h100 --nodes 2 -b 8 -e 16G -f 2 --explain");
  }
  void add_validate() {
    validate = app.add_subcommand("validate", "Compare predictions with measurements that were not fitted.");
    validate->add_option("FILES", validate_options.paths, "Validation sets (JSON), or folders of them")
        ->capture_default_str();
    validate->add_flag("--json", validate_options.json, "JSON instead of tables");
    validate->add_flag("--markdown", validate_options.markdown, "The tables as Markdown");
    validate->footer(
        "Example: paceline validate scenarios/validation\nExit status 1: a tolerance is broken.");
  }
  void add_topology() {
    topology = app.add_subcommand("topology", "Describe a cluster: devices, links, bisection bandwidth.");
    topology
        ->add_option("CLUSTER", cluster,
                     "A node preset, a built-in cluster, or a JSON file (a scenario will do)")
        ->required();
    topology->add_option("--graphviz", graphviz, "Write the graph to this file, for `dot -Tsvg`");
    topology->footer("Example: paceline topology dgx1-v100 --graphviz node.dot");
  }
};

// `paceline help calibrate fit`
std::string help_page(const CLI::App& app, const std::vector<std::string>& words) {
  std::string name = "paceline";
  for (const std::string& word : words) {
    name += ' ' + word;
  }
  return app.get_formatter()->make_help(&command_named(app, words), name, CLI::AppFormatMode::Normal);
}

int main_of(int argc, char** argv) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty()) {
    std::cerr << first_steps();
    return kInputFault;
  }
  CommandLine line;
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      return line.app.exit(error);
    }
    throw mistake_in(line.app, words, error);
  }
  if (line.help->parsed()) {
    print(line.help_as_manual ? manual_page(line.app) : help_page(line.app, line.help_on));
  } else if (line.completion->parsed()) {
    print(completion_script(line.app, value_named<Shell>("shell", line.shell, "SHELL")));
  } else if (line.runs.parsed()) {
    line.runs.run();
  } else if (line.collective->parsed()) {
    test_collective(line.collective_command);
  } else if (line.calibrate.parsed()) {
    line.calibrate.run();
  } else if (line.studies.parsed()) {
    return line.studies.run();
  } else if (line.python.parsed()) {
    line.python.run();
  } else if (line.validate->parsed()) {
    return validate(line.validate_options) ? 0 : kToleranceBroken;
  } else if (line.topology->parsed()) {
    show_topology(line.cluster, line.graphviz);
  } else if (line.presets->parsed()) {
    if (line.preset && line.presets_of_compression) {
      throw InputError("expected no name beside it, found " + in_quotes(*line.preset), "--compression");
    }
    print(line.preset                   ? preset_json(*line.preset)
          : line.presets_of_compression ? compression_table()
                                        : presets_table());
  } else {
    const std::string schema = line.schema_of_study ? study_schema() : scenario_schema();
    print(line.schema_as_markdown ? schema_markdown(parse_json(schema)) : schema);
  }
  return 0;
}

// A message on one line, whatever is in it.
int fail(std::string message, int status) {
  message = printable(message);
  std::ranges::replace_if(message, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  std::cerr << "paceline: " << message << '\n';
  return status;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  paceline::open_standard_streams();
  try {
    paceline::ignore_broken_pipes();
    const int status = paceline::main_of(argc, argv);
    paceline::require_printed();
    return status;
  } catch (const paceline::InputError& error) {
    return paceline::fail(error.what(), paceline::kInputFault);
  } catch (const std::bad_alloc&) {
    return paceline::fail("out of memory", paceline::kOurFault);
  } catch (const std::exception& error) {
    return paceline::fail(std::string("internal error: ") + error.what(), paceline::kOurFault);
  }
}
