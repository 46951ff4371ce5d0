// Writing: values -> JSON, by description.h. What is written reads back as the same values.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "scenarios/description.h"
#include "scenarios/json.h"

namespace paceline {

inline Json write(bool value) { return value; }
inline Json write(double value) { return value; }
inline Json write(std::uint64_t value) { return value; }
inline Json write(const std::string& value) { return value; }
inline Json write(Bytes value) { return to_text(value); }
inline Json write(const Slowdown& value) {
  return std::to_string(value.numerator) + '/' + std::to_string(value.denominator);
}
Json write(const std::vector<CostParameter>&);  // reader.cpp
Json write(const FsdpUnits&);                   // fsdp_options.cpp
Json write(const ReshardAfterForward&);
Json write(const ShardGroup&);
Json write(const Consistency&);         // consistency.cpp
Json write(const CompressionSpec&);     // compression_options.cpp
Json write(const CheckpointInterval&);  // faults.cpp
Json write(const LifeDistribution&);
Json write(const std::vector<MeasuredRate>&);  // measured_rates.cpp

template <class T>
  requires(std::signed_integral<T>)
Json write(T value) {
  return static_cast<std::int64_t>(value);
}
template <class Tag>
Json write(Quantity<Tag> value) {
  return to_text(value);
}
template <class E>
  requires(std::is_enum_v<E>)
Json write(E value) {
  return name_of(value);
}
template <class T>
  requires(std::is_class_v<T> && requires(KeyNames& names, T& value) { describe(names, value); })
Json write(const T& value);
template <class T>
Json write(const std::vector<T>& values) {
  Json::Array array;
  array.reserve(values.size());
  for (const T& value : values) {
    array.push_back(write(value));
  }
  return array;
}

// Whether a value says nothing: it is then not written.
template <class T>
bool is_absent(const T&, const Limits&) {
  return false;
}
template <class T>
  requires(std::is_arithmetic_v<T> && !std::same_as<T, bool>)
bool is_absent(const T& value, const Limits& limits) {
  return limits.zero_is_absent && value == T{};
}
template <class Tag>
bool is_absent(const Quantity<Tag>& value, const Limits& limits) {
  return limits.zero_is_absent && value.value == 0;
}
inline bool is_absent(Bytes value, const Limits& limits) { return limits.zero_is_absent && value.value == 0; }
inline bool is_absent(const std::string& value, const Limits&) { return value.empty(); }
template <class T>
bool is_absent(const std::vector<T>& values, const Limits& limits) {
  return values.empty() && limits.fewest == 0;
}
inline bool is_absent(const ShardGroup& group, const Limits&) { return group == ShardGroup{}; }
template <class T>
bool is_absent(const std::optional<T>& value, const Limits&) {
  return !value;
}
template <class T>
Json write(const std::optional<T>& value) {
  return write(*value);
}

Json scenario_json(const Scenario&);  // scenario.cpp

class Writer {
 public:
  template <class T>
  void key(const char* name, const T& value, const Limits& limits, const char*, const Need& need = {}) {
    const bool must = need.kind == Need::Kind::required;
    if (need.kind != Need::Kind::absent && (must || !is_absent(value, limits))) {
      object_.push_back({name, write(value)});
    }
  }
  template <class T>
  bool preset(const T&, const char*) {
    return false;
  }
  template <class F>
  void settle(const F&) {}
  bool lists_all() const { return false; }
  Json take() { return std::move(object_); }

 private:
  Json::Object object_;
};

template <class T>
  requires(std::is_class_v<T> && requires(KeyNames& names, T& value) { describe(names, value); })
Json write(const T& value) {
  Writer writer;
  T copy = value;
  describe(writer, copy);
  return writer.take();
}

}  // namespace paceline
