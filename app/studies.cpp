#include "app/studies.h"

#include <string>

#include "app/options.h"
#include "app/progress.h"
#include "app/python.h"
#include "core/error.h"
#include "studies/study.h"
#include "studies/sweep.h"

namespace paceline {
namespace {

constexpr std::size_t kMostFaults = 5;

void require_folder(const std::string& out) {
  if (out == kStandard) {
    throw InputError("expected a folder, found \"-\"", "--out");
  }
}

int sweep_and_print(const std::string& path, const std::string& out, const std::string& jobs,
                    const std::optional<std::string>& shard_text) {
  const std::optional<SweepShard> shard = shard_text ? std::optional(shard_named(*shard_text)) : std::nullopt;
  const int threads = thread_count(jobs, "--jobs");
  require_folder(out);
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
  print((shard ? "" : sweep_table(study, out)) + sweep_summary(outcome));
  for (const std::string& each : sweep_remarks(outcome)) {
    remark(each);
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
  sweep_->add_option("--dask", dask_,
                     "Let Dask's workers compute: the scheduler's address, such as tcp://HOST:8786, or local "
                     "(needs the Python package)");
  sweep_->add_option("--jobs", jobs_, "Threads, or processes of --dask local; all cores if left out");
  sweep_->footer(
      "Example: paceline sweep scenarios/studies/strong_resnet50.json --out strong\n"
      "It may be ended at any time and goes on where it was. Exit status 2: the input of a point is wrong.");
}

int StudyCommands::run() const {
  if (!dask_) {
    return sweep_and_print(study_, out_, jobs_, shard_);
  }
  if (shard_) {
    throw InputError("expected --shard or --dask, found both", "--dask");
  }
  require_folder(out_);
  become_package({"sweep", "--dask=" + *dask_, "--out=" + out_,
                  "--jobs=" + std::to_string(thread_count(jobs_, "--jobs")), "--", study_});
}

}  // namespace paceline
