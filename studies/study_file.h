// What a study file may say, by the means of scenarios/description.h; and an axis' values from their range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "scenarios/description.h"
#include "scenarios/json.h"
#include "scenarios/reader.h"
#include "scenarios/schema_writer.h"
#include "scenarios/writer.h"
#include "studies/study.h"

namespace paceline {

inline constexpr std::size_t kMostAxes = 20;

// An axis by its values, or by where they begin and end.
struct ListedAxis {
  std::string key, name;
  Json::Array values;
};
struct RangeAxis {
  std::string key, name;
  Json from, to;
  std::optional<Json> step, factor;
};
struct OneAxis {
  std::variant<ListedAxis, RangeAxis> form;
};
struct ZippedAxes {
  std::vector<OneAxis> zip;
};
struct AxisFile {
  std::variant<OneAxis, ZippedAxes> form;
};

struct StatedPoint {
  Json point;
  std::optional<SamplesPerSecond> throughput;
  std::optional<Seconds> step_time;
  std::string source;
};

// A file's name, or the scenario itself: not read here.
struct ScenarioText {
  Json json;
};

struct StudyFile {
  std::string description;
  ScenarioText scenario;
  Scaling scaling = Scaling::none;
  std::int64_t global_batch = 0;
  Json profile;  // a file's name, or the profile itself
  bool allow_other_machine = false;
  std::vector<AxisFile> axes;
  std::vector<StatedPoint> measured;
};

// Whole numbers stay whole; others have at most 12 digits. Throws InputError with the place of the member at
// fault: a range that never ends, one of more than kMostPoints, numbers mixed with quantities.
Json::Array values_of(const RangeAxis&, const Spot&);

// Any JSON: as it is.
inline void read(const Json& json, Json& value, const Limits&, const Spot&) { value = json; }
inline Json write(const Json& value) { return value; }
inline bool is_absent(const Json& value, const Limits&) { return value.as<std::nullptr_t>() != nullptr; }
Json::Object schema_of(Type<Json>, const Limits&);
// In more than one form (study_file.cpp).
void read(const Json&, ScenarioText&, const Limits&, const Spot&);
Json::Object schema_of(Type<ScenarioText>, const Limits&);
void read(const Json&, OneAxis&, const Limits&, const Spot&);
void read(const Json&, AxisFile&, const Limits&, const Spot&);
Json::Object schema_of(Type<OneAxis>, const Limits&);
Json::Object schema_of(Type<AxisFile>, const Limits&);
inline Json write(const ScenarioText& value) { return value.json; }
inline bool is_absent(const ScenarioText&, const Limits&) { return true; }
inline Json write(const OneAxis&) { return {}; }  // a study is never written from its structs
inline Json write(const AxisFile&) { return {}; }

template <class V, class Axis>
void describe_key(V& v, Axis& s) {
  v.key("key", s.key, text(1000),
        "What changes: a JSON pointer into the scenario (\"/training/batch_per_gpu\"), or \"gpus\".",
        required());
  v.key("name", s.name, text(100, 0), "What to call the axis; left out: the last word of its key.");
}

template <class V>
void describe(V& v, ListedAxis& s) {
  describe_key(v, s);
  v.key("values", s.values, list(1, kMostPoints),
        "Its values, as the scenario would say them; null: what it says without the key.", required());
}

template <class V>
void describe(V& v, RangeAxis& s) {
  describe_key(v, s);
  v.key("from", s.from, any(), "The first value: a number, or a quantity with its unit.", required());
  v.key("to", s.to, any(), "The last value, unless the steps miss it.", required());
  v.key("step", s.step, any(), "From one value to the next; either this or factor.");
  v.key("factor", s.factor, any(), "From one value to the next, as a ratio.");
}

template <class V>
void describe(V& v, ZippedAxes& s) {
  v.key("zip", s.zip, list(2, kMostAxes), "Axes that change together: as many values in each.", required());
}

template <class V>
void describe(V& v, StatedPoint& s) {
  v.key("point", s.point, any(), "Name of each axis -> its value.", required());
  v.key("throughput", s.throughput, kSampleRate, "Of all GPUs; either this or step_time.");
  v.key("step_time", s.step_time, kDuration, "Mean of a step.");
  v.key("source", s.source, text(1000, 0), "Where it comes from; not used.");
  v.settle([&](const Spot& spot) {
    if (s.throughput.has_value() == s.step_time.has_value()) {
      throw InputError(
          "expected either throughput or step_time, found " + std::string(s.throughput ? "both" : "neither"),
          spot.place);
    }
  });
}

template <class V>
void describe(V& v, StudyFile& s) {
  v.key("description", s.description, text(10'000, 0), "The question that the study answers.");
  v.key("scenario", s.scenario, any(),
        "What changes: a scenario's or result's file, relative to this one, or a scenario.", required());
  v.key("scaling", s.scaling, any(),
        "Along the axis gpus: weak keeps batch_per_gpu, strong the samples of a step of all GPUs.");
  v.key("global_batch", s.global_batch, between(1, 1e12).absent_at_zero(),
        "Samples of a step of all GPUs under strong scaling; left out: the scenario's.");
  v.key("profile", s.profile, any(),
        "What calibration knows of the machine: a file, relative to this one, or the profile itself. "
        "Predictions then carry intervals.");
  v.key("allow_other_machine", s.allow_other_machine, any(),
        "The profile may be of another machine than the scenario's: its costs are taken all the same.");
  v.key("axes", s.axes, list(1, kMostAxes), "What changes; the points are all combinations.", required());
  v.key("measured", s.measured, list(0, 100'000), "What was measured at some points, for plots.");
}

}  // namespace paceline
