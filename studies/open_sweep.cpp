#include "studies/open_sweep.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/fingerprint.h"
#include "core/version.h"
#include "scenarios/files.h"
#include "studies/evaluate.h"
#include "studies/pieces.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

// What is known of a point before the simulations.
struct PointState {
  std::string key;  // empty where the scenario can't be read
  std::int64_t gpus = 0;
  std::string fault;
  bool found = false;
  bool elsewhere = false;  // of another shard
};

std::vector<PointState> states_of(const Study& study, int jobs) {
  std::vector<PointState> states(study.points.size());
  std::vector<std::string> faults = faults_of(states.size(), jobs, [&](std::size_t i) {
    ReadPoint point = read_point(study, study.points[i]);
    states[i].key = std::move(point.key);
    states[i].gpus = point.scenario ? gpus_of_job(point.scenario->cluster) : 0;
  });
  for (std::size_t i = 0; i < states.size(); ++i) {
    states[i].fault = std::move(faults[i]);
  }
  return states;
}

// The line of a point whose scenario can't be read. Made when it is needed: it holds the scenario.
std::string unread_line(const Study& study, std::size_t point) {
  return line_of(study.points[point], read_point(study, study.points[point]).failure);
}

// What an earlier run wrote of a point.
struct FoundLine {
  std::size_t number = 0;
  std::string key, line;  // the line itself only where there is no key
  bool failed = false;
  bool of_this_model = true;  // version; without a key a line depends on none
};

const std::string* text_member(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value == nullptr ? nullptr : value->as<std::string>();
}

std::unordered_map<std::string, FoundLine> found_lines(const std::string& path) {
  std::unordered_map<std::string, FoundLine> found;
  for_each_line(path, [&](std::size_t number, const std::string& text) {
    const std::string place = "line " + std::to_string(number);
    Json line;
    try {
      line = parse_json(text);
    } catch (const InputError& error) {
      throw InputError("expected a line that a sweep wrote; " + error.message(), place, path);
    }
    const Json* point = line.find("point");
    const std::string* key = text_member(line, "key");
    const bool failed = line.find("error") != nullptr;
    if (point == nullptr || (key == nullptr && !failed)) {
      throw InputError("expected a line that a sweep wrote, found " + in_quotes(in_short(text)), place, path);
    }
    const LineCheck check = check_of(text);
    if (check == LineCheck::wrong) {
      throw InputError(
          "expected a line as a sweep wrote it, found one that was changed: its check is another; delete the "
          "line, and it is computed again",
          place, path);
    }
    const Json* version = line.find("model_version");
    const auto* model = version == nullptr ? nullptr : version->as<std::int64_t>();
    const bool of_this_model = model != nullptr && *model == kModelVersion;
    if (check == LineCheck::none && of_this_model) {
      throw InputError(
          "expected a line with its check, found one without; delete the line, and it is computed again",
          place, path);
    }
    const bool of_no_model = key == nullptr && check == LineCheck::right;
    found[to_line(*point)] = {number, key == nullptr ? "" : *key, key == nullptr ? text : "", failed,
                              of_this_model || of_no_model};
  });
  return found;
}

// Marks the points that have their line already; the file must hold no others. Lines of another model version
// are of this study as far as anybody can tell: they are counted as older. Returns the numbers of the lines that count,
// of points that had none before.
std::set<std::size_t> mark_found(const Study& study, const std::string& path, std::vector<PointState>& states,
                                 SweepOutcome& outcome) {
  std::set<std::size_t> fresh;
  std::unordered_map<std::string, FoundLine> found = found_lines(path);
  const auto refuse = [&](const FoundLine& line, const std::string& why) {
    throw InputError(why + "; take another folder for this study", "line " + std::to_string(line.number),
                     path);
  };
  for (std::size_t i = 0; i < states.size() && !found.empty(); ++i) {
    const auto at = found.find(to_line(Json(study.points[i].axes)));
    if (at == found.end()) {
      continue;
    }
    const FoundLine& line = at->second;
    PointState& state = states[i];
    if (!line.of_this_model) {
      ++outcome.older;
      found.erase(at);
      continue;
    }
    if (state.fault.empty() && !line.key.empty() && line.key != state.key) {
      refuse(line, "expected a line of this study, found one of another scenario");
    }
    const bool counts = !line.key.empty()
                            ? line.key == state.key
                            : state.key.empty() && state.fault.empty() && line.line == unread_line(study, i);
    if (counts && !state.found) {
      state.found = true;
      fresh.insert(line.number);
      outcome.found += state.elsewhere ? 0 : 1;
      outcome.failed += line.failed && !state.elsewhere ? 1 : 0;
    }
    found.erase(at);
  }
  const auto first =
      std::ranges::min_element(found, {}, [](const auto& entry) { return entry.second.number; });
  if (first != found.end()) {
    refuse(first->second, "expected a point of this study, found " + in_short(first->first));
  }
  return fresh;
}

// Leaves points of other shards alone.
void keep_shard(const Study& study, const SweepShard& shard, std::vector<PointState>& states) {
  for (std::size_t i = 0; i < states.size(); ++i) {
    const std::string& key = states[i].key;
    states[i].elsewhere = !holds(shard, key.empty() ? checksum(to_line(Json(study.points[i].axes))) : key);
  }
}

// Lines of the folder's other files must be of this study too, before any of them is joined and its study.json
// replaced.
void check_folder(const Study& study, const std::string& out, const std::string& own,
                  std::vector<PointState> states) {
  std::vector<std::string> names{kResults};
  for (const ShardFile& file : shard_files(out)) {
    names.push_back(file.name);
  }
  for (const std::string& name : names) {
    const std::string path = (fs::path(out) / name).string();
    SweepOutcome unused;
    if (path != own && fs::exists(path)) {
      mark_found(study, path, states, unused);
    }
  }
}

// What was joined before is not computed again by a shard.
void mark_joined(const Study& study, const std::string& out, std::vector<PointState>& states,
                 SweepOutcome& outcome) {
  const std::string path = (fs::path(out) / kResults).string();
  if (fs::exists(path)) {
    SweepOutcome before;
    mark_found(study, path, states, before);
    outcome.found += before.found;
    outcome.failed += before.failed;
  }
}

// Takes the lines of all shards of the folder; all of them must have ended.
void join_shards(const Study& study, const std::string& out, ResultLines& lines,
                 std::vector<PointState>& states, SweepOutcome& outcome) {
  std::vector<std::unique_ptr<ResultLines>> shards;
  for (const ShardFile& file : shard_files(out)) {
    shards.push_back(std::make_unique<ResultLines>(out, file.name));
  }
  for (const std::unique_ptr<ResultLines>& shard : shards) {
    SweepOutcome of_shard;
    const std::set<std::size_t> fresh = mark_found(study, shard->path(), states, of_shard);
    for_each_line(shard->path(), [&](std::size_t number, const std::string& line) {
      if (fresh.contains(number)) {
        lines.append(line);
        ++outcome.joined;
      }
    });
    outcome.found += of_shard.found;
    outcome.failed += of_shard.failed;
    if (of_shard.older > 0) {
      shard->set_aside("before-model-" + std::to_string(kModelVersion));
    }
  }
  if (!shards.empty()) {
    lines.sync();
  }
  for (const std::unique_ptr<ResultLines>& shard : shards) {
    shard->remove();
  }
}

std::vector<EqualPoints> left_of(const std::vector<PointState>& states) {
  std::vector<EqualPoints> left;
  std::unordered_map<std::string, std::size_t> by_key;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const PointState& state = states[i];
    if (state.found || state.elsewhere || !state.fault.empty()) {
      continue;
    }
    if (!state.key.empty()) {
      const auto [at, fresh] = by_key.try_emplace(state.key, left.size());
      if (!fresh) {
        left[at->second].points.push_back(i);
        continue;
      }
    }
    left.push_back({{i}, state.key, state.gpus});
  }
  return left;
}

std::string named(const StudyPoint& point) {
  std::string text;
  for (const JsonMember& axis : point.axes) {
    text += (text.empty() ? "" : ", ") + axis.key + " " + to_line(axis.value);
  }
  return text;
}

const Json* member(const Json::Object& members, std::string_view key) {
  const auto at = std::ranges::find(members, key, &JsonMember::key);
  return at == members.end() ? nullptr : &at->value;
}

// The study.json of the folder; it must not replace what no sweep wrote.
class KeptStudy {
 public:
  // Before the folder's results are opened: an empty file says nothing of who wrote there.
  KeptStudy(const Study& study, const std::string& out)
      : path_((fs::path(out) / "study.json").string()), text_(to_text(study.text) + "\n") {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(path_, error);
    const bool there = fs::exists(status);
    if (fs::is_symlink(status)) {
      refuse("by a symbolic link, which no sweep makes");
    }
    same_ = there && read_file(path_) == text_;
    if (!there || same_) {
      return;
    }
    for (const std::string& own : {study.study_file, study.file}) {
      if (fs::equivalent(path_, own, error)) {
        refuse("that the study itself is made of");
      }
    }
    std::vector<std::string> results{kResults};
    for (const ShardFile& file : shard_files(out)) {
      results.push_back(file.name);
    }
    if (std::ranges::none_of(results, [&](const std::string& name) {
          const auto size = fs::file_size(fs::path(out) / name, error);
          return !error && size > 0;
        })) {
      refuse("that no sweep wrote");
    }
  }
  void write() const {
    if (!same_) {
      write_file(path_, text_);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& which) const {
    throw InputError(
        "expected to keep the study here, found a file " + which + "; take another folder for this sweep", {},
        path_);
  }
  std::string path_, text_;
  bool same_ = false;
};

}  // namespace

OpenSweep::OpenSweep(const Study& study, const SweepOptions& options)
    : study_(study), progress_(options.progress) {
  const KeptStudy kept(study, options.out);
  if (options.shard) {
    shard_files(options.out, options.shard->count);
  }
  ResultLines& lines = lines_.emplace(options.out, options.shard ? file_of(*options.shard) : kResults);
  outcome_.file = lines.path();
  outcome_.locked = lines.keeps_others_out();
  std::vector<PointState> states = states_of(study, options.jobs);
  if (options.shard) {
    keep_shard(study, *options.shard, states);
  }
  outcome_.points = static_cast<std::size_t>(
      std::ranges::count_if(states, [](const PointState& state) { return !state.elsewhere; }));
  mark_found(study, lines.path(), states, outcome_);
  lines.cut_unfinished();
  if (outcome_.older > 0) {  // nothing is lost, and nothing is mixed
    outcome_.older_lines = lines.set_aside("before-model-" + std::to_string(kModelVersion));
    outcome_.found = outcome_.failed = 0;
    for (PointState& state : states) {
      state.found = false;
    }
  }
  check_folder(study, options.out, lines.path(), states);
  kept.write();
  if (options.shard) {
    mark_joined(study, options.out, states, outcome_);
  } else {
    join_shards(study, options.out, lines, states, outcome_);
  }
  left_ = left_of(states);
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!states[i].fault.empty() && !states[i].elsewhere) {
      fault(i, states[i].fault);
    }
  }
}

void OpenSweep::write(std::size_t left, const Json::Object& members) {
  const EqualPoints& equal = left_.at(left);
  const Json* const key = member(members, "key");
  if (key == nullptr ? !equal.key.empty() : *key->as<std::string>() != equal.key) {
    throw std::logic_error("the point's scenario is not what it was");
  }
  const std::lock_guard lock(mutex_);
  const bool failed = member(members, "error") != nullptr;
  for (const std::size_t point : equal.points) {
    lines_->append(line_of(study_.points[point], members));
    ++written_;
    outcome_.failed += failed ? 1 : 0;
    if (progress_) {
      progress_(seen());
    }
  }
  outcome_.computed += key == nullptr || failed ? 0 : 1;
}

void OpenSweep::write_line(std::size_t left, const std::string& line) {
  const Json json = parse_json(line);
  Json::Object members = json.as<Json::Object>() == nullptr ? Json::Object{} : *json.as<Json::Object>();
  std::erase_if(members, [](const JsonMember& each) { return each.key == "point" || each.key == "check"; });
  if (line != line_of(study_.points[left_.at(left).points.front()], members)) {
    throw std::logic_error("expected the point's line, found another");
  }
  write(left, members);
}

void OpenSweep::fail(std::size_t left, const std::string& what) {
  const std::lock_guard lock(mutex_);
  for (const std::size_t point : left_.at(left).points) {
    fault(point, what);
  }
}

SweepOutcome OpenSweep::end() {
  lines_->sync();
  std::ranges::sort(outcome_.faults);
  return outcome_;
}

SweepProgress OpenSweep::progress() const {
  const std::lock_guard lock(mutex_);
  return seen();
}

SweepProgress OpenSweep::seen() const {
  return {outcome_.found + written_, outcome_.points, outcome_.failed};
}

void OpenSweep::fault(std::size_t point, const std::string& what) {
  outcome_.faults.push_back(named(study_.points[point]) + ": " + what);
}

}  // namespace paceline
