// paceline: the command line. Exit status 0: done; 2: the input is wrong; 1: our fault.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <exception>
#include <iostream>
#include <limits>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "scenarios/files.h"
#include "scenarios/predict.h"
#include "scenarios/scenario.h"
#include "scenarios/tables.h"
#include "topology/topology.h"

namespace paceline {
namespace {

constexpr const char* kVersion = "paceline 0.1";
constexpr int kOurFault = 1, kInputFault = 2;
constexpr TraceRequest kTraced{.ranks = 32, .iterations = 4};

struct RunOptions {
  std::string scenario;
  std::optional<std::string> engine, seed, iterations, out, trace;
  bool quiet = false;
};

void print(const std::string& text) {
  if (!(std::cout << text << std::flush)) {
    throw InputError("can't write to the standard output");
  }
}

EngineChoice engine_named(const std::string& name) {
  const std::vector<std::string> known{"auto", "event", "vector"};
  for (const EngineChoice choice : {EngineChoice::automatic, EngineChoice::event, EngineChoice::vector}) {
    if (known[static_cast<std::size_t>(choice)] == name) {
      return choice;
    }
  }
  throw InputError(unknown_name("engine", name, known), "--engine");
}

// CLI11 would take -1 for 2^64 - 1.
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

void apply(const RunOptions& options, RunSpec& run) {
  constexpr std::uint64_t kMostIterations = 100'000;
  if (options.engine) {
    run.engine = engine_named(*options.engine);
  }
  if (options.seed) {
    run.seed = whole_number(*options.seed, 0, std::numeric_limits<std::uint64_t>::max(), "--seed");
  }
  if (options.iterations) {
    run.iterations = static_cast<int>(whole_number(*options.iterations, 1, kMostIterations, "--iterations"));
  }
}

// Before the simulation: nobody should wait for a result that can't be kept.
void check_places(const RunOptions& options) {
  for (const std::optional<std::string>& path : {options.out, options.trace}) {
    if (path) {
      require_writable(*path);
    }
  }
  if (options.out && options.out == options.trace) {
    throw InputError("expected different files for --out and --trace", {}, *options.out);
  }
}

void run(const RunOptions& options) {
  Scenario scenario = load_scenario(options.scenario);
  apply(options, scenario.run);
  check_places(options);
  Prediction prediction;
  try {
    prediction = predict(scenario, options.trace ? kTraced : TraceRequest{});
  } catch (const InputError& error) {
    throw error.in_file(options.scenario);
  }
  std::vector<OutputFile> files;
  if (options.out) {
    files.push_back({*options.out, result_json(prediction)});
  }
  if (options.trace) {
    files.push_back({*options.trace, trace_json(prediction)});
  }
  write_files(files);
  if (!options.quiet) {
    print(terminal_table(prediction));
  }
}

void show_topology(const std::string& cluster, const std::optional<std::string>& graphviz) {
  if (graphviz) {
    require_writable(*graphviz);
  }
  const Topology topology = build_checked_topology(load_cluster(cluster));
  const std::string page = topology_table(topology);
  if (graphviz) {
    std::ostringstream graph;
    write_graphviz(topology, graph);
    write_file(*graphviz, graph.str());
  }
  print(page);
}

// One subcommand each; they run when the line has been read whole.
struct CommandLine {
  CLI::App app{
      "Paceline predicts how data-parallel training scales: it simulates GPUs, links, collectives and "
      "stragglers from a JSON scenario."};
  RunOptions options;
  std::string cluster;
  std::optional<std::string> graphviz;
  CLI::App* run = nullptr;
  CLI::App* topology = nullptr;
  CLI::App* presets = nullptr;
  CLI::App* schema = nullptr;

  CommandLine() {
    app.require_subcommand(1);
    app.set_version_flag("--version", kVersion);
    app.footer(
        "Example: paceline run scenarios/first_node.json\n"
        "`paceline COMMAND --help` tells more. Exit status: 0 done, 2 the input is wrong, 1 our fault.");
    add_run();
    add_topology();
    presets =
        app.add_subcommand("presets", "List the GPUs, nodes, models and clusters that a scenario may name.");
    presets->footer("Example: paceline presets");
    schema = app.add_subcommand("schema", "Print the JSON Schema of a scenario, for an editor's completion.");
    schema->footer("Example: paceline schema > scenario.schema.json");
  }

 private:
  void add_run() {
    run = app.add_subcommand("run", "Predict step time, throughput and scaling of a scenario.");
    run->add_option("SCENARIO", options.scenario, "A scenario (JSON), or a result.json, which is run again")
        ->required();
    run->add_option("--engine", options.engine, "auto, event or vector, instead of the scenario's");
    run->add_option("--seed", options.seed, "Seed of all random draws, instead of the scenario's");
    run->add_option("--iterations", options.iterations, "Steps to simulate, instead of the scenario's");
    run->add_option("--out", options.out,
                    "Write the result, and the scenario it came from, to this JSON file");
    run->add_option("--trace", options.trace,
                    "Write a timeline of the first " + std::to_string(kTraced.ranks) + " GPUs and " +
                        std::to_string(kTraced.iterations) + " steps, for https://ui.perfetto.dev");
    run->add_flag("--quiet", options.quiet, "Print nothing on the terminal");
    run->footer("Example: paceline run scenarios/slow_gpu_64.json --out result.json --trace trace.json");
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

int main_of(int argc, char** argv) {
  CommandLine line;
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      return line.app.exit(error);
    }
    throw InputError(std::string(error.what()) + " (paceline --help tells more)");
  }
  if (line.run->parsed()) {
    run(line.options);
  } else if (line.topology->parsed()) {
    show_topology(line.cluster, line.graphviz);
  } else if (line.presets->parsed()) {
    print(presets_table());
  } else {
    print(scenario_schema());
  }
  return 0;
}

// A message on one line, whatever is in it.
int fail(std::string message, int status) {
  for (char& c : message) {
    c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  std::cerr << "paceline: " << message << '\n';
  return status;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  try {
    return paceline::main_of(argc, argv);
  } catch (const paceline::InputError& error) {
    return paceline::fail(error.what(), paceline::kInputFault);
  } catch (const std::bad_alloc&) {
    return paceline::fail("out of memory", paceline::kOurFault);
  } catch (const std::exception& error) {
    return paceline::fail(std::string("internal error: ") + error.what(), paceline::kOurFault);
  }
}
