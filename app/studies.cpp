#include "app/studies.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "app/options.h"
#include "app/progress.h"
#include "core/error.h"
#include "core/version.h"
#include "studies/study.h"
#include "studies/sweep.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr int kOurFault = 1, kInputFault = 2;
constexpr std::size_t kMostFaults = 5;

std::string summary(const SweepOutcome& outcome, const std::string& out) {
  std::string text = (fs::path(out) / "results.jsonl").string() + ": " + std::to_string(outcome.points) +
                     " points, " + std::to_string(outcome.found) + " found, " +
                     std::to_string(outcome.computed) + " computed";
  text += outcome.failed > 0 ? ", " + std::to_string(outcome.failed) + " failed" : "";
  text += outcome.faults.empty() ? "" : ", " + std::to_string(outcome.faults.size()) + " not computed";
  return text + '\n';
}

int sweep_and_print(const std::string& path, const std::string& out, const std::string& jobs) {
  const int threads = thread_count(jobs, "--jobs");
  const Study study = load_study(path);
  if (study.profile && !remark_on(*study.profile).empty()) {
    remark(path + ": its profile was " + remark_on(*study.profile));
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
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
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

void plot(const std::vector<std::string>& given) {
  std::vector<std::string> words{
      interpreter(), "-c",
      kAlone + std::string("import runpy; runpy.run_module('paceline', run_name='__main__')"), "plot"};
  words.insert(words.end(), given.begin(), given.end());
  const std::vector<char*> arguments = arguments_of(words);
  if (has_package(words.front())) {
    ::execvp(arguments.front(), arguments.data());
  }
  throw InputError(
      "expected Python 3 with the package paceline, which draws plots, found none: pip install .", {},
      words.front());
}

}  // namespace

void StudyCommands::add_to(CLI::App& app) {
  add_sweep(app);
  add_plot(app);
}

void StudyCommands::add_sweep(CLI::App& app) {
  sweep_ = app.add_subcommand("sweep", "Predict every point of a study: a scenario along some axes.");
  sweep_->add_option("STUDY", study_, "A study (JSON; see `paceline schema --study`)")->required();
  sweep_->add_option("--out", out_, "The folder for the results; what it holds already is not computed again")
      ->required();
  sweep_->add_option("--jobs", jobs_, "Threads; all cores if left out");
  sweep_->footer(
      "Example: paceline sweep scenarios/studies/strong_resnet50.json --out strong\n"
      "It may be ended at any time and goes on where it was. Exit status 2: the input of a point is wrong.");
}

void StudyCommands::add_plot(CLI::App& app) {
  plot_ = app.add_subcommand("plot", "Draw what sweeps and runs found (needs the Python package).");
  plot_->prefix_command();
  plot_->set_help_flag();  // --help is the package's
  plot_->footer("Example: paceline plot strong -o strong.svg");
}

int StudyCommands::run() const {
  if (sweep_->parsed()) {
    return sweep_and_print(study_, out_, jobs_);
  }
  plot(plot_->remaining());
  return kOurFault;
}

}  // namespace paceline
