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

constexpr Dimension kDimensions[] = {{"a size", "25 MiB", "MiB", kByteUnits},
                                     {"a time", "5 us", "us", kSecondUnits},
                                     {"a bandwidth", "450 GB/s", "GB/s", kBandwidthUnits},
                                     {"an amount of work", "2 GFLOP", "GFLOP", kFlopUnits},
                                     {"a compute rate", "312 TFLOP/s", "TFLOP/s", kFlopRateUnits},
                                     {"a sample rate", "400 samples/s", "samples/s", kSampleRateUnits}};

const Unit* find_unit(const Dimension& dimension, std::string_view name) {
  for (const Unit& unit : dimension.units) {
    if (unit.name == name) {
      return &unit;
    }
  }
  return nullptr;
}

[[noreturn]] void fail(const Dimension& wanted, std::string_view text, const std::string& why) {
  throw InputError("expected " + std::string(wanted.noun) + " such as \"" + std::string(wanted.example) +
                   "\", found " + in_quotes(text) + why);
}

// A decimal number as JSON writes it, at the start of the text: its length, or 0.
std::size_t number_length(std::string_view text) {
  const auto digits = [&](std::size_t from) {
    std::size_t end = from;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') {
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

bool same_but_for_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, to_lower, to_lower);
}

[[noreturn]] void fail_unit(const Dimension& wanted, std::string_view text, std::string_view number,
                            std::string_view unit) {
  if (unit.empty()) {
    fail(wanted, text,
         ", without a unit: write for example \"" + std::string(number) + ' ' + std::string(wanted.usual) +
             '"');
  }
  for (const Dimension& other : kDimensions) {
    if (find_unit(other, unit) != nullptr) {
      fail(wanted, text, ", which is " + std::string(other.noun));
    }
  }
  std::vector<std::string> known;
  for (const Unit& u : wanted.units) {
    known.emplace_back(u.name);
  }
  // Of units that are equally near, the one that differs in case alone is meant.
  std::stable_partition(known.begin(), known.end(),
                        [&](const std::string& name) { return same_but_for_case(name, unit); });
  fail(wanted, text, ": " + unknown_name("unit", in_short(unit), known));
}

struct Written {
  std::string_view number;
  const Unit* unit;
};

Written split(std::string_view text, const Dimension& wanted) {
  const std::size_t length = number_length(text);
  if (length == 0) {
    fail(wanted, text, ", which does not begin with a number");
  }
  const std::string_view number = text.substr(0, length);
  std::string_view unit = text.substr(length);
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

const Dimension& dimension_of(Bytes) { return kDimensions[0]; }
const Dimension& dimension_of(Seconds) { return kDimensions[1]; }
const Dimension& dimension_of(BytesPerSecond) { return kDimensions[2]; }
const Dimension& dimension_of(Flops) { return kDimensions[3]; }
const Dimension& dimension_of(FlopsPerSecond) { return kDimensions[4]; }
const Dimension& dimension_of(SamplesPerSecond) { return kDimensions[5]; }

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

std::string to_text(Bytes bytes) {
  for (const std::string_view name : {"GiB", "MiB", "KiB", "GB", "MB", "kB"}) {
    const Unit& unit = *find_unit(dimension_of(bytes), name);
    const auto factor = static_cast<std::int64_t>(unit.binary * std::pow(10.0, unit.exponent));
    if (bytes.value != 0 && bytes.value % factor == 0) {
      return std::to_string(bytes.value / factor) + ' ' + std::string(name);
    }
  }
  return std::to_string(bytes.value) + " B";
}

std::string to_text(Seconds v) { return quantity_text(v.value, dimension_of(v)); }
std::string to_text(BytesPerSecond v) { return quantity_text(v.value, dimension_of(v)); }
std::string to_text(Flops v) { return quantity_text(v.value, dimension_of(v)); }
std::string to_text(FlopsPerSecond v) { return quantity_text(v.value, dimension_of(v)); }
std::string to_text(SamplesPerSecond v) { return quantity_text(v.value, dimension_of(v)); }

}  // namespace paceline
