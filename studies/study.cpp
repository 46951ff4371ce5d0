#include "studies/study.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/unknown_name.h"
#include "scenarios/file_kind.h"
#include "scenarios/files.h"
#include "scenarios/limits.h"
#include "studies/edit.h"
#include "studies/study_file.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGpus = "gpus";

// Axes that change together: for each value of the group, one of each axis.
struct AxisGroup {
  std::string place;
  std::vector<StudyAxis> axes;
  std::vector<Json::Array> values;  // by axis
  std::size_t size() const { return values.front().size(); }
};

std::string last_word(const std::string& key) {
  std::string name;
  for (std::size_t i = key.rfind('/') + 1; i < key.size(); ++i) {
    const bool escaped = key[i] == '~' && i + 1 < key.size();
    name += escaped ? (key[++i] == '0' ? '~' : '/') : key[i];
  }
  return name;
}

void check_key(const std::string& key, const Spot& spot) {
  if (key == kGpus) {
    return;
  }
  if (!key.starts_with('/')) {
    fail_at(spot, "\"gpus\" or a JSON pointer such as \"/training/batch_per_gpu\"", in_quotes(key));
  }
  try {
    static_cast<void>(value_at({}, key));
  } catch (const InputError& error) {
    throw error.at(spot.place);
  }
}

// Strong scaling and "gpus" set these themselves.
void check_free(const std::string& key, bool gpus, Scaling scaling, const Spot& spot) {
  if (gpus && (key == "/cluster/nodes" || key == "/cluster/job_nodes")) {
    fail_at(spot, "another key, as the axis gpus sets it", in_quotes(key));
  }
  if (scaling == Scaling::strong && (key == "/training" || key == "/training/accumulation")) {
    fail_at(spot, "another key, as strong scaling sets it", in_quotes(key));
  }
}

void add_axis(AxisGroup& group, const OneAxis& axis, const Spot& spot) {
  const auto add = [&](const auto& form, Json::Array values, const Spot& place_of_values) {
    check_key(form.key, below(spot, "key"));
    if (form.key == kGpus) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const Spot place = place_of_values.place == spot.place ? spot : below(place_of_values, i);
        static_cast<void>(read_whole(values[i], between(1, kMostRanks), place));
      }
    }
    group.axes.push_back({form.name.empty() ? last_word(form.key) : form.name, form.key, spot.place});
    group.values.push_back(std::move(values));
  };
  if (const auto* listed = std::get_if<ListedAxis>(&axis.form)) {
    add(*listed, listed->values, below(spot, "values"));
  } else {
    const auto& range = std::get<RangeAxis>(axis.form);
    add(range, values_of(range, spot), spot);
  }
}

Json row_of(const AxisGroup& group, std::size_t i) {
  Json::Array row;
  for (const Json::Array& values : group.values) {
    row.push_back(values[i]);
  }
  return row.size() == 1 ? row.front() : Json(std::move(row));
}

AxisGroup group_of(const AxisFile& axis, const Spot& spot) {
  AxisGroup group{spot.place, {}, {}};
  if (const auto* one = std::get_if<OneAxis>(&axis.form)) {
    add_axis(group, *one, spot);
  } else {
    const std::vector<OneAxis>& zip = std::get<ZippedAxes>(axis.form).zip;
    for (std::size_t i = 0; i < zip.size(); ++i) {
      const Spot place = below(below(spot, "zip"), i);
      add_axis(group, zip[i], place);
      if (group.values.back().size() != group.size()) {
        fail_at(place, "as many values as the first zipped axis has, " + std::to_string(group.size()),
                std::to_string(group.values.back().size()));
      }
    }
  }
  std::set<std::string> rows;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const std::string row = to_line(row_of(group, i));
    if (!rows.insert(row).second) {
      fail_at(spot, "each value once", in_short(row) + " twice");
    }
  }
  return group;
}

std::vector<AxisGroup> groups_of(const StudyFile& file) {
  std::vector<AxisGroup> groups;
  const Spot spot{"/axes", {}, 0};
  std::size_t points = 1;
  for (std::size_t i = 0; i < file.axes.size(); ++i) {
    groups.push_back(group_of(file.axes[i], below(spot, i)));
    points *= groups.back().size();  // both factors are at most kMostPoints
    if (points > kMostPoints) {
      fail_at(spot, "at most " + std::to_string(kMostPoints) + " points", "more");
    }
  }
  return groups;
}

// A later axis must not set anew what an earlier one has set a part of.
void check_order(const std::vector<StudyAxis>& axes) {
  for (std::size_t later = 0; later < axes.size(); ++later) {
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      if (axes[earlier].key.starts_with(axes[later].key + '/')) {
        fail_at(below({axes[later].place, {}, 0}, "key"),
                "the axis " + in_quotes(axes[later].key) + " before " + in_quotes(axes[earlier].key) +
                    ", whose value it would overwrite: put " + in_quotes(axes[later].key) + " first",
                "it after");
      }
    }
  }
}

// Values of an axis "/cluster" leave the number of GPUs to the axis gpus.
void check_clusters(const std::vector<AxisGroup>& groups) {
  for (const AxisGroup& group : groups) {
    for (std::size_t a = 0; a < group.axes.size(); ++a) {
      for (std::size_t i = 0; group.axes[a].key == "/cluster" && i < group.size(); ++i) {
        for (const char* key : {"nodes", "job_nodes", "gpus_per_node"}) {
          if (group.values[a][i].find(key) != nullptr) {
            fail_at(below(below({group.axes[a].place, {}, 0}, "values"), i),
                    "a cluster without " + in_quotes(key) + ", as the axis gpus sets it", "one with it");
          }
        }
      }
    }
  }
}

// What a table of points has beside the axes: numbers of results, whose nested keys are joined (step_time_mean_s), and
// what is made of several seeds' (python/paceline/studies.py).
bool names_a_number(const std::string& name) {
  constexpr std::string_view kNames[] = {"description",
                                         "paceline",
                                         "model_version",
                                         "key",
                                         "error",
                                         "gpus",
                                         "engine",
                                         "iterations",
                                         "samples_per_step",
                                         "fingerprint",
                                         "warm_up_s",
                                         "throughput_samples_per_s",
                                         "counted_steps_samples_per_s",
                                         "tokens_per_s",
                                         "compute_source",
                                         "scaling_efficiency",
                                         "compression_ratio",
                                         "compression_kernels_s",
                                         "compression_share_of_step",
                                         "period_steps",
                                         "synchronising_step_s",
                                         "local_step_s",
                                         "check",
                                         "goodput",
                                         "goodput_p5",
                                         "goodput_p95",
                                         "mean",
                                         "low",
                                         "high",
                                         "points"};
  constexpr std::string_view kBeginnings[] = {"step_time_",  "breakdown_",  "interval_",
                                              "worst_rank_", "sent_bytes_", "model_flops_utilisation",
                                              "servers_",    "campaign_",   "drift_"};
  const bool of_memory = name.starts_with("memory_") && (name.ends_with("_bytes") || name.ends_with("_fits"));
  return of_memory || std::ranges::find(kNames, name) != std::end(kNames) ||
         std::ranges::any_of(kBeginnings, [&](std::string_view begin) { return name.starts_with(begin); });
}

// A key's own last word is what the number of that name is about, but for the kinds of GPUs in /cluster/gpus.
void check_name(const StudyAxis& axis, const Spot& spot) {
  const bool same = axis.name == last_word(axis.key) && (axis.name != kGpus || axis.key == kGpus);
  if (names_a_number(axis.name) && !same) {
    fail_at(spot, "a name (key \"name\") that no number of a result has, beside which tables show it",
            in_quotes(axis.name));
  }
}

void check_axes(const std::vector<StudyAxis>& axes, const std::vector<AxisGroup>& groups, Scaling scaling) {
  const bool gpus = std::ranges::find(axes, kGpus, &StudyAxis::key) != axes.end();
  if (scaling != Scaling::none && !gpus) {
    fail_at({"/scaling", {}, 0}, "an axis with the key \"gpus\"", "none");
  }
  std::set<std::string> names, keys;
  for (const StudyAxis& axis : axes) {
    const Spot spot{axis.place, {}, 0};
    check_name(axis, spot);
    if (!names.insert(axis.name).second) {
      fail_at(spot, "a name of its own for each axis (key \"name\")", in_quotes(axis.name) + " twice");
    }
    if (!keys.insert(axis.key).second) {
      fail_at(spot, "each key in one axis", in_quotes(axis.key) + " twice");
    }
    check_free(axis.key, gpus, scaling, below(spot, "key"));
  }
  check_order(axes);
  if (gpus) {
    check_clusters(groups);
  }
}

StudyPoints points_of(std::vector<AxisGroup> groups) {
  std::vector<StudyPoints::Group> together;
  for (AxisGroup& group : groups) {
    StudyPoints::Group& made = together.emplace_back();
    made.values = std::move(group.values);
    for (const StudyAxis& axis : group.axes) {
      made.names.push_back(axis.name);
    }
  }
  return StudyPoints(std::move(together));
}

void check_measured(const std::vector<StatedPoint>& measured, const std::vector<StudyAxis>& axes) {
  std::vector<std::string> names;
  for (const StudyAxis& axis : axes) {
    names.push_back(axis.name);
  }
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const Spot spot = below(below(Spot{"/measured", {}, 0}, i), "point");
    const auto* point = measured[i].point.as<Json::Object>();
    if (point == nullptr) {
      fail_at(spot, "an object: name of each axis -> its value", shown(measured[i].point));
    }
    for (const JsonMember& member : *point) {
      if (std::ranges::find(names, member.key) == names.end()) {
        throw InputError(unknown_name("axis", in_short(member.key), names), spot.place);
      }
    }
  }
}

std::string folder_of(const std::string& file) { return fs::path(file).parent_path().string(); }

void set_scenario(Study& study, const StudyFile& file) {
  study.scenario = file.scenario.json;
  study.file = study.study_file;
  if (const auto* name = file.scenario.json.as<std::string>()) {
    study.file = (fs::path(folder_of(study.study_file)) / *name).string();
    try {
      study.scenario = parse_json(study.files->text(study.file));
    } catch (const InputError& error) {
      throw error.in_file(study.file);
    }
  }
  study.scenario = scenario_of_result(std::move(study.scenario));
  if (study.scenario.as<Json::Object>() == nullptr) {
    throw InputError("expected an object, found " + shown(study.scenario), {}, study.file);
  }
}

std::optional<Profile> profile_of(const StudyFile& file, const Study& study) {
  if (const auto* name = file.profile.as<std::string>()) {
    const std::string path = (fs::path(folder_of(study.study_file)) / *name).string();
    return parse_profile(study.files->text(path), path);
  }
  if (file.profile.as<Json::Object>() != nullptr) {
    try {
      return parse_profile(to_line(file.profile), {});
    } catch (const InputError& error) {
      throw error.at("/profile");
    }
  }
  if (file.profile.as<std::nullptr_t>() == nullptr) {
    fail_at({"/profile", {}, 0}, "the name of a file or a profile", shown(file.profile));
  }
  return std::nullopt;
}

std::int64_t global_batch_of(const Study& study) {
  Scenario scenario;
  try {
    scenario = parse_scenario(to_line(study.scenario), study.file, study.files.get());
  } catch (const InputError& error) {
    throw InputError(error.message() + "; strong scaling takes the global batch from here: complete the " +
                         "scenario, or give global_batch",
                     error.place(), error.file());
  }
  return scenario.training.batch_per_gpu * scenario.training.accumulation * gpus_of_job(scenario.cluster);
}

// The study with its scenario and every axis' name written in.
Json text_of(const Json& json, const Study& study) {
  Json text = json;
  set_at(text, "/scenario", study.scenario, {});
  for (const StudyAxis& axis : study.axes) {
    set_at(text, axis.place + "/name", axis.name, {});
  }
  return text;
}

Study study_of(const Json& json, const std::string& file_name, std::shared_ptr<FileTexts> files) {
  require_kind(json, {FileKind::study});
  StudyFile file;
  read_object(json, file, {"", folder_of(file_name), 0});
  if (file.global_batch > 0 && file.scaling != Scaling::strong) {
    throw InputError("expected no key \"global_batch\", as the scaling is not strong");
  }
  Study study;
  study.files = std::move(files);
  study.study_file = file_name.starts_with("./") ? file_name.substr(2) : file_name;
  study.description = file.description;
  study.scaling = file.scaling;
  std::vector<AxisGroup> groups = groups_of(file);
  for (const AxisGroup& group : groups) {
    study.axes.insert(study.axes.end(), group.axes.begin(), group.axes.end());
  }
  check_axes(study.axes, groups, file.scaling);
  check_measured(file.measured, study.axes);
  set_scenario(study, file);
  study.profile = profile_of(file, study);
  study.profile_text = study.profile ? to_json(*study.profile) : "";
  if (study.profile && file.allow_other_machine) {
    study.profile->any_machine = true;
    study.profile_text += "of any machine";
  }
  if (file.scaling == Scaling::strong) {
    study.global_batch = file.global_batch > 0 ? file.global_batch : global_batch_of(study);
  }
  study.text = text_of(json, study);
  study.points = points_of(std::move(groups));
  return study;
}

}  // namespace

StudyPoints::StudyPoints(std::vector<Group> groups) : groups_(std::move(groups)), size_(1) {
  for (const Group& group : groups_) {
    size_ *= group.values.front().size();
  }
}

StudyPoint StudyPoints::operator[](std::size_t point) const {
  StudyPoint made;
  std::size_t block = size_;
  for (const Group& group : groups_) {
    block /= group.values.front().size();
    for (std::size_t a = 0; a < group.names.size(); ++a) {
      made.axes.push_back({group.names[a], group.values[a][point / block]});
    }
    point %= block;
  }
  return made;
}

Study parse_study(const std::string& json, const std::string& file_name, std::shared_ptr<FileTexts> files) {
  try {
    return study_of(parse_json(json), file_name, std::move(files));
  } catch (const InputError& error) {
    throw error.in_file(file_name);
  }
}

}  // namespace paceline
