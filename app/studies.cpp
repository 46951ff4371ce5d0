#include "app/studies.h"

#include <filesystem>
#include <string>

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

std::string summary(const SweepOutcome& outcome) {
  std::string text = outcome.file + ": " + plural(static_cast<std::int64_t>(outcome.points), "point") + ", " +
                     std::to_string(outcome.found) + " found, " + std::to_string(outcome.computed) +
                     " computed";
  text += outcome.joined > 0 ? ", " + std::to_string(outcome.joined) + " of them joined from shards" : "";
  text += outcome.failed > 0 ? ", " + std::to_string(outcome.failed) + " failed" : "";
  text += outcome.faults.empty() ? "" : ", " + std::to_string(outcome.faults.size()) + " not computed";
  return text + '\n';
}

int sweep_and_print(const std::string& path, const std::string& out, const std::string& jobs,
                    const std::optional<std::string>& shard_text) {
  const std::optional<SweepShard> shard = shard_text ? std::optional(shard_named(*shard_text)) : std::nullopt;
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
    outcome =
        sweep(study, {out, threads, [&](const SweepProgress& progress) { display.show(progress); }, shard});
  }
  print((shard ? "" : sweep_table(study, out)) + summary(outcome));
  if (!outcome.locked) {
    remark(out + ": this file system's locks keep nobody out (a network's?): see that no two sweeps write " +
           outcome.file);
  }
  if (outcome.older > 0) {
    remark(std::to_string(outcome.older) + " lines of another model version are left aside in " +
           outcome.older_lines + "; this is model version " + std::to_string(kModelVersion));
  }
  for (std::size_t i = 0; i < outcome.faults.size() && i < kMostFaults; ++i) {
    remark(outcome.faults[i]);
  }
  return !outcome.faults.empty() ? kOurFault : outcome.failed > 0 ? kInputFault : 0;
}

}  // namespace

void StudyCommands::add_to(CLI::App& app) {
  sweep_ = app.add_subcommand("sweep", "Predict every point of a study: a scenario along some axes.");
  sweep_->add_option("STUDY", study_, "A study (JSON, see `paceline schema --study`)")->required();
  sweep_->add_option("--out", out_, "The folder for the results; what it holds already is not computed again")
      ->required();
  sweep_->add_option(
      "--shard", shard_,
      "I/N: the I-th of N parts of the points, from 0, for machines that share the folder; the same "
      "without --shard joins them");
  sweep_->add_option("--jobs", jobs_, "Threads; all cores if left out");
  sweep_->footer(
      "Example: paceline sweep scenarios/studies/strong_resnet50.json --out strong\n"
      "It may be ended at any time and goes on where it was. Exit status 2: the input of a point is wrong.");
}

int StudyCommands::run() const { return sweep_and_print(study_, out_, jobs_, shard_); }

}  // namespace paceline
