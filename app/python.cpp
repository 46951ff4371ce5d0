#include "app/python.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "app/options.h"
#include "core/error.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

// The interpreter that has the package: beside the program, beside the build's folder, or the first of PATH.
std::string interpreter() {
  const fs::path here = program_folder();
  for (const fs::path& path : {here / "python3", here.parent_path() / "python" / "bin" / "python3"}) {
    if (::access(path.c_str(), X_OK) == 0) {
      return path.string();
    }
  }
  return "python3";
}

// The words as a program's arguments, while they last.
std::vector<char*> arguments_of(std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  return arguments;
}

// The current folder may hold a json.py or a paceline/: nothing is imported from there (as Python's -P, which
// 3.10 doesn't know).
constexpr const char* kAlone = "import sys; sys.path[:] = filter(None, sys.path); ";

bool has_package(const std::string& python) {
  std::vector<std::string> words{
      python, "-c",
      kAlone + std::string("import importlib.util; sys.exit(importlib.util.find_spec('paceline') is None)")};
  const std::vector<char*> arguments = arguments_of(words);
  pid_t child = 0;
  int status = -1;
  return ::posix_spawnp(&child, arguments.front(), nullptr, nullptr, arguments.data(), environ) == 0 &&
         ::waitpid(child, &status, 0) == child && status == 0;
}

std::vector<std::string> plot_words(const PlotOptions& options) {
  std::vector<std::string> words{"plot", "--out", options.out};
  if (options.kind) {
    words.insert(words.end(), {"--kind", *options.kind});
  }
  words.emplace_back("--");
  words.insert(words.end(), options.sources.begin(), options.sources.end());
  return words;
}

std::string text_of(const std::string& text) { return text; }
std::string text_of(std::int64_t number) { return std::to_string(number); }

std::vector<std::string> report_words(const ReportOptions& options) {
  std::vector<std::string> words{"report"};
  const auto add = [&](const std::string& name, const auto& value) {
    if (value) {
      words.push_back(name + '=' + text_of(*value));
    }
  };
  const auto flag = [&](const char* name, bool set) {
    if (set) {
      words.emplace_back(name);
    }
  };
  add("--out", options.out);
  add("--profile", options.profile);
  add("--step", options.step);
  add("--ranks", options.ranks);
  add("--slices", options.slices);
  if (options.serve) {
    words.push_back("--serve" + (options.serve->empty() ? "" : '=' + *options.serve));
  }
  flag("--allow-other-machine", options.allow_other_machine);
  flag("--no-explain", options.no_explain);
  words.insert(words.end(), {"--", options.source});
  return words;
}

}  // namespace

void become_package(const std::vector<std::string>& options) {
  std::vector<std::string> words{
      interpreter(), "-c",
      kAlone + std::string("import runpy; runpy.run_module('paceline', run_name='__main__')")};
  words.insert(words.end(), options.begin(), options.end());
  const std::vector<char*> arguments = arguments_of(words);
  if (has_package(words.front())) {
    heed_broken_pipes();
    ::execvp(arguments.front(), arguments.data());
  }
  throw InputError(
      "expected Python 3 with the package paceline, which draws, writes reports and talks to Dask, found "
      "none: pip install . in Paceline's folder",
      {}, words.front());
}

void PythonCommands::add_to(CLI::App& app) {
  add_plot(app);
  add_report(app);
}

void PythonCommands::add_plot(CLI::App& app) {
  plot_ = app.add_subcommand("plot", "Draw what sweeps and runs found (needs the Python package).");
  plot_
      ->add_option("SOURCE", plot_options_.sources,
                   "The folder of a sweep, results, a profile, or a trace (a file or a folder)")
      ->required();
  plot_->add_option("-o,--out", plot_options_.out, "The picture: .svg, .png, .pdf ...")->required();
  plot_->add_option("--kind", plot_options_.kind, "This picture instead of what fits");
  plot_->footer(
      "A sweep over GPUs is drawn as scaling and efficiency, another sweep as step time and breakdown, a "
      "result\n"
      "as its breakdown, several as scaling, a profile as calibration, a trace as a timeline; of campaigns\n"
      "whose step is given a sweep's goodput, a result's losses. KIND may be\n"
      "  of a sweep: scaling, efficiency, breakdown, step, stragglers, goodput\n"
      "  of a result: breakdown, stragglers, sensitivities, critical-path, losses\n"
      "  of a profile: calibration; of a trace: timeline\n"
      "It needs Python 3 with the package paceline (pip install . in Paceline's folder).\n"
      "Example: paceline plot strong -o strong.svg");
}

void PythonCommands::add_report(CLI::App& app) {
  report_ = app.add_subcommand(
      "report",
      "One HTML file that opens offline: where a step goes, or how it scales (needs the Python package).");
  report_
      ->add_option("INPUT", report_options_.source,
                   "A scenario, a result, the folder of a sweep, a profile, or what `validate --json` wrote")
      ->required();
  report_->add_option("-o,--out", report_options_.out, "The page: report.html");
  report_->add_option("--profile", report_options_.profile,
                      "Of a scenario: what calibration knows of the machine");
  report_->add_flag("--allow-other-machine", report_options_.allow_other_machine,
                    "Take the costs of a profile of another machine");
  report_->add_flag("--no-explain", report_options_.no_explain,
                    "Of a run: without what would change the step: few simulations instead of many");
  report_->add_option("--step", report_options_.step,
                      "Of a run: the step of the timeline; left out: a median one");
  report_->add_option("--ranks", report_options_.ranks,
                      "Of a run: these ranks first in the timeline, such as 0,37,100-107");
  report_->add_option("--slices", report_options_.slices,
                      "Of a run: at most so many operations in the timeline; left out: 100,000");
  report_
      ->add_option("--serve", report_options_.serve,
                   "Of a sweep, which may still run: show it at http://127.0.0.1:PORT (8765) until Ctrl-C")
      ->option_text("[PORT]")
      ->expected(0, 1)
      ->check(CLI::Range(0, 65535));
  report_->footer(
      "Nothing is loaded from anywhere, so the file can be sent. It needs Python 3 with the package paceline "
      "and\n"
      "Bokeh (pip install '.[report]' in Paceline's folder).\n"
      "Example: paceline report scenarios/slow_gpu_64.json -o report.html");
}

void PythonCommands::run() const {
  become_package(plot_->parsed() ? plot_words(plot_options_) : report_words(report_options_));
}

}  // namespace paceline
