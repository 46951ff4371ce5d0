#include "studies/evaluate.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/training_interval.h"
#include "core/error.h"
#include "core/fingerprint.h"
#include "core/version.h"
#include "scenarios/campaign.h"
#include "scenarios/json.h"
#include "scenarios/limits.h"
#include "scenarios/predict.h"
#include "scenarios/reader.h"
#include "scenarios/result_json.h"
#include "scenarios/scenario.h"
#include "scenarios/writer.h"
#include "studies/edit.h"
#include "studies/result_lines.h"
#include "studies/sweep.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

// Two sums of 64 bits over words of eight bytes, which differ in how a word enters them.
class ContentHash {
 public:
  void add(const std::string& text) {
    add_word(text.size());
    for (std::size_t i = 0; i < text.size(); i += 8) {
      std::uint64_t word = 0;
      for (std::size_t k = i; k < std::min(i + 8, text.size()); ++k) {
        word = word << 8 | static_cast<unsigned char>(text[k]);
      }
      add_word(word);
    }
  }
  std::string text() const { return to_hex(sums_[0]) + to_hex(sums_[1]); }

 private:
  void add_word(std::uint64_t word) {
    constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;
    sums_[0] = mix64(sums_[0] ^ word);
    sums_[1] = mix64(sums_[1] + word * kOdd);
  }
  std::array<std::uint64_t, 2> sums_{1, 2};
};

// Files as seen from the study's folder, so that it doesn't matter where the program was started.
fs::path whole_path(const std::string& file, const Study& study) {
  return (study.files->folder() / fs::path(file)).lexically_normal();
}
fs::path whole_folder(const Study& study) { return whole_path(study.study_file, study).parent_path(); }

std::string from_study(const std::string& file, const Study& study) {
  return file.empty() ? file : whole_path(file, study).lexically_relative(whole_folder(study)).string();
}

std::string paths_from_study(std::string text, const Study& study) {
  const std::string whole = whole_folder(study).string(),
                    spelled = fs::path(study.study_file).parent_path().string();
  for (const std::string& folder : {spelled, whole}) {
    if (folder.empty() || folder == "/") {
      continue;
    }
    const std::string start = folder + '/';
    for (std::size_t at = text.find(start); at != std::string::npos; at = text.find(start, at)) {
      if (at == 0 || std::string_view(" \"'(").find(text[at - 1]) != std::string_view::npos) {
        text.erase(at, start.size());
      } else {
        at += start.size();
      }
    }
  }
  return text;
}

Json::Object failure_of(const InputError& error, const PointScenario& made, const Study& study) {
  Json::Object why{{"message", paths_from_study(error.message(), study)}};
  why.push_back({"place", error.place()});
  why.push_back({"file", from_study(error.file(), study)});
  return {{"error", std::move(why)}, {"scenario", made.scenario}};
}

// One GPU that does the global batch alone: what disturbs GPUs or joins them is gone, jitter is not.
Scenario alone(const Scenario& scenario, const BatchShare& share, const Study& study) {
  Scenario lone = scenario;
  lone.cluster.nodes = lone.cluster.gpus_per_node = 1;
  lone.cluster.runs.clear();
  lone.cluster.job_nodes = 0;
  lone.cluster.degraded.clear();
  lone.cluster.graphs.reset();
  lone.background.clear();
  lone.other_jobs.clear();
  lone.variability.slow_gpus.clear();
  lone.variability.transient.clear();
  lone.variability.spared_gpus.clear();
  lone.run.engine = EngineChoice::automatic;
  lone.training.measured = pinned_rates(scenario.training);
  lone.training.batch_per_gpu = share.batch_per_gpu;
  lone.training.accumulation = static_cast<int>(share.accumulation);
  try {
    return parse_scenario(to_json(lone), study.file);
  } catch (const InputError& error) {
    throw InputError("one GPU alone, which strong scaling compares with: " + error.message(), error.place(),
                     error.file());
  }
}

// efficiency(N) = T(1) / (N T(N)), with one GPU doing the whole batch.
double strong_efficiency(const Prediction& prediction, const Study& study, const BatchShare& share,
                         ReferenceSteps& references) {
  const double reference = lone_step(share.accumulation, [&](std::int64_t passes) {
    const Scenario lone = alone(prediction.scenario, {share.batch_per_gpu, passes}, study);
    return references.seconds(content_key(lone, study, {}),
                              [&] { return predict(lone).report.step.mean.value; });
  });
  return reference / (static_cast<double>(prediction.job.ranks()) * prediction.report.step.mean.value);
}

// Of a scenario that gives its step, which is taken as it is told whatever the axes change.
Json::Object campaign_members(const Scenario& scenario, const ReadPoint& point, Machines& machines) {
  if (point.made.alone) {
    throw InputError(
        "expected a step that is simulated, as strong scaling compares it with one GPU alone, found one that "
        "is given",
        "/faults/step");
  }
  const CampaignPrediction campaign =
      predict_campaign(scenario, machines, {.log = false, .levers = false, .progress = {}});
  Json::Object members{{"gpus", gpus_of_job(scenario.cluster)},
                       {"fingerprint", to_hex(fingerprint_of(campaign))}};
  for (JsonMember& member : campaign_summary(campaign)) {
    members.push_back(std::move(member));
  }
  return members;
}

// A key that kernels decide, which a profile with kernels sets whatever the scenario has by default.
bool of_kernels(const std::string& key) {
  return key.starts_with("/training/roofline/") || key == "/training/host/kernel_launch" ||
         key == "/training/slowdown_while_communicating";
}

// Where a point's own value is the default, which a profile's replaces: with_profile refuses others.
void require_own_values(const Study& study, const Scenario& scenario, const Scenario& with_profile) {
  const auto value_in = [](const Scenario& of, const std::string& key) {
    const Json json = scenario_json(of);
    const Json* value = value_at(json, key);
    return value == nullptr ? std::string() : to_line(*value);
  };
  for (const StudyAxis& axis : study.axes) {
    if (of_kernels(axis.key) && value_in(scenario, axis.key) != value_in(with_profile, axis.key)) {
      throw InputError(
          "expected either this axis or a profile with kernels, which measured another value, found both",
          axis.place, study.study_file);
    }
  }
}

// What is wrong with the profile is told of the study, which names it, in the study's words.
Scenario with_profile_of(const Study& study, const Scenario& scenario) {
  try {
    if (!study.profile) {
      return scenario;
    }
    Scenario fitted = with_profile(scenario, *study.profile);
    require_own_values(study, scenario, fitted);
    return fitted;
  } catch (const InputError& error) {
    constexpr std::string_view kOption = "--allow-other-machine", kKey = "\"allow_other_machine\": true";
    if (error.place() != "--profile") {
      throw;
    }
    std::string text = error.message();
    if (const std::size_t at = text.find(kOption); at != std::string::npos) {
      text.replace(at, kOption.size(), kKey);
    }
    throw InputError(text, "/profile", study.study_file);
  }
}

Json::Object simulated(const Study& study, const ReadPoint& point, ReferenceSteps& references,
                       Machines& machines) {
  const Scenario scenario = with_profile_of(study, *point.scenario);
  if (!simulates_steps(scenario)) {
    return campaign_members(scenario, point, machines);
  }
  Prediction prediction = predict(scenario, {}, machines);
  if (point.made.alone) {
    prediction.report.scaling_efficiency =
        strong_efficiency(prediction, study, *point.made.alone, references);
  }
  Json::Object members = result_summary(prediction);
  if (scenario.faults) {
    for (JsonMember& member : campaign_summary(
             predict_campaign(scenario, machines, {.log = false, .levers = false, .progress = {}}))) {
      members.push_back(std::move(member));
    }
  }
  if (study.profile) {
    const TrainingInterval interval = training_interval(scenario, *study.profile);
    members.push_back({"interval_s", Json::Object{{"low", interval.low.value},
                                                  {"high", interval.high.value},
                                                  {"extrapolated", interval.extrapolated}}});
  }
  return members;
}

// Whatever the scenario says of nodes, a row says how many GPUs it is of.
void check_gpus(const Study& study, const StudyPoint& point, const Scenario& scenario) {
  const std::int64_t ranks = gpus_of_job(scenario.cluster);
  for (std::size_t i = 0; i < study.axes.size(); ++i) {
    if (study.axes[i].key == "gpus" && read_whole(point.axes[i].value, between(1, kMostRanks), {}) != ranks) {
      throw InputError("expected a scenario of " + to_line(point.axes[i].value) + " GPUs, found one of " +
                           std::to_string(ranks) +
                           "; leave nodes, job_nodes and gpus_per_node to the axis gpus",
                       study.axes[i].place, study.study_file);
    }
  }
}

}  // namespace

double extended_step(std::int64_t passes, const std::function<double(std::int64_t)>& seconds) {
  constexpr std::int64_t kLong = 2000, kShort = 1000;  // seconds of work, and enough for jitter to average
  const double longer = seconds(kLong), each = (longer - seconds(kShort)) / (kLong - kShort);
  return longer + static_cast<double>(passes - kLong) * each;
}

double lone_step(std::int64_t passes, const std::function<double(std::int64_t)>& seconds) {
  return passes <= kMostPasses ? seconds(passes) : extended_step(passes, seconds);
}

double ReferenceSteps::seconds(const std::string& key, const std::function<double()>& compute) {
  std::promise<double> promise;
  std::unique_lock lock(mutex_);
  const auto [at, mine] = steps_.try_emplace(key);
  if (mine) {
    at->second = promise.get_future().share();
  }
  const std::shared_future<double> step = at->second;
  lock.unlock();
  if (mine) {
    try {
      promise.set_value(compute());
    } catch (...) {
      lock.lock();
      steps_.erase(key);  // who comes later tries again: memory may have run out
      lock.unlock();
      promise.set_exception(std::current_exception());
    }
  }
  return step.get();
}

ReadPoint read_point(const Study& study, const StudyPoint& point) {
  ReadPoint read{scenario_of(study, point), {}, {}, {}};
  try {
    if (read.made.wrong) {
      throw *read.made.wrong;
    }
    Scenario scenario = parse_scenario(to_line(read.made.scenario), study.file, study.files.get());
    check_gpus(study, point, scenario);
    read.key = content_key(scenario, study, read.made.alone);
    read.scenario = std::move(scenario);
  } catch (const InputError& error) {
    read.failure = failure_of(error, read.made, study);
  }
  return read;
}

Json::Object point_members(const Study& study, const ReadPoint& point, ReferenceSteps& references,
                           Machines& machines) {
  if (!point.scenario) {
    return point.failure;
  }
  Json::Object members{{"key", point.key}, {"model_version", kModelVersion}}, rest;
  try {
    rest = simulated(study, point, references, machines);
  } catch (const InputError& error) {
    rest = failure_of(error.in_file(study.file), point.made, study);
  }
  for (JsonMember& member : rest) {
    members.push_back(std::move(member));
  }
  return members;
}

std::string line_of(const StudyPoint& point, const Json::Object& members) {
  Json::Object line{{"point", point.axes}};
  line.insert(line.end(), members.begin(), members.end());
  return with_check(to_line(Json(std::move(line))));
}

std::string sweep_line(const Study& study, const StudyPoint& point) {
  ReferenceSteps references;
  Machines machines;
  return line_of(point, point_members(study, read_point(study, point), references, machines));
}

std::string content_key(const Scenario& scenario, const Study& study,
                        const std::optional<BatchShare>& share) {
  Scenario nameless = scenario;
  nameless.description.clear();
  ContentHash hash;
  hash.add("model version " + std::to_string(kModelVersion));
  hash.add(study.profile_text);
  hash.add(share ? std::to_string(share->batch_per_gpu) + " x " + std::to_string(share->accumulation) : "");
  hash.add(to_line(scenario_json(nameless)));
  return hash.text();
}

}  // namespace paceline
