#include "scenarios/quantities.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "scenarios/json.h"
#include "scenarios/meant_unit.h"

namespace paceline {
namespace {

// Largest first within the decimal units, which are the ones written; the base unit is there always.
constexpr Unit kByteUnits[] = {{"TB", 12},
                               {"GB", 9},
                               {"MB", 6},
                               {"kB", 3},
                               {"B", 0},
                               {"TiB", 0, 1.0 * (1LL << 40)},
                               {"GiB", 0, 1 << 30},
                               {"MiB", 0, 1 << 20},
                               {"KiB", 0, 1 << 10}};
constexpr Unit kSecondUnits[] = {{"s", 0}, {"ms", -3}, {"us", -6}, {"ns", -9}, {"ps", -12}};
constexpr Unit kLongUnits[] = {{"s", 0},       {"ms", -3},      {"us", -6},        {"min", 0, 60},
                               {"h", 0, 3600}, {"d", 0, 86400}, {"y", 0, 31557600}};
constexpr Unit kBandwidthUnits[] = {{"TB/s", 12},
                                    {"GB/s", 9},
                                    {"MB/s", 6},
                                    {"kB/s", 3},
                                    {"B/s", 0},
                                    {"TiB/s", 0, 1.0 * (1LL << 40)},
                                    {"GiB/s", 0, 1 << 30},
                                    {"MiB/s", 0, 1 << 20},
                                    {"KiB/s", 0, 1 << 10},
                                    {"Tb/s", 12, 0.125},
                                    {"Gb/s", 9, 0.125},
                                    {"Mb/s", 6, 0.125},
                                    {"kb/s", 3, 0.125},
                                    {"b/s", 0, 0.125}};
constexpr Unit kFlopUnits[] = {{"PFLOP", 15}, {"TFLOP", 12}, {"GFLOP", 9}, {"MFLOP", 6}, {"FLOP", 0}};
constexpr Unit kFlopRateUnits[] = {{"EFLOP/s", 18}, {"PFLOP/s", 15}, {"TFLOP/s", 12},
                                   {"GFLOP/s", 9},  {"MFLOP/s", 6},  {"FLOP/s", 0}};
constexpr Unit kSampleRateUnits[] = {{"samples/s", 0}};

constexpr Dimension kDimensions[] = {
    {Dimension::Kind::size, "a size", "25 MiB", "MiB", kByteUnits},
    {Dimension::Kind::time, "a time", "5 us", "us", kSecondUnits},
    {Dimension::Kind::bandwidth, "a bandwidth", "450 GB/s", "GB/s", kBandwidthUnits},
    {Dimension::Kind::work, "an amount of work", "2 GFLOP", "GFLOP", kFlopUnits},
    {Dimension::Kind::compute_rate, "a compute rate", "312 TFLOP/s", "TFLOP/s", kFlopRateUnits},
    {Dimension::Kind::sample_rate, "a sample rate", "400 samples/s", "samples/s", kSampleRateUnits},
    {Dimension::Kind::long_time, "a time", "4 h", "s", kLongUnits}};

constexpr const Dimension& dimension_at(Dimension::Kind kind) {
  return kDimensions[static_cast<std::size_t>(kind)];
}
static_assert(std::ranges::all_of(kDimensions, [](const Dimension& each) {
  return &dimension_at(each.kind) == &each;  // in the order of the kinds
}));

[[noreturn]] void fail(const Dimension& wanted, std::string_view text, const std::string& why) {
  throw InputError("expected " + std::string(wanted.noun) + " such as \"" + std::string(wanted.example) +
                   "\", found " + in_quotes(text) + why);
}

// A decimal number as JSON writes it, at the start of the text: its length, or 0.
std::size_t number_length(std::string_view text) {
  const auto digits = [&](std::size_t from) {
    std::size_t end = from;
    while (end < text.size() && is_digit(text[end])) {
      ++end;
    }
    return end - from;
  };
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const std::size_t whole = digits(at);
  if (whole == 0) {
    return 0;
  }
  at += whole;
  if (at < text.size() && text[at] == '.' && digits(at + 1) > 0) {
    at += 1 + digits(at + 1);
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    const std::size_t sign = at + 1 < text.size() && (text[at + 1] == '-' || text[at + 1] == '+') ? 1 : 0;
    if (const std::size_t exponent = digits(at + 1 + sign); exponent > 0) {
      at += 1 + sign + exponent;
    }
  }
  return at;
}

[[noreturn]] void fail_unit(const Dimension& wanted, std::string_view text, std::string_view number,
                            std::string_view unit) {
  if (unit.empty()) {
    fail(wanted, text, ", without a unit; the units are " + known_units(wanted));
  }
  const Dimension* its = nullptr;
  for (const Dimension& other : kDimensions) {
    if (other.noun != wanted.noun && find_unit(other, unit) != nullptr) {
      its = &other;
    }
  }
  std::string why =
      its == nullptr ? ": unknown unit " + in_quotes(unit) : ", which is " + std::string(its->noun);
  const std::vector<Proposal> proposals = meant_quantities(wanted, number, unit);
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    why += (i == 0 ? "; write \"" : " or \"") + proposals[i].text + '"' +
           (proposals[i].meaning.empty() ? "" : " (" + proposals[i].meaning + ')');
  }
  if (proposals.empty() && its == nullptr) {
    why += "; the units are " + known_units(wanted);
  }
  fail(wanted, text, why);
}

struct Written {
  std::string_view number;
  const Unit* unit;
};

Written split(std::string_view text, const Dimension& wanted) {
  const std::size_t length = number_length(text);
  if (length == 0) {
    fail(wanted, text, ", which does not begin with a number such as 0.5");
  }
  const std::string_view number = text.substr(0, length);
  std::string_view unit = text.substr(length);
  const std::size_t next = unit.find_first_not_of(" ,_'");
  if (next > 0 && next < unit.size() && is_digit(unit[next])) {
    fail(wanted, text,
         ": write the number with a point for decimals and nothing between thousands, such as 1234.5");
  }
  const bool spaced = unit.starts_with(' ');
  unit.remove_prefix(spaced ? 1 : 0);
  const Unit* known = find_unit(wanted, unit);
  if (known == nullptr) {
    fail_unit(wanted, text, number, unit);
  }
  if (!spaced) {
    fail(wanted, text, ", without a space: write \"" + std::string(number) + ' ' + std::string(unit) + '"');
  }
  return {number, known};
}

// The double nearest to number * 10^exponent, or nothing when it is out of a double's range.
std::optional<double> scaled(std::string_view number, int exponent) {
  const std::size_t e = number.find_first_of("eE");
  int own = 0;
  if (e != std::string_view::npos) {
    const std::size_t skip = number[e + 1] == '+' ? 2 : 1;
    const auto [end, error] = std::from_chars(number.data() + e + skip, number.data() + number.size(), own);
    if (error != std::errc() || std::abs(own) > 100'000) {
      return std::nullopt;
    }
  }
  const std::string decimal = std::string(number.substr(0, e)) + 'e' + std::to_string(own + exponent);
  double value = 0;
  const auto [end, error] = std::from_chars(decimal.data(), decimal.data() + decimal.size(), value);
  if (error != std::errc()) {
    return std::nullopt;
  }
  return value;
}

// digits * 10^exponent with the decimal point moved; no exponent for the sizes that people write.
std::string plain(const std::string& digits, int exponent) {
  const int point = static_cast<int>(digits.size()) + exponent;
  constexpr int kMostZeros = 6;
  if (exponent > kMostZeros + 15 || point < -kMostZeros) {
    return digits + 'e' + std::to_string(exponent);
  }
  if (exponent >= 0) {
    return digits + std::string(static_cast<std::size_t>(exponent), '0');
  }
  if (point > 0) {
    return digits.substr(0, static_cast<std::size_t>(point)) + '.' +
           digits.substr(static_cast<std::size_t>(point));
  }
  return "0." + std::string(static_cast<std::size_t>(-point), '0') + digits;
}

}  // namespace

const Dimension& dimension_of(Bytes) { return dimension_at(Dimension::Kind::size); }
const Dimension& dimension_of(Seconds) { return dimension_at(Dimension::Kind::time); }
const Dimension& dimension_of(BytesPerSecond) { return dimension_at(Dimension::Kind::bandwidth); }
const Dimension& dimension_of(Flops) { return dimension_at(Dimension::Kind::work); }
const Dimension& dimension_of(FlopsPerSecond) { return dimension_at(Dimension::Kind::compute_rate); }
const Dimension& dimension_of(SamplesPerSecond) { return dimension_at(Dimension::Kind::sample_rate); }
const Dimension& dimension_of(LongSeconds) { return dimension_at(Dimension::Kind::long_time); }

const Unit* find_unit(const Dimension& dimension, std::string_view name) {
  const auto found = std::ranges::find(dimension.units, name, &Unit::name);
  return found == dimension.units.end() ? nullptr : &*found;
}

std::string known_units(const Dimension& dimension) {
  std::vector<std::string> names;
  for (const Unit& unit : dimension.units) {
    names.emplace_back(unit.name);
  }
  return joined(names, ", ", " or ");
}

double parse_quantity(std::string_view text, const Dimension& dimension) {
  const auto [number, unit] = split(text, dimension);
  const std::optional<double> value = scaled(number, unit->exponent);
  if (!value || !std::isfinite(*value * unit->binary)) {
    fail(dimension, text, ", which is out of range");
  }
  return *value * unit->binary;
}

Bytes parse_bytes(std::string_view text) {
  const Dimension& dimension = dimension_of(Bytes{});
  const auto [number, unit] = split(text, dimension);
  std::int64_t whole = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), whole);
  const double factor = unit->binary * std::pow(10.0, unit->exponent);
  std::int64_t exact = 0;
  if (error == std::errc() && end == number.data() + number.size() &&
      !__builtin_mul_overflow(whole, static_cast<std::int64_t>(factor), &exact)) {
    return Bytes(exact);
  }
  const double value = parse_quantity(text, dimension);
  constexpr double kMost = 4611686018427387904.0;  // 2^62
  if (!(std::abs(value) <= kMost)) {
    fail(dimension, text, ", which is out of range");
  }
  return Bytes(std::llround(value));
}

std::string quantity_text(double value, const Dimension& dimension) {
  if (value == 0) {
    return "0 " + std::string(dimension.usual);
  }
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(value),
                                 std::chars_format::scientific);
  const std::string_view scientific(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  const std::size_t e = scientific.find('e');
  std::string digits(1, scientific.front());
  digits += e > 1 ? scientific.substr(2, e - 2) : "";
  int exponent = 0;
  const std::size_t skip = scientific[e + 1] == '+' ? 2 : 1;
  std::from_chars(scientific.data() + e + skip, end.ptr, exponent);
  const Unit* best =
      nullptr;  // the largest that leaves at least one digit before the point, else the smallest
  for (const Unit& unit : dimension.units) {
    if (unit.binary == 1) {
      best = best == nullptr || best->exponent > exponent ? &unit : best;
    }
  }
  const int last_digit = exponent - static_cast<int>(digits.size()) + 1;
  return (value < 0 ? "-" : "") + plain(digits, last_digit - best->exponent) + ' ' + std::string(best->name);
}

// In the largest unit that says it exactly with at most two decimals: "12.5 MiB".
std::string to_text(Bytes bytes) {
  constexpr std::int64_t kHundredths = 100, kExact = std::int64_t{1} << 50;  // as a double with decimals
  for (const std::string_view name : {"GiB", "MiB", "KiB", "GB", "MB", "kB"}) {
    const Unit& unit = *find_unit(dimension_of(bytes), name);
    const auto factor = static_cast<std::int64_t>(unit.binary * std::pow(10.0, unit.exponent));
    const std::int64_t whole = bytes.value / factor, rest = bytes.value % factor * kHundredths;
    if (whole > 0 && rest % factor == 0 && (rest == 0 || bytes.value < kExact)) {
      const std::int64_t decimals = rest / factor;
      const std::string text = (decimals < 10 ? "0" : "") + std::to_string(decimals);
      return std::to_string(whole) + (decimals == 0 ? "" : '.' + text.substr(0, decimals % 10 == 0 ? 1 : 2)) +
             ' ' + std::string(name);
    }
  }
  return std::to_string(bytes.value) + " B";
}

std::string to_text(Seconds v) { return quantity_text(v.value, dimension_of(v)); }
std::string to_text(LongSeconds v) { return quantity_text(v.value, dimension_of(v)); }
std::string to_text(BytesPerSecond v) { return quantity_text(v.value, dimension_of(v)); }
std::string to_text(Flops v) { return quantity_text(v.value, dimension_of(v)); }
std::string to_text(FlopsPerSecond v) { return quantity_text(v.value, dimension_of(v)); }
std::string to_text(SamplesPerSecond v) { return quantity_text(v.value, dimension_of(v)); }

}  // namespace paceline
