#include "app/studies.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "app/options.h"
#include "app/progress.h"
#include "core/error.h"
#include "core/text.h"
#include "core/version.h"
#include "scenarios/readable.h"
#include "studies/study.h"
#include "studies/sweep.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFaults = 5;

std::string summary(const SweepOutcome& outcome, const std::string& out) {
  std::string text = (fs::path(out) / "results.jsonl").string() + ": " +
                     plural(static_cast<std::int64_t>(outcome.points), "point") + ", " +
                     std::to_string(outcome.found) + " found, " + std::to_string(outcome.computed) +
                     " computed";
  text += outcome.failed > 0 ? ", " + std::to_string(outcome.failed) + " failed" : "";
  text += outcome.faults.empty() ? "" : ", " + std::to_string(outcome.faults.size()) + " not computed";
  return text + '\n';
}

int sweep_and_print(const std::string& path, const std::string& out, const std::string& jobs) {
  const int threads = thread_count(jobs, "--jobs");
  if (out == kStandard) {
    throw InputError("expected a folder, found \"-\"", "--out");
  }
  const GivenFile file = read_given(path);
  const Study study = parse_study(file.text, file.name);
  if (study.profile && !remark_on(*study.profile).empty()) {
    remark(file.name + ": its profile was " + remark_on(*study.profile));
  }
  SweepOutcome outcome;
  {
    ProgressDisplay display(study.points.size());
    outcome = sweep(study, {out, threads, [&](const SweepProgress& progress) { display.show(progress); }});
  }
  print(sweep_table(study, out) + summary(outcome, out));
  if (outcome.older > 0) {
    remark(std::to_string(outcome.older) + " lines of another model version are left aside in " +
           outcome.older_lines + "; this is model version " + std::to_string(kModelVersion));
  }
  for (std::size_t i = 0; i < outcome.faults.size() && i < kMostFaults; ++i) {
    remark(outcome.faults[i]);
  }
  return !outcome.faults.empty() ? kOurFault : outcome.failed > 0 ? kInputFault : 0;
}

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

int plot(const PlotOptions& options) {
  std::vector<std::string> words{
      interpreter(),
      "-c",
      kAlone + std::string("import runpy; runpy.run_module('paceline', run_name='__main__')"),
      "plot",
      "--out",
      options.out};
  if (options.kind) {
    words.insert(words.end(), {"--kind", *options.kind});
  }
  words.emplace_back("--");
  words.insert(words.end(), options.sources.begin(), options.sources.end());
  const std::vector<char*> arguments = arguments_of(words);
  if (has_package(words.front())) {
    heed_broken_pipes();
    ::execvp(arguments.front(), arguments.data());
  }
  throw InputError(
      "expected Python 3 with the package paceline, which draws plots, found none: pip install . in "
      "Paceline's "
      "folder",
      {}, words.front());
}

}  // namespace

void StudyCommands::add_to(CLI::App& app) {
  add_sweep(app);
  add_plot(app);
}

void StudyCommands::add_sweep(CLI::App& app) {
  sweep_ = app.add_subcommand("sweep", "Predict every point of a study: a scenario along some axes.");
  sweep_->add_option("STUDY", study_, "A study (JSON, see `paceline schema --study`)")->required();
  sweep_->add_option("--out", out_, "The folder for the results; what it holds already is not computed again")
      ->required();
  sweep_->add_option("--jobs", jobs_, "Threads; all cores if left out");
  sweep_->footer(
      "Example: paceline sweep scenarios/studies/strong_resnet50.json --out strong\n"
      "It may be ended at any time and goes on where it was. Exit status 2: the input of a point is wrong.");
}

void StudyCommands::add_plot(CLI::App& app) {
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
      "as its breakdown, several as scaling, a profile as calibration, a trace as a timeline. KIND may be\n"
      "  of a sweep: scaling, efficiency, breakdown, step, stragglers\n"
      "  of a result: breakdown, stragglers, sensitivities, critical-path\n"
      "  of a profile: calibration; of a trace: timeline\n"
      "It needs Python 3 with the package paceline (pip install . in Paceline's folder).\n"
      "Example: paceline plot strong -o strong.svg");
}

int StudyCommands::run() const {
  if (sweep_->parsed()) {
    return sweep_and_print(study_, out_, jobs_);
  }
  return plot(plot_options_);
}

}  // namespace paceline
