// A study: a scenario and axes along which it changes; its points are all combinations.
//
//   {"description": "...",
//    "scenario": "../slow_gpu_64.json",            a file beside the study, or the scenario itself
//    "scaling": "strong",                          or "weak": what happens to the batch along an axis "gpus"
//    "profile": "profile.json",                    optional: predictions then carry 90 % intervals
//    "axes": [
//      {"key": "gpus", "from": 8, "to": 16384, "factor": 2},                     geometric range
//      {"key": "/run/seed", "from": 1, "to": 5, "step": 1},                      range
//      {"key": "/training/ddp/bucket_cap", "values": ["5 MiB", "25 MiB"], "name": "bucket cap"},
//      {"zip": [{"key": ..., "values": [...]}, {"key": ..., "values": [...]}]}     together, not crossed
//    ],
//    "measured": [{"point": {"gpus": 8}, "throughput": "2887 samples/s"}]}       optional: points for plots
//
// Ranges may be of quantities ("from": "1 MiB", "to": "256 MiB", "factor": 2; or "step": "1 MiB"); their
// values are written in the unit of `from`. An axis without a name is called by the last word of its key.
//
// Key "gpus" stands for /cluster/nodes (where the cluster has job_nodes: for those) and, below one node,
// /cluster/gpus_per_node. Axes are set one after the other, gpus last; an axis whose key holds another's
// comes before it. Weak scaling keeps batch_per_gpu; strong scaling keeps the global batch ("global_batch",
// default: the scenario's): each GPU does its share, in as few passes (accumulation) of at most the
// scenario's batch_per_gpu as divide it. The scenario's `measured` rate then still belongs to the
// scenario's batch_per_gpu and accumulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/names.h"
#include "scenarios/files.h"
#include "scenarios/json.h"
#include "scenarios/profile.h"
#include "scenarios/scenario.h"

namespace paceline {

enum class Scaling : std::uint8_t { none, strong, weak };
template <>
inline constexpr auto kNames<Scaling> =
    names<Scaling>({{"none", Scaling::none}, {"strong", Scaling::strong}, {"weak", Scaling::weak}});

inline constexpr std::size_t kMostPoints = 1'000'000;

struct StudyAxis {
  std::string name, key;  // key: a JSON pointer into the scenario, or "gpus"
  std::string place;      // of the axis in the study
};

struct StudyPoint {
  Json::Object axes;  // name of each axis -> its value, as the study writes it
};

// All combinations of the axes' values, the first axis changing slowest. Each is made when it is asked for: a
// study of a kilobyte may have a million.
class StudyPoints {
 public:
  // Axes that change together.
  struct Group {
    std::vector<std::string> names;
    std::vector<Json::Array> values;  // by axis, of equal size
  };

  StudyPoints() = default;
  explicit StudyPoints(std::vector<Group> groups);
  std::size_t size() const { return size_; }
  StudyPoint operator[](std::size_t) const;

  class Iterator {
   public:
    Iterator(const StudyPoints& points, std::size_t at) : points_(&points), at_(at) {}
    StudyPoint operator*() const { return (*points_)[at_]; }
    Iterator& operator++() { return ++at_, *this; }
    bool operator==(const Iterator&) const = default;

   private:
    const StudyPoints* points_;
    std::size_t at_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size_}; }

 private:
  std::vector<Group> groups_;
  std::size_t size_ = 0;
};

struct Study {
  std::string description;
  Scaling scaling = Scaling::none;
  std::int64_t global_batch = 0;  // samples of a step; strong scaling alone
  std::string study_file;
  std::string file;  // that the scenario's relative paths start from: its own, or the study's
  std::optional<Profile> profile;
  std::string profile_text;     // its content, for the content keys
  Json scenario;                // that the axes change
  std::vector<StudyAxis> axes;  // zipped ones too, one after the other
  StudyPoints points;
  // What the study and its points' scenarios name, as it was when it was first asked for: no two points see
  // different texts.
  std::shared_ptr<FileTexts> files;
  Json text;  // the study with its scenario and its axes' names written in, for plots
};

// Throws InputError with the study's file and a JSON pointer. A point whose scenario can't be is no error
// here: it is told when it is run.
// `files`: what it and its points name is read from them.
Study parse_study(const std::string& json, const std::string& file_name,
                  std::shared_ptr<FileTexts> files = std::make_shared<FileTexts>());

// A step of one GPU: passes of batch_per_gpu samples.
struct BatchShare {
  std::int64_t batch_per_gpu = 0, accumulation = 0;
};

struct PointScenario {
  Json scenario;                    // with the values set; not yet read
  std::optional<BatchShare> alone;  // strong scaling: how one GPU would do the global batch
  std::optional<InputError> wrong;  // why the point can't be; `scenario` is then as far as it came
};

// Made when it is needed: a million scenarios are too much to hold.
PointScenario scenario_of(const Study&, const StudyPoint&);

// The JSON Schema of a study file.
std::string study_schema();

}  // namespace paceline
