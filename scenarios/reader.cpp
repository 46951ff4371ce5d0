#include "scenarios/reader.h"

#include <charconv>
#include <cmath>
#include <stdexcept>

#include "core/text.h"
#include "core/unknown_name.h"
#include "scenarios/schema_writer.h"
#include "sim/collective/costs.h"

namespace paceline {
namespace {

// At most this many decimals and digits: a ratio of people, exact in integer arithmetic.
constexpr int kMostDecimals = 6;
constexpr std::int64_t kMostTerm = 1'000'000'000;

// "121/100" or "1.21", reduced.
std::optional<Slowdown> ratio_in(const std::string& text) {
  Slowdown ratio;
  if (const std::size_t slash = text.find('/'); slash != std::string::npos) {
    const auto p = number_in<std::int64_t>(std::string_view(text).substr(0, slash));
    const auto q = number_in<std::int64_t>(std::string_view(text).substr(slash + 1));
    if (!p || !q || *p < 1 || *q < 1) {
      return std::nullopt;
    }
    ratio = {*p, *q};
  } else {
    const std::size_t dot = std::min(text.find('.'), text.size());
    const std::string_view decimals = std::string_view(text).substr(std::min(dot + 1, text.size()));
    const auto all = number_in<std::int64_t>(text.substr(0, dot) + std::string(decimals));
    if (!all || *all < 1 || decimals.size() > kMostDecimals || (dot < text.size() && decimals.empty())) {
      return std::nullopt;
    }
    ratio.numerator = *all;
    for (std::size_t i = 0; i < decimals.size(); ++i) {
      ratio.denominator *= 10;
    }
  }
  const std::int64_t common = std::gcd(ratio.numerator, ratio.denominator);
  ratio.numerator /= common;
  ratio.denominator /= common;
  return ratio.numerator <= kMostTerm && ratio.denominator <= kMostTerm ? std::optional(ratio) : std::nullopt;
}

// What was found, with the cure for quotes that are too many or too few.
std::string shown_for_number(const Json& json) {
  const auto* text = json.as<std::string>();
  double value = 0;
  const bool number =
      text != nullptr && !text->empty() &&
      std::from_chars(text->data(), text->data() + text->size(), value).ptr == text->data() + text->size();
  return shown(json) + (number ? ": write it without quotes" : "");
}
std::string shown_for_text(const Json& json) {
  const bool number = json.as<std::int64_t>() != nullptr || json.as<double>() != nullptr;
  return shown(json) + (number ? R"(: put it in quotes ("..."; in a shell '"..."'))" : "");
}

std::string plain_number(double value) {
  return std::abs(value) < 1e15 && value == std::floor(value)
             ? std::to_string(static_cast<std::int64_t>(value))
             : number_text(value);
}

// A number that may be anything would be believed whatever it is: whoever reads one says its range.
void require_range(const Limits& limits) {
  if (std::isinf(limits.least) || std::isinf(limits.most)) {
    throw std::logic_error("a number without a range");
  }
}

// A bare number may be in any unit, so none is guessed.
const std::string& text_of_quantity(const Json& json, const Dimension& dimension, const Spot& spot) {
  const auto* text = json.as<std::string>();
  if (text == nullptr) {
    fail_at(spot, std::string(dimension.noun) + " with its unit such as " + in_quotes(dimension.example),
            shown(json) + ": the units are " + known_units(dimension));
  }
  return *text;
}

// "/training/ddp or /training/host": the outer ones of these places in a scenario.
std::string places_text(const std::vector<std::string>& places) {
  constexpr int kShown = 3;
  const auto depth = [](const std::string& place) { return std::ranges::count(place, '/'); };
  const auto least = depth(*std::ranges::min_element(places, {}, depth));
  std::string text;
  int shown = 0;
  for (const std::string& place : places) {
    if (depth(place) <= least + 1 && shown++ < kShown) {
      text += (text.empty() ? "" : " or ") + (place.empty() ? "the outermost object" : place);
    }
  }
  return text;
}

std::string places_of_key(std::string_view key) {
  static const std::vector<KeyPlaces> keys = scenario_keys();
  const auto found = std::ranges::find(keys, key, &KeyPlaces::key);
  return found == keys.end() ? "" : places_text(found->places);
}

// A sentence on the key elsewhere in a scenario, or on the one that it was meant to be; nothing where another
// form of this very object has it.
std::string elsewhere_text(const std::string& key, const std::string& here, bool near_here) {
  static const std::vector<KeyPlaces> keys = scenario_keys();
  const auto find = [](const std::string& name) { return std::ranges::find(keys, name, &KeyPlaces::key); };
  if (const auto found = find(key); found != keys.end()) {
    const bool other_form = std::ranges::find(found->places, here) != found->places.end();
    return other_form ? ""
                      : "In a scenario " + in_quotes(key) + " belongs in " + places_text(found->places) + '.';
  }
  std::vector<std::string> names;
  for (const KeyPlaces& each : keys) {
    names.push_back(each.key);
  }
  const std::vector<std::string> near = near_here ? std::vector<std::string>{} : nearest_names(key, names);
  return near.empty() ? ""
                      : "A scenario has " + in_quotes(near.front()) + " in " +
                            places_text(find(near.front())->places) + '.';
}

}  // namespace

void refuse_other_word(std::string_view what, std::string_view word, const OtherWord& other,
                       const std::string& places, const Spot& spot) {
  std::string text = "unknown " + std::string(what) + ' ' + in_quotes(word) + '.';
  text += other.name.empty() ? "" : " It is " + in_quotes(other.name) + places + '.';
  text += other.more.empty() ? "" : ' ' + std::string(other.more);
  throw InputError(text, spot.place);
}

void check_keys(const Json& json, const std::vector<std::string>& known, const Spot& spot) {
  const auto* object = json.as<Json::Object>();
  if (object == nullptr) {
    fail_at(spot, "an object", shown(json));
  }
  for (const JsonMember& member : *object) {
    if (member.key == "$schema" && spot.place.empty()) {
      std::string ignored;
      read(member.value, ignored, kSchemaName, below(spot, member.key));
    } else if (std::ranges::find(known, member.key) == known.end()) {
      if (const OtherWord* other = find_other(other_keys(), member.key)) {
        refuse_other_word("key", member.key, *other, " in " + places_of_key(other->name), spot);
      }
      const bool near = !nearest_names(member.key, known).empty();
      throw InputError(
          unknown_name("key", in_short(member.key), known, elsewhere_text(member.key, spot.place, near)),
          spot.place);
    }
  }
}

void Reader::require_all() const {
  if (!missing_.empty()) {
    throw InputError((missing_.size() == 1 ? "missing key " : "missing keys ") +
                         quoted_list(missing_, "and") +
                         (presets_ ? "; or \"preset\", to start from a known one" : ""),
                     spot_.place);
  }
}

std::string range_text(const Limits& limits, bool whole) {
  std::string noun = whole ? "a whole number" : "a number";
  return noun + (limits.above ? " above " : " from ") + plain_number(limits.least) +
         (limits.above ? " and at most " : " to ") + plain_number(limits.most);
}

double read_number(const Json& json, const Limits& limits, const Spot& spot) {
  require_range(limits);
  double value = 0;
  if (const auto* real = json.as<double>()) {
    value = *real;
  } else if (const auto* whole = json.as<std::int64_t>()) {
    value = static_cast<double>(*whole);
  } else if (const auto* large = json.as<std::uint64_t>()) {
    value = static_cast<double>(*large);
  } else {
    fail_at(spot, range_text(limits, false), shown_for_number(json));
  }
  if (!limits.holds(value)) {
    fail_at(spot, range_text(limits, false), shown(json));
  }
  return value;
}

std::int64_t read_whole(const Json& json, const Limits& limits, const Spot& spot) {
  require_range(limits);
  const auto* value = json.as<std::int64_t>();
  if (value == nullptr || !limits.holds(static_cast<double>(*value))) {
    fail_at(spot, range_text(limits, true), shown_for_number(json));
  }
  return *value;
}

double read_quantity(const Json& json, const Dimension& dimension, const Limits& limits, const Spot& spot) {
  require_range(limits);
  const std::string& text = text_of_quantity(json, dimension, spot);
  double value = 0;
  try {
    value = parse_quantity(text, dimension);
  } catch (const InputError& error) {
    throw error.at(spot.place);
  }
  if (!limits.holds(value)) {
    fail_at(spot,
            std::string(dimension.noun) + " from " + quantity_text(limits.least, dimension) + " to " +
                quantity_text(limits.most, dimension),
            shown(json));
  }
  return value;
}

void read(const Json& json, Bytes& value, const Limits& limits, const Spot& spot) {
  const std::string& text = text_of_quantity(json, dimension_of(value), spot);
  try {
    value = parse_bytes(text);
  } catch (const InputError& error) {
    throw error.at(spot.place);
  }
  if (!limits.holds(static_cast<double>(value.value))) {
    const Dimension& dimension = dimension_of(value);
    fail_at(spot,
            "a size from " + quantity_text(limits.least, dimension) + " to " +
                (limits.most == kMostBytes ? kMostBytesText : quantity_text(limits.most, dimension)),
            shown(json));
  }
}

void read(const Json& json, bool& value, const Limits&, const Spot& spot) {
  const bool* given = json.as<bool>();
  if (given == nullptr) {
    fail_at(spot, "true or false", shown(json));
  }
  value = *given;
}

void read(const Json& json, std::uint64_t& value, const Limits&, const Spot& spot) {
  if (const auto* large = json.as<std::uint64_t>()) {
    value = *large;
  } else if (const auto* whole = json.as<std::int64_t>(); whole != nullptr && *whole >= 0) {
    value = static_cast<std::uint64_t>(*whole);
  } else {
    fail_at(spot, "a whole number from 0 to 18446744073709551615", shown(json));
  }
}

void read(const Json& json, double& value, const Limits& limits, const Spot& spot) {
  value = read_number(json, limits, spot);
}

void read(const Json& json, std::string& value, const Limits& limits, const Spot& spot) {
  const auto* text = json.as<std::string>();
  if (text == nullptr || text->size() < limits.fewest || text->size() > limits.longest) {
    fail_at(spot,
            "a text of " + std::to_string(limits.fewest) + " to " + std::to_string(limits.longest) + " bytes",
            text != nullptr && text->size() > limits.longest ? std::to_string(text->size()) + " bytes"
                                                             : shown_for_text(json));
  }
  value = *text;
}

void read(const Json& json, Slowdown& value, const Limits& limits, const Spot& spot) {
  const auto* text = json.as<std::string>();
  std::string number;
  if (text == nullptr) {
    number = plain_number(read_number(json, limits, spot));
  }
  const std::optional<Slowdown> ratio = ratio_in(text != nullptr ? *text : number);
  if (!ratio ||
      !limits.holds(static_cast<double>(ratio->numerator) / static_cast<double>(ratio->denominator))) {
    fail_at(spot, range_text(limits, false) + " with at most 6 decimals, or a fraction such as \"121/100\"",
            shown(json));
  }
  value = *ratio;
}

CostForm form_of_cost(std::string_view name) {
  return name.ends_with("efficiency")         ? CostForm{nullptr, kEfficiency}
         : name.ends_with("acknowledgements") ? CostForm{nullptr, kShare}
         : name.ends_with("rate")             ? CostForm{&dimension_of(BytesPerSecond{}), kBandwidth}
                                              : CostForm{&dimension_of(Seconds{}), kDuration};
}

double read_cost(const Json& json, std::string_view name, const Spot& spot) {
  const auto [dimension, limits] = form_of_cost(name);
  return dimension != nullptr ? read_quantity(json, *dimension, limits, spot)
                              : read_number(json, limits, spot);
}

Json cost_json(std::string_view name, double value) {
  const Dimension* dimension = form_of_cost(name).dimension;
  return dimension != nullptr ? Json(quantity_text(value, *dimension)) : Json(value);
}

void read(const Json& json, std::vector<CostParameter>& costs, const Limits&, const Spot& spot) {
  const auto* object = json.as<Json::Object>();
  if (object == nullptr) {
    fail_at(spot, "an object of cost parameters", shown(json));
  }
  const std::vector<std::string> known = cost_parameter_names();
  costs.clear();
  for (const JsonMember& member : *object) {
    if (std::ranges::find(known, member.key) == known.end()) {
      throw InputError(unknown_name("cost parameter", in_short(member.key), known), spot.place);
    }
    costs.push_back({member.key, read_cost(member.value, member.key, below(spot, member.key))});
  }
  std::ranges::sort(costs, {}, &CostParameter::name);  // the order of keys says nothing
}

Json write(const std::vector<CostParameter>& costs) {
  Json::Object object;
  for (const CostParameter& cost : costs) {
    object.push_back({cost.name, cost_json(cost.name, cost.value)});
  }
  return object;
}

}  // namespace paceline
