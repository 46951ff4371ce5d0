// Reading: JSON -> values, by description.h, with all checks. Every function throws InputError with the
// place.
#pragma once

#include <algorithm>
#include <concepts>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/unknown_name.h"
#include "scenarios/description.h"
#include "scenarios/json.h"
#include "scenarios/other_words.h"

namespace paceline {

[[noreturn]] inline void fail_at(const Spot& spot, const std::string& expected, const std::string& found) {
  throw InputError("expected " + expected + ", found " + found, spot.place);
}

inline Spot below(const Spot& spot, std::string_view key) {
  return {pointer(spot.place, key), spot.folder, spot.files_above, spot.files};
}
inline Spot below(const Spot& spot, std::size_t index) {
  return {pointer(spot.place, index), spot.folder, spot.files_above, spot.files};
}

// Throws for what is no object, and for a key that isn't known, with the nearest one here or in a scenario.
// "$schema", for editors, is ignored at the top of a file.
void check_keys(const Json&, const std::vector<std::string>& known, const Spot&);
inline constexpr Limits kSchemaName = text(4000, 0);
// Throws InputError: what a scenario has for a word of other programs, and where.
[[noreturn]] void refuse_other_word(std::string_view what, std::string_view word, const OtherWord&,
                                    const std::string& places, const Spot&);

// Numbers and quantities (reader.cpp).
std::string range_text(const Limits&, bool whole);
double read_number(const Json&, const Limits&, const Spot&);
std::int64_t read_whole(const Json&, const Limits&, const Spot&);
double read_quantity(const Json&, const Dimension&, const Limits&, const Spot&);

void read(const Json&, bool&, const Limits&, const Spot&);
void read(const Json&, std::uint64_t&, const Limits&, const Spot&);
void read(const Json&, double&, const Limits&, const Spot&);
void read(const Json&, std::string&, const Limits&, const Spot&);
void read(const Json&, Bytes&, const Limits&, const Spot&);
void read(const Json&, Slowdown&, const Limits&, const Spot&);
// fsdp_options.cpp
void read(const Json&, FsdpUnits&, const Limits&, const Spot&);
void read(const Json&, ReshardAfterForward&, const Limits&, const Spot&);
void read(const Json&, ShardGroup&, const Limits&, const Spot&);
// consistency.cpp
void read(const Json&, Consistency&, const Limits&, const Spot&);
// compression_options.cpp
void read(const Json&, CompressionSpec&, const Limits&, const Spot&);
// faults.cpp
void read(const Json&, CheckpointInterval&, const Limits&, const Spot&);
void read(const Json&, LifeDistribution&, const Limits&, const Spot&);
// measured_rates.cpp
void read(const Json&, std::vector<MeasuredRate>&, const Limits&, const Spot&);
// An object: name of a cost parameter -> its value with a unit.
void read(const Json&, std::vector<CostParameter>&, const Limits&, const Spot&);
// Structs that can be said in more than one way (scenario.cpp), and kinds of GPU, which many would take for a number.
void read(const Json&, std::vector<GpuKind>&, const Limits&, const Spot&);
void read(const Json&, Cluster&, const Limits&, const Spot&);
void read(const Json&, NodeSpec&, const Limits&, const Spot&);
void read(const Json&, GpuSpec&, const Limits&, const Spot&);
// model_forms.cpp
void read(const Json&, Model&, const Limits&, const Spot&);

template <class T>
  requires(std::signed_integral<T>)
void read(const Json& json, T& value, const Limits& limits, const Spot& spot) {
  value = static_cast<T>(read_whole(json, limits, spot));
}

template <class Tag>
void read(const Json& json, Quantity<Tag>& value, const Limits& limits, const Spot& spot) {
  value = Quantity<Tag>(read_quantity(json, dimension_of(value), limits, spot));
}

template <class E>
  requires(std::is_enum_v<E>)
void read(const Json& json, E& value, const Limits&, const Spot& spot) {
  if (const auto* text = json.as<std::string>()) {
    const OtherWord* const other = find_other(other_values(), *text);
    if (other != nullptr && !find_named<E>(*text) && find_named<E>(other->name)) {
      refuse_other_word("value", *text, *other, " here", spot);
    }
    value = value_named<E>("value", in_short(*text), spot.place);
    return;
  }
  fail_at(spot, quoted_list(all_names<E>(), "or"), shown(json));
}

template <class T>
void read(const Json& json, std::vector<T>& values, const Limits& limits, const Spot& spot) {
  const auto* array = json.as<Json::Array>();
  if (array == nullptr || array->size() < limits.fewest || array->size() > limits.longest) {
    fail_at(spot, "an array of " + std::to_string(limits.fewest) + " to " + std::to_string(limits.longest),
            shown(json));
  }
  values.assign(array->size(), T{});
  for (std::size_t i = 0; i < array->size(); ++i) {
    read((*array)[i], values[i], limits, below(spot, i));
  }
}

template <class T>
void read(const Json& json, std::optional<T>& value, const Limits& limits, const Spot& spot) {
  T given{};
  read(json, given, limits, spot);
  value = std::move(given);
}

// The visitor. `object` is the JSON of the struct that is read.
class Reader {
 public:
  Reader(const Json& object, const Spot& spot) : object_(object), spot_(spot) {}

  template <class T>
  void key(const char* name, T& value, const Limits& limits, const char*, const Need& need = {}) {
    const Json* json = object_.find(name);
    if (json == nullptr) {
      if (need.kind == Need::Kind::required) {
        missing_.emplace_back(name);
      }
      return;
    }
    if (need.kind == Need::Kind::absent) {
      require_all();  // the reason may be what is missing
      throw InputError("expected no key " + in_quotes(name) + ", as " + need.reason, spot_.place);
    }
    read(*json, value, limits, below(spot_, name));
  }

  template <class T>
  bool preset(T& value, const char*) {
    const Json* json = object_.find("preset");
    if (json == nullptr) {
      presets_ = true;
      return false;
    }
    std::string name;
    const Spot place = below(spot_, "preset");
    read(*json, name, text(100), place);
    try {
      value = named_value(static_cast<const T*>(nullptr), in_short(name));
    } catch (const InputError& error) {
      throw error.at(place.place);
    }
    return true;
  }

  template <class F>
  void settle(const F& f) {
    if (missing_.empty()) {
      f(spot_);
    }
  }
  bool lists_all() const { return false; }

  // Throws where keys are missing that must be there.
  void require_all() const;

 private:
  const Json& object_;
  const Spot& spot_;
  std::vector<std::string> missing_;
  bool presets_ = false;  // there could be one
};

template <class T>
std::vector<std::string> keys_of(T value) {
  KeyNames names;
  describe(names, value);
  return names.take();
}

// A struct from its object.
template <class T>
void read_object(const Json& json, T& value, const Spot& spot) {
  check_keys(json, keys_of(T{}), spot);
  Reader reader(json, spot);
  describe(reader, value);
  reader.require_all();
}

template <class T>
  requires(std::is_class_v<T> && requires(KeyNames& names, T& value) { describe(names, value); })
void read(const Json& json, T& value, const Limits&, const Spot& spot) {
  read_object(json, value, spot);
}

}  // namespace paceline
