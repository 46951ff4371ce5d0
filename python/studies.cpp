// Studies: changing scenarios, sweeping over their points.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <optional>
#include <utility>

#include "python/module.h"
#include "python/watched.h"
#include "scenarios/files.h"
#include "scenarios/json.h"
#include "studies/edit.h"
#include "studies/evaluate.h"
#include "studies/open_sweep.h"
#include "studies/pieces.h"
#include "studies/result_lines.h"
#include "studies/study.h"
#include "studies/sweep.h"

namespace nb = nanobind;

namespace paceline::python {
namespace {

std::string set_in(const std::string& scenario, const std::string& pointer, const std::string& value,
                   const std::string& folder) {
  Json json = parse_json(scenario);
  set_at(json, pointer, parse_json(value), folder);
  return to_text(json);
}

std::string study_points(const std::string& text, const std::string& file_name) {
  const Study study = parse_study(text, file_name);
  Json::Array points;
  for (const StudyPoint& point : study.points) {
    PointScenario made = scenario_of(study, point);
    Json::Object entry{{"axes", point.axes}, {"scenario", std::move(made.scenario)}};
    if (made.wrong) {
      entry.push_back({"error", made.wrong->what()});
    }
    points.push_back(std::move(entry));
  }
  return to_text(Json(std::move(points)));
}

std::string outcome_json(const SweepOutcome& outcome) {
  const auto number = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  const std::vector<std::string> remarks = sweep_remarks(outcome);
  return to_text(Json(Json::Object{{"file", outcome.file},
                                   {"failed", number(outcome.failed)},
                                   {"faults", Json::Array(outcome.faults.begin(), outcome.faults.end())},
                                   {"remarks", Json::Array(remarks.begin(), remarks.end())},
                                   {"summary", sweep_summary(outcome)}}));
}

using Progress = nb::typed<nb::callable, nb::object(int, int, int)>;  // done, points, failed

std::string run_sweep(const std::string& text, const std::string& file_name, const std::string& out, int jobs,
                      const std::optional<Progress>& progress, const std::optional<std::string>& part) {
  const nb::gil_scoped_release unlocked;
  const std::optional<SweepShard> shard = part ? std::optional(shard_named(*part)) : std::nullopt;
  const Study study = parse_study(text, file_name);
  SweepOutcome outcome;
  std::mutex mutex;
  std::optional<SweepProgress> news;
  watched(
      [&](const auto& go_on) {
        const auto heard = [&](const SweepProgress& now) {
          go_on();
          const std::lock_guard lock(mutex);
          news = now;
        };
        outcome = sweep(study, {out, jobs, heard, shard});
      },
      [&] {
        hear_signals();
        std::unique_lock lock(mutex);
        const std::optional<SweepProgress> now = std::exchange(news, std::nullopt);
        lock.unlock();
        if (progress && now) {
          const nb::gil_scoped_acquire locked;
          (*progress)(now->done, now->points, now->failed);
        }
      });
  return outcome_json(outcome);
}

// A study and what its points have in common; it travels to other processes with all files that it named so far.
class SharedStudy {
 public:
  SharedStudy(std::string text, std::string file_name, std::shared_ptr<FileTexts> files)
      : study(parse_study(text, file_name, std::move(files))),
        text_(std::move(text)),
        file_name_(std::move(file_name)) {}

  // The line of a point, or what went wrong that is not the input's fault.
  std::pair<std::string, std::string> line(std::size_t index) {
    std::string line;
    std::string fault = fault_of([&] {
      const StudyPoint point = study.points[index];
      line = line_of(point, point_members(study, read_point(study, point), references_, machines_));
    });
    return {std::move(line), std::move(fault)};
  }

  using Entry = std::tuple<nb::bytes, nb::bytes, std::vector<std::string>>;  // path, text, failure or none
  using State = std::tuple<std::string, std::string, std::string, std::vector<Entry>>;
  State state() const {
    const auto bytes = [](const std::string& given) { return nb::bytes(given.data(), given.size()); };
    const FileTexts::Known known = study.files->known();
    std::vector<Entry> entries;
    for (const auto& [path, entry] : known.entries) {
      const std::optional<InputError>& why = entry.failure;
      entries.emplace_back(
          bytes(path), bytes(entry.text),
          why ? std::vector{why->message(), why->place(), why->file()} : std::vector<std::string>{});
    }
    return {text_, file_name_, known.folder, std::move(entries)};
  }
  static void set_state(SharedStudy* self, const State& state) {
    const auto& [text, file_name, folder, entries] = state;
    FileTexts::Known known{folder, {}};
    for (const auto& [path, of_path, why] : entries) {
      FileTexts::Entry& entry = known.entries[std::string(path.c_str(), path.size())];
      entry.text.assign(of_path.c_str(), of_path.size());
      if (!why.empty()) {
        entry.failure.emplace(why.at(0), why.at(1), why.at(2));
      }
    }
    new (self) SharedStudy(text, file_name, std::make_shared<FileTexts>(std::move(known)));
  }

  const Study study;

 private:
  std::string text_, file_name_;
  ReferenceSteps references_;
  Machines machines_;
};

std::vector<std::pair<std::size_t, std::int64_t>> left_of(const OpenSweep& open) {
  std::vector<std::pair<std::size_t, std::int64_t>> left;
  for (const EqualPoints& equal : open.left()) {
    left.emplace_back(equal.points.front(), equal.gpus);
  }
  return left;
}

void add_shared_sweep(nb::module_& module) {
  const auto unlocked = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<SharedStudy>(module, "Study",
                          "A study for several processes: pickled, it carries the files that it named.")
      .def(
          "__init__",
          [](SharedStudy* self, const std::string& text, const std::string& file_name) {
            new (self) SharedStudy(text, file_name, std::make_shared<FileTexts>());
          },
          nb::arg("study"), nb::arg("file_name"), unlocked)
      .def("__getstate__", &SharedStudy::state)
      .def("__setstate__", &SharedStudy::set_state)
      .def("line", &SharedStudy::line, nb::arg("point"), unlocked,
           "The line of a point as a sweep writes it, or else what went wrong.")
      .def(
          "table",
          [](const SharedStudy& shared, const std::string& out) { return sweep_table(shared.study, out); },
          nb::arg("out"), unlocked, "What a sweep into this folder prints at its end.");
  nb::class_<OpenSweep>(module, "OpenSweep",
                        "The folder of a sweep whose lines are computed elsewhere (studies/open_sweep.h).")
      .def(
          "__init__",
          [](OpenSweep* self, const SharedStudy& study, const std::string& out, int jobs) {
            new (self) OpenSweep(study.study, {out, jobs, {}});
          },
          nb::arg("study"), nb::arg("out"), nb::arg("jobs"), unlocked, nb::keep_alive<1, 2>())
      .def("left", &left_of, unlocked, "(point, its GPUs) of all that are to be computed.")
      .def("write_line", &OpenSweep::write_line, nb::arg("left"), nb::arg("line"), unlocked,
           "Writes the line of left()[left], and of points with an equal scenario.")
      .def("fail", &OpenSweep::fail, nb::arg("left"), nb::arg("what"), unlocked,
           "left()[left] has no line: what went wrong is not the input's fault.")
      .def(
          "progress",
          [](const OpenSweep& open) {
            const SweepProgress progress = open.progress();
            return std::tuple(progress.done, progress.points, progress.failed);
          },
          unlocked, "Points done, in all, failed.")
      .def(
          "end", [](OpenSweep& open) { return outcome_json(open.end()); }, unlocked,
          "What sweep() returns, when all lines are on the disk.");
}

}  // namespace

void add_studies(nb::module_& module) {
  const auto unlocked = nb::call_guard<nb::gil_scoped_release>();
  module.def("set_at", &set_in, nb::arg("scenario"), nb::arg("pointer"), nb::arg("value"), nb::arg("folder"),
             unlocked,
             "The scenario with another value at a JSON pointer; `folder`: of relative paths in it.");
  module.def("study_schema", &study_schema, unlocked, "The JSON Schema of a study.");
  module.def("study_points", &study_points, nb::arg("study"), nb::arg("file_name"), unlocked,
             "A list of {\"axes\", \"scenario\"}, and \"error\" where the scenario can't be made.");
  module.def(
      "line_was_changed", [](const std::string& line) { return check_of(line) == LineCheck::wrong; },
      nb::arg("line"), unlocked, "Whether a line of results.jsonl has a check that isn't its own.");
  module.def("sweep", &run_sweep, nb::arg("study"), nb::arg("file_name"), nb::arg("out"), nb::arg("jobs"),
             nb::arg("progress") = nb::none(), nb::arg("shard") = nb::none(),
             "Runs all points, or those of a shard; calls progress(done, points, failed) on this thread. "
             "What that raises, and KeyboardInterrupt, stop the sweep after the points in flight. {\"file\", "
             "\"failed\", \"faults\", \"remarks\", \"summary\"}.");
  add_shared_sweep(module);
}

}  // namespace paceline::python
