// Studies: changing scenarios, sweeping over their points.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "python/module.h"
#include "scenarios/json.h"
#include "studies/edit.h"
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
  return to_text(Json(Json::Object{{"file", outcome.file},
                                   {"joined", number(outcome.joined)},
                                   {"locked", outcome.locked},
                                   {"points", number(outcome.points)},
                                   {"found", number(outcome.found)},
                                   {"computed", number(outcome.computed)},
                                   {"failed", number(outcome.failed)},
                                   {"older", number(outcome.older)},
                                   {"older_lines", outcome.older_lines},
                                   {"faults", Json::Array(outcome.faults.begin(), outcome.faults.end())}}));
}

// Thrown through a sweep to end it: the interpreter has an exception to raise.
struct Stopped {};

// A sweep on a thread of its own. The calling thread hears of its progress, and of signals, which Python
// handles on that thread alone; simulations never wait for the interpreter.
class WatchedSweep {
 public:
  WatchedSweep(const Study& study, const std::string& out, int jobs, const std::optional<SweepShard>& shard)
      : thread_(
            [this, &study, options = SweepOptions{out, jobs, [this](const auto& p) { heard(p); }, shard}] {
              try {
                outcome_ = sweep(study, options);
              } catch (...) {
                failure_ = std::current_exception();
              }
              const std::lock_guard lock(mutex_);
              ended_ = true;
              changed_.notify_one();
            }) {}

  // Calls `tell` with news, and at least ten times in a second without any; what it throws stops the sweep.
  template <class Tell>
  SweepOutcome watch(const Tell& tell) {
    constexpr std::chrono::milliseconds kPatience{100};
    std::exception_ptr told;
    std::unique_lock lock(mutex_);
    for (bool ended = false; !ended;) {
      changed_.wait_for(lock, kPatience, [&] { return news_ || ended_; });
      ended = ended_;
      const std::optional<SweepProgress> news = std::exchange(news_, std::nullopt);
      lock.unlock();
      try {
        if (!told) {
          tell(news);
        }
      } catch (...) {
        told = std::current_exception();
      }
      lock.lock();
      stop_ = told != nullptr;
    }
    lock.unlock();
    thread_.join();
    if (told || failure_) {
      std::rethrow_exception(told ? told : failure_);
    }
    return outcome_;
  }

 private:
  void heard(const SweepProgress& progress) {
    const std::lock_guard lock(mutex_);
    news_ = progress;
    changed_.notify_one();
    if (stop_) {
      throw Stopped();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<SweepProgress> news_;
  bool ended_ = false, stop_ = false;
  SweepOutcome outcome_;
  std::exception_ptr failure_;
  std::jthread thread_;  // the last member: it begins when all others are there
};

using Progress = nb::typed<nb::callable, nb::object(int, int, int)>;  // done, points, failed

std::string run_sweep(const std::string& text, const std::string& file_name, const std::string& out, int jobs,
                      const std::optional<Progress>& progress, const std::optional<std::string>& part) {
  const nb::gil_scoped_release unlocked;
  const std::optional<SweepShard> shard = part ? std::optional(shard_named(*part)) : std::nullopt;
  const Study study = parse_study(text, file_name);
  return outcome_json(
      WatchedSweep(study, out, jobs, shard).watch([&](const std::optional<SweepProgress>& news) {
        const nb::gil_scoped_acquire locked;
        if (PyErr_CheckSignals() != 0) {
          throw nb::python_error();
        }
        if (progress && news) {
          (*progress)(news->done, news->points, news->failed);
        }
      }));
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
             "What that raises, and "
             "KeyboardInterrupt, stop the sweep after the points in flight. {\"file\", \"joined\", "
             "\"locked\", \"points\", \"found\", "
             "\"computed\", \"failed\", \"older\", \"older_lines\", \"faults\"}.");
}

}  // namespace paceline::python
