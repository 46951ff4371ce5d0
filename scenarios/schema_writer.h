// The JSON Schema (draft 2020-12) of what description.h describes. A `title` says what kind of value a key
// has ("a time, 0 s to 10 s") or which of several forms an object is ("its parts"); schema_markdown.h shows
// it.
#pragma once

#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "scenarios/description.h"
#include "scenarios/json.h"
#include "scenarios/writer.h"

namespace paceline {

template <class T>
struct Type {};  // a type as an argument

// schema.cpp
Json::Object schema_of_number(const Limits&, bool whole);
Json::Object schema_of_quantity(const Dimension&, const Limits&);
Json::Object schema_of_names(const std::vector<std::string>& names);
Json::Object one_of(Json::Array choices);
Json::Object titled(const char* title, Json::Object schema);
// A whole file: `object` with a title, a description and the key "$schema", which read_object ignores.
Json schema_of_file(const char* title, const char* description, Json::Object object);
// Every key of a scenario, and the JSON pointers of the objects that may have it.
struct KeyPlaces {
  std::string key;
  std::vector<std::string> places;
};
std::vector<KeyPlaces> scenario_keys();
Json::Object schema_of(Type<Slowdown>, const Limits&);
Json::Object schema_of(Type<FsdpUnits>, const Limits&);  // fsdp_options.cpp
Json::Object schema_of(Type<ReshardAfterForward>, const Limits&);
Json::Object schema_of(Type<ShardGroup>, const Limits&);
Json::Object schema_of(Type<Consistency>, const Limits&);         // consistency.cpp
Json::Object schema_of(Type<CompressionSpec>, const Limits&);     // compression_options.cpp
Json::Object schema_of(Type<CheckpointInterval>, const Limits&);  // faults.cpp
Json::Object schema_of(Type<LifeDistribution>, const Limits&);
Json::Object schema_of(Type<std::vector<MeasuredRate>>, const Limits&);  // measured_rates.cpp
Json::Object schema_of(Type<std::vector<CostParameter>>, const Limits&);
Json::Object schema_of(Type<Cluster>, const Limits&);
Json::Object schema_of(Type<NodeSpec>, const Limits&);
Json::Object schema_of(Type<GpuSpec>, const Limits&);
Json::Object schema_of(Type<Model>, const Limits&);

inline Json::Object schema_of(Type<bool>, const Limits&) { return {{"type", "boolean"}}; }
inline Json::Object schema_of(Type<double>, const Limits& limits) { return schema_of_number(limits, false); }
inline Json::Object schema_of(Type<std::string>, const Limits& limits) {
  return {{"type", "string"},
          {"minLength", static_cast<std::int64_t>(limits.fewest)},
          {"maxLength", static_cast<std::int64_t>(limits.longest)}};
}
template <class T>
  requires(std::integral<T>)
Json::Object schema_of(Type<T>, const Limits& limits) {
  return schema_of_number(limits, true);
}
inline Json::Object schema_of(Type<Bytes>, const Limits& limits) {
  return schema_of_quantity(dimension_of(Bytes{}), limits);
}
template <class Tag>
Json::Object schema_of(Type<Quantity<Tag>>, const Limits& limits) {
  return schema_of_quantity(dimension_of(Quantity<Tag>{}), limits);
}
template <class E>
  requires(std::is_enum_v<E>)
Json::Object schema_of(Type<E>, const Limits&) {
  return schema_of_names(all_names<E>());
}
template <class T>
Json::Object schema_of(Type<std::optional<T>>, const Limits& limits) {
  return schema_of(Type<T>{}, limits);
}
template <class T>
  requires(std::is_class_v<T> && requires(KeyNames& names, T& value) { describe(names, value); })
Json::Object schema_of(Type<T>, const Limits&);
template <class T>
Json::Object schema_of(Type<std::vector<T>>, const Limits& limits) {
  return {{"type", "array"},
          {"items", schema_of(Type<T>{}, limits)},
          {"minItems", static_cast<std::int64_t>(limits.fewest)},
          {"maxItems", static_cast<std::int64_t>(limits.longest)}};
}

// Left out, a list is empty; a number or text that is not written stands for something that its
// documentation says.
template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <>
inline constexpr bool kIsList<std::vector<MeasuredRate>> = false;  // one rate is no list

class SchemaWriter {
 public:
  template <class T>
  void key(const char* name, const T& value, const Limits& limits, const char* documentation,
           const Need& need = {}) {
    Json::Object schema = schema_of(Type<T>{}, limits);
    schema.push_back({"description", documentation});
    if (need.kind == Need::Kind::defaulted && (!is_absent(value, limits) || kIsList<T>)) {
      schema.push_back({"default", write(value)});
    }
    properties_.push_back({name, std::move(schema)});
    if (need.kind == Need::Kind::required) {
      required_.push_back(name);
    }
  }
  template <class T>
  bool preset(const T&, const char* documentation) {
    Json::Object schema = schema_of_names(known_names(static_cast<const T*>(nullptr)));
    schema.push_back({"description", documentation});
    properties_.push_back({"preset", std::move(schema)});
    return true;
  }
  template <class F>
  void settle(const F&) {}
  bool lists_all() const { return true; }

  Json::Object take() {
    Json::Object schema{
        {"type", "object"}, {"properties", std::move(properties_)}, {"additionalProperties", false}};
    if (!required_.empty()) {
      schema.push_back({"required", std::move(required_)});
    }
    return schema;
  }

 private:
  Json::Object properties_;
  Json::Array required_;
};

template <class T>
Json::Object schema_of_object() {
  SchemaWriter writer;
  T value{};
  describe(writer, value);
  return writer.take();
}

template <class T>
  requires(std::is_class_v<T> && requires(KeyNames& names, T& value) { describe(names, value); })
Json::Object schema_of(Type<T>, const Limits&) {
  return schema_of_object<T>();
}

}  // namespace paceline
