#include "studies/study_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "scenarios/quantities.h"

namespace paceline {
namespace {

constexpr double kLargestWhole = 9007199254740992.0;  // 2^53: beyond it doubles skip whole numbers

// A value of a range: a number in a unit, or a bare one.
struct RangeValue {
  double number = 0;
  std::string unit;
  const Dimension* dimension = nullptr;
};

const Dimension* dimension_with(std::string_view unit) {
  for (const Dimension* dimension :
       {&dimension_of(Bytes{}), &dimension_of(Seconds{}), &dimension_of(BytesPerSecond{}),
        &dimension_of(Flops{}), &dimension_of(FlopsPerSecond{}), &dimension_of(SamplesPerSecond{}),
        &dimension_of(LongSeconds{})}) {
    if (std::ranges::find(dimension->units, unit, &Unit::name) != dimension->units.end()) {
      return dimension;
    }
  }
  return nullptr;
}

RangeValue range_value(const Json& json, const Spot& spot) {
  if (const auto* text = json.as<std::string>()) {
    const std::size_t space = text->find(' ');
    const std::string unit = space == std::string::npos ? "" : text->substr(space + 1);
    const Dimension* dimension = dimension_with(unit);
    if (dimension == nullptr) {
      fail_at(spot, "a number, or a quantity such as \"25 MiB\" or \"5 us\"", shown(json));
    }
    try {
      static_cast<void>(parse_quantity(*text, *dimension));
    } catch (const InputError& error) {
      throw error.at(spot.place);
    }
    double number = 0;  // parse_quantity has seen that there is one
    std::from_chars(text->data(), text->data() + space, number);
    return {number, unit, dimension};
  }
  if (json.as<std::int64_t>() == nullptr && json.as<std::uint64_t>() == nullptr &&
      json.as<double>() == nullptr) {
    fail_at(spot, "a number, or a quantity such as \"25 MiB\" or \"5 us\"", shown(json));
  }
  return {read_number(json, between(-kLargestWhole, kLargestWhole), spot), {}, nullptr};
}

// `json` as a number of `first`'s unit.
double in_unit_of(const RangeValue& first, const Json& json, const Spot& spot) {
  const RangeValue value = range_value(json, spot);
  // Days and nanoseconds are two dimensions, but both are times.
  const auto noun = [](const RangeValue& v) -> std::string_view {
    return v.dimension == nullptr ? "" : v.dimension->noun;
  };
  if (noun(value) != noun(first)) {
    fail_at(spot,
            first.dimension == nullptr ? "a number, as `from` is"
                                       : std::string(first.dimension->noun) + ", as `from` is",
            shown(json));
  }
  if (value.unit == first.unit) {
    return value.number;
  }
  return parse_quantity(*json.as<std::string>(), *value.dimension) /
         parse_quantity("1 " + first.unit, *first.dimension);
}

// To 12 digits: 5.3, not 5.300000000000001.
Json value_json(double number, const std::string& unit) {
  constexpr int kDigits = 12;
  std::array<char, 40> text{};
  char* const end =
      std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::general, kDigits).ptr;
  double rounded = 0;
  std::from_chars(text.data(), end, rounded);
  if (!unit.empty()) {
    return number_text(rounded) + " " + unit;
  }
  const bool whole = std::trunc(number) == number && std::abs(number) <= kLargestWhole;
  return whole ? Json(static_cast<std::int64_t>(number)) : Json(rounded);
}

constexpr double kSlack = 1e-9;  // relative: how near to the last value a step must come to hit it

[[noreturn]] void fail_endless(const Spot& spot, const char* key, const Json& json) {
  fail_at(below(spot, key), "a " + std::string(key) + " that leads from `from` to `to`", shown(json));
}
void check_count(double count, const Spot& spot) {
  if (!(count <= static_cast<double>(kMostPoints))) {
    fail_at(spot, "a range of at most " + std::to_string(kMostPoints) + " values", "more");
  }
}

std::vector<double> stepped(double from, double to, double step, const Json& json, const Spot& spot) {
  if (step == 0 || (to - from) / step < 0) {
    fail_endless(spot, "step", json);
  }
  const double count = std::floor((to - from) / step * (1 + kSlack) + kSlack) + 1;
  check_count(count, spot);
  std::vector<double> values;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    values.push_back(from + static_cast<double>(i) * step);
  }
  return values;
}

std::vector<double> multiplied(double from, double to, double factor, const Json& json, const Spot& spot) {
  const bool up = to > from;
  if (!(from > 0) || !(to > 0) || !(factor > 0) || (from != to && (up ? factor <= 1 : factor >= 1))) {
    fail_endless(spot, "factor", json);
  }
  std::vector<double> values{from};
  for (double next = from * factor;
       from != to && (up ? next <= to * (1 + kSlack) : next >= to * (1 - kSlack)); next *= factor) {
    values.push_back(next);
    check_count(static_cast<double>(values.size()), spot);
  }
  return values;
}

Json::Object without_required(Json::Object object) {
  std::erase_if(object, [](const JsonMember& m) {
    return m.key == "required" && m.value.as<Json::Array>() != nullptr;
  });
  for (JsonMember& member : object) {
    if (auto* inner = std::get_if<Json::Object>(&member.value.value)) {
      *inner = without_required(std::move(*inner));
    } else if (auto* array = std::get_if<Json::Array>(&member.value.value)) {
      for (Json& item : *array) {
        if (auto* of_item = std::get_if<Json::Object>(&item.value)) {
          *of_item = without_required(std::move(*of_item));
        }
      }
    }
  }
  return object;
}

void check_axis_keys(const Json& json, const Spot& spot, bool may_zip) {
  std::vector<std::string> known = keys_of(RangeAxis{});
  known.emplace_back("values");
  if (may_zip) {
    known.emplace_back("zip");
  }
  check_keys(json, known, spot);
  if (json.find("values") == nullptr && json.find("from") == nullptr && json.find("zip") == nullptr) {
    throw InputError("missing key \"values\", or \"from\" and \"to\"", spot.place);
  }
}

}  // namespace

Json::Array values_of(const RangeAxis& axis, const Spot& spot) {
  if (axis.step.has_value() == axis.factor.has_value()) {
    throw InputError("expected either step or factor, found " + std::string(axis.step ? "both" : "neither"),
                     spot.place);
  }
  const RangeValue from = range_value(axis.from, below(spot, "from"));
  const double to = in_unit_of(from, axis.to, below(spot, "to"));
  std::vector<double> numbers;
  if (axis.step) {
    numbers = stepped(from.number, to, in_unit_of(from, *axis.step, below(spot, "step")), *axis.step, spot);
  } else {
    const double factor =
        read_number(*axis.factor, between(-kLargestWhole, kLargestWhole), below(spot, "factor"));
    numbers = multiplied(from.number, to, factor, *axis.factor, spot);
  }
  Json::Array values;
  for (const double number : numbers) {
    values.push_back(value_json(number, from.unit));
  }
  return values;
}

void read(const Json& json, ScenarioText& scenario, const Limits&, const Spot& spot) {
  if (json.as<std::string>() == nullptr && json.as<Json::Object>() == nullptr) {
    fail_at(spot, "the name of a file or a scenario", shown(json));
  }
  scenario.json = json;
}

void read(const Json& json, OneAxis& axis, const Limits&, const Spot& spot) {
  check_axis_keys(json, spot, false);
  if (json.find("values") != nullptr) {
    read_object(json, axis.form.emplace<ListedAxis>(), spot);
  } else {
    read_object(json, axis.form.emplace<RangeAxis>(), spot);
  }
}

void read(const Json& json, AxisFile& axis, const Limits& limits, const Spot& spot) {
  check_axis_keys(json, spot, true);
  if (json.find("zip") != nullptr) {
    read_object(json, axis.form.emplace<ZippedAxes>(), spot);
  } else {
    read(json, axis.form.emplace<OneAxis>(), limits, spot);
  }
}

Json::Object schema_of(Type<Json>, const Limits&) { return {}; }

Json::Object schema_of(Type<ScenarioText>, const Limits&) {
  return one_of({titled("a file", {{"type", "string"}, {"minLength", 1}}),
                 titled("a scenario; the axes may add what it lacks",
                        without_required(schema_of_object<ScenarioFile>()))});
}

Json::Object schema_of(Type<OneAxis>, const Limits&) {
  return one_of({titled("its values", schema_of_object<ListedAxis>()),
                 titled("a range", schema_of_object<RangeAxis>())});
}

Json::Object schema_of(Type<AxisFile>, const Limits&) {
  return one_of({titled("its values", schema_of_object<ListedAxis>()),
                 titled("a range", schema_of_object<RangeAxis>()),
                 titled("several axes together", schema_of_object<ZippedAxes>())});
}

std::string study_schema() {
  return to_text(
      schema_of_file("Paceline study",
                     "A scenario and axes along which it changes. Quantities are texts with their unit: "
                     "\"25 MiB\", \"450 GB/s\", \"5 us\".",
                     schema_of_object<StudyFile>()));
}

}  // namespace paceline
