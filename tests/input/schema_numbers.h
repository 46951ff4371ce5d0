// Every number and quantity that a JSON Schema knows, each with a document that holds it and else nothing but
// what must be there.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/json.h"

namespace paceline {

struct SchemaNumber {
  std::string place;   // a JSON pointer
  const Json* schema;  // of the number
  std::function<Json(Json)> document;
  bool or_boolean = false;  // which may stand in its place
};

inline const std::string& text_at(const Json& schema, const char* key) {
  static const std::string kNone;
  const Json* value = schema.find(key);
  const auto* text = value == nullptr ? nullptr : value->as<std::string>();
  return text == nullptr ? kNone : *text;
}
inline const Json::Array& array_at(const Json& schema, const char* key) {
  static const Json::Array kNone;
  const Json* value = schema.find(key);
  return value == nullptr ? kNone : *value->as<Json::Array>();
}
inline bool is_quantity(const Json& schema) { return schema.find("pattern") && schema.find("examples"); }
inline bool is_number(const Json& schema) {
  return text_at(schema, "type") == "integer" || text_at(schema, "type") == "number";
}

// The simplest value that the schema accepts.
inline Json sample(const Json& schema) {
  if (const auto& forms = array_at(schema, "anyOf"); !forms.empty()) {
    return sample(forms.front());
  }
  if (const auto& names = array_at(schema, "enum"); !names.empty()) {
    return names.front();
  }
  const std::string& type = text_at(schema, "type");
  if (is_number(schema)) {
    return schema.find("minimum") != nullptr ? *schema.find("minimum") : *schema.find("maximum");
  }
  if (is_quantity(schema)) {
    return array_at(schema, "examples").front();
  }
  if (type == "string") {
    return "x";
  }
  if (type == "array") {
    const auto fewest = *schema.find("minItems")->as<std::int64_t>();
    return Json::Array(static_cast<std::size_t>(fewest), fewest > 0 ? sample(*schema.find("items")) : Json());
  }
  if (type == "object") {
    Json::Object object;
    for (const Json& key : array_at(schema, "required")) {
      object.push_back(
          {*key.as<std::string>(), sample(*schema.find("properties")->find(*key.as<std::string>()))});
    }
    return object;
  }
  return type == "boolean" ? Json(false) : Json(1);
}

inline void collect_numbers(const Json& schema, const std::string& place,
                            const std::function<Json(Json)>& document, std::vector<SchemaNumber>& found) {
  if (is_number(schema) || is_quantity(schema)) {
    found.push_back({place, &schema, document});
  }
  const Json::Array& forms = array_at(schema, "anyOf");
  const bool or_boolean =
      std::ranges::any_of(forms, [](const Json& form) { return text_at(form, "type") == "boolean"; });
  for (const Json& form : forms) {
    const std::size_t before = found.size();
    collect_numbers(form, place, document, found);
    for (std::size_t i = before; i < found.size(); ++i) {
      found[i].or_boolean = or_boolean;
    }
  }
  if (const Json* items = schema.find("items")) {
    collect_numbers(
        *items, pointer(place, 0),
        [&schema, document](Json value) {
          Json array = sample(schema);
          auto& values = std::get<Json::Array>(array.value);
          values.resize(std::max<std::size_t>(values.size(), 1));
          values.front() = std::move(value);
          return document(std::move(array));
        },
        found);
  }
  if (const Json* properties = schema.find("properties")) {
    for (const JsonMember& property : *properties->as<Json::Object>()) {
      collect_numbers(
          property.value, pointer(place, property.key),
          [&schema, key = property.key, document](Json value) {
            Json sampled = sample(schema);
            auto& object = std::get<Json::Object>(sampled.value);
            std::erase_if(object, [&](const JsonMember& member) { return member.key == key; });
            object.push_back({key, std::move(value)});
            return document(std::move(sampled));
          },
          found);
    }
  }
}

// `schema` must outlive them.
inline std::vector<SchemaNumber> numbers_of(const Json& schema) {
  std::vector<SchemaNumber> found;
  collect_numbers(schema, "", [](Json value) { return value; }, found);
  return found;
}

inline bool has_bounds(const SchemaNumber& number) {
  const Json& schema = *number.schema;
  if (is_quantity(schema)) {
    return text_at(schema, "title").find(" to ") != std::string::npos;
  }
  return (schema.find("minimum") != nullptr || schema.find("exclusiveMinimum") != nullptr) &&
         schema.find("maximum") != nullptr;
}

// Values of the right kind that lie outside, and some of other kinds.
inline std::vector<Json> wrong_values(const SchemaNumber& number) {
  const Json& schema = *number.schema;
  std::vector<Json> wrong{"x", Json(), Json::Array{}};
  if (!number.or_boolean) {
    wrong.emplace_back(true);
  }
  if (is_quantity(schema)) {
    const std::string& example = *array_at(schema, "examples").front().as<std::string>();
    const std::string unit = example.substr(example.find(' '));
    for (const char* value : {"-1", "-1e300", "1e300", "nan", "inf", "0x10"}) {
      wrong.emplace_back(value + unit);
    }
    return wrong;
  }
  const auto value_of = [&](const char* key) {
    const Json* bound = schema.find(key);
    if (bound == nullptr) {
      return 0.0;
    }
    const auto* whole = bound->as<std::int64_t>();
    const auto* large = bound->as<std::uint64_t>();
    return whole != nullptr   ? static_cast<double>(*whole)
           : large != nullptr ? static_cast<double>(*large)
                              : *bound->as<double>();
  };
  const double least = schema.find("minimum") != nullptr ? value_of("minimum") : value_of("exclusiveMinimum");
  wrong.insert(wrong.end(),
               {schema.find("minimum") != nullptr ? Json(least - 1) : Json(least),
                Json(value_of("maximum") * 2 + 1), 1e300, -1e300, std::numeric_limits<std::int64_t>::min()});
  if (text_at(schema, "type") == "integer") {
    wrong.emplace_back(least + 0.5);
  }
  return wrong;
}

}  // namespace paceline
