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

constexpr Dimension kDimensions[] = {{"a size", "25 MiB", "MiB", kByteUnits},
                                     {"a time", "5 us", "us", kSecondUnits},
                                     {"a bandwidth", "450 GB/s", "GB/s", kBandwidthUnits},
                                     {"an amount of work", "2 GFLOP", "GFLOP", kFlopUnits},
                                     {"a compute rate", "312 TFLOP/s", "TFLOP/s", kFlopRateUnits},
                                     {"a sample rate", "400 samples/s", "samples/s", kSampleRateUnits},
                                     {"a time", "4 h", "s", kLongUnits}};

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

// ---- what a unit that isn't one of ours was meant to be: never another quantity ----

// A quantity as it should be written, and what that says.
struct Proposal {
  std::string text, meaning;
};

// Without spaces, and with a u for either of Unicode's micro signs.
std::string plain_unit(std::string_view unit) {
  std::string text;
  for (std::size_t i = 0; i < unit.size(); ++i) {
    const std::string_view two = unit.substr(i, 2);
    const bool micro = two == "\xc2\xb5" || two == "\xce\xbc";
    text += micro ? "u" : unit[i] == ' ' ? "" : std::string(1, unit[i]);
    i += micro ? 1 : 0;
  }
  return text;
}

// Drops the first of these that `text` ends with, in lower case.
bool drop_ending(std::string& text, std::initializer_list<std::string_view> endings) {
  const std::string lower = in_lower_case(text);
  for (const std::string_view ending : endings) {
    if (lower.ends_with(ending)) {
      text.resize(text.size() - ending.size());
      return true;
    }
  }
  return false;
}
bool drop_per_second(std::string& unit) {
  return drop_ending(unit, {"/seconds", "/second", "/sec", "/s", "persecond", "ps"});
}

struct Prefix {
  std::string_view written, ours, meaning;
};
constexpr Prefix kPrefixes[] = {{"", "", ""},
                                {"k", "k", "10^3 "},
                                {"m", "M", "10^6 "},
                                {"g", "G", "10^9 "},
                                {"t", "T", "10^12 "},
                                {"p", "P", "10^15 "},
                                {"e", "E", "10^18 "},
                                {"ki", "Ki", "2^10 "},
                                {"mi", "Mi", "2^20 "},
                                {"gi", "Gi", "2^30 "},
                                {"ti", "Ti", "2^40 "},
                                {"kilo", "k", "10^3 "},
                                {"mega", "M", "10^6 "},
                                {"giga", "G", "10^9 "},
                                {"tera", "T", "10^12 "},
                                {"kibi", "Ki", "2^10 "},
                                {"mebi", "Mi", "2^20 "},
                                {"gibi", "Gi", "2^30 "},
                                {"tebi", "Ti", "2^40 "}};

const Prefix* prefix_written(const std::string& text) {
  const auto* const found = std::ranges::find(kPrefixes, in_lower_case(text), &Prefix::written);
  return found == std::end(kPrefixes) ? nullptr : found;
}

// Sizes and bandwidths. Bits stay bits and bytes stay bytes; what may be either, or 1000 or 1024, is proposed
// as both.
std::vector<Proposal> meant_data(const Dimension& wanted, std::string_view number, std::string unit) {
  const bool rate = wanted.usual.ends_with("/s");
  const std::string whole = unit;
  const bool per_second = drop_per_second(unit), slash = whole.find('/') != std::string::npos;
  bool bits = false, bytes = false;
  if (drop_ending(unit, {"bits", "bit", "be"})) {  // GbE: Ethernet
    bits = true;
  } else if (drop_ending(unit, {"bytes", "byte"})) {
    bytes = true;
  } else if (const char last = unit.empty() ? ' ' : unit.back(); drop_ending(unit, {"b"})) {
    const bool small = std::ranges::equal(whole, whole, {}, to_lower),
               large = std::ranges::equal(whole, whole, {}, to_upper);
    bits = last == 'b' || (large && per_second && !slash);
    bytes = last == 'B' || !rate || (small && (slash || !per_second));
  } else if (!unit.empty()) {  // a prefix alone
    bits = rate;
    bytes = true;
  }
  const Prefix* prefix = prefix_written(unit);
  if (prefix == nullptr || (per_second && !rate)) {
    return {};
  }
  std::vector<Proposal> proposals;
  const auto propose = [&](std::string_view value, const Prefix& by, const char* letter, const char* what) {
    const std::string name = std::string(by.ours) + letter + (rate ? "/s" : "");
    if (find_unit(wanted, name) != nullptr) {
      proposals.push_back({std::string(value) + ' ' + name,
                           what == nullptr ? "if bits are meant" : std::string(by.meaning) + what});
    }
  };
  if (bits && rate) {
    propose(number, *prefix, "b", "bits a second");
  } else if (bits) {
    double value = 0;
    std::from_chars(number.data(), number.data() + number.size(), value);
    propose(number_text(value / 8), *prefix, "B", nullptr);
  }
  if (bytes) {
    const char* what = rate ? "bytes a second" : "bytes";
    propose(number, *prefix, "B", what);
    if (const Prefix* binary = prefix_written(unit + 'i'); !rate && binary != nullptr) {
      propose(number, *binary, "B", what);
    }
  }
  return proposals;
}

// "TFLOPS" and the like.
std::vector<Proposal> meant_work(const Dimension& wanted, std::string_view number, std::string unit) {
  if (!drop_ending(unit, {"flop/second", "flop/sec", "flops/s", "flop/s", "flops", "flop", "f/s", "f"})) {
    return {};
  }
  const Prefix* prefix = prefix_written(unit);
  const std::string name =
      prefix == nullptr ? "" : std::string(prefix->ours) + (wanted.usual.ends_with("/s") ? "FLOP/s" : "FLOP");
  return find_unit(wanted, name) == nullptr ? std::vector<Proposal>{}
                                            : std::vector<Proposal>{{std::string(number) + ' ' + name, {}}};
}

struct Spelling {
  std::string_view written, ours;
  double factor = 1;
};
constexpr Spelling kTimeSpellings[] = {
    {"s", "s"},          {"sec", "s"},           {"secs", "s"},        {"second", "s"},
    {"seconds", "s"},    {"ms", "ms"},           {"msec", "ms"},       {"msecs", "ms"},
    {"millis", "ms"},    {"millisecond", "ms"},  {"us", "us"},         {"milliseconds", "ms"},
    {"usec", "us"},      {"usecs", "us"},        {"micros", "us"},     {"microsecond", "us"},
    {"ns", "ns"},        {"microseconds", "us"}, {"nsec", "ns"},       {"nsecs", "ns"},
    {"nanos", "ns"},     {"nanosecond", "ns"},   {"ps", "ps"},         {"nanoseconds", "ns"},
    {"psec", "ps"},      {"picosecond", "ps"},   {"min", "s", 60},     {"picoseconds", "ps"},
    {"mins", "s", 60},   {"minute", "s", 60},    {"minutes", "s", 60}, {"h", "s", 3600},
    {"hour", "s", 3600}, {"hours", "s", 3600}};
constexpr Spelling kLongSpellings[] = {{"sec", "s"},  {"secs", "s"},   {"second", "s"},   {"seconds", "s"},
                                       {"m", "min"},  {"mins", "min"}, {"minute", "min"}, {"minutes", "min"},
                                       {"hour", "h"}, {"hours", "h"},  {"hr", "h"},       {"hrs", "h"},
                                       {"day", "d"},  {"days", "d"},   {"week", "d", 7},  {"weeks", "d", 7},
                                       {"year", "y"}, {"years", "y"},  {"yr", "y"},       {"a", "y"}};
constexpr Spelling kSampleSpellings[] = {{"samples", "samples/s"}, {"sample", "samples/s"},
                                         {"images", "samples/s"},  {"image", "samples/s"},
                                         {"imgs", "samples/s"},    {"img", "samples/s"}};

std::vector<Proposal> meant_spelling(std::span<const Spelling> spellings, std::string_view number,
                                     const std::string& unit) {
  const auto found = std::ranges::find(spellings, in_lower_case(unit), &Spelling::written);
  if (found == spellings.end()) {
    return {};
  }
  double value = 0;
  std::from_chars(number.data(), number.data() + number.size(), value);
  const std::string count = found->factor == 1 ? std::string(number) : number_text(value * found->factor);
  return {{count + ' ' + std::string(found->ours), {}}};
}

std::vector<Proposal> meant(const Dimension& wanted, std::string_view number, std::string unit) {
  if (find_unit(wanted, unit) != nullptr) {  // too many spaces
    return {{std::string(number) + ' ' + unit, {}}};
  }
  if (wanted.usual == "us") {
    // M is mega, and P peta: no such times, and no slip for milli and pico either.
    const bool large = unit.size() == 2 && (unit[0] == 'M' || unit[0] == 'P');
    return large ? std::vector<Proposal>{} : meant_spelling(kTimeSpellings, number, unit);
  }
  if (wanted.usual == "s") {
    return meant_spelling(kLongSpellings, number, unit);
  }
  if (wanted.usual == "samples/s") {
    drop_per_second(unit);
    return meant_spelling(kSampleSpellings, number, unit);
  }
  return wanted.usual.ends_with("FLOP") || wanted.usual.ends_with("FLOP/s")
             ? meant_work(wanted, number, std::move(unit))
             : meant_data(wanted, number, std::move(unit));
}

[[noreturn]] void fail_unit(const Dimension& wanted, std::string_view text, std::string_view number,
                            std::string_view unit) {
  if (unit.empty()) {
    fail(wanted, text, ", without a unit; the units are " + known_units(wanted));
  }
  std::string why = ": unknown unit " + in_quotes(unit);
  for (const Dimension& other : kDimensions) {
    if (other.noun != wanted.noun && find_unit(other, unit) != nullptr) {
      why = ", which is " + std::string(other.noun);
    }
  }
  const std::vector<Proposal> proposals = meant(wanted, number, plain_unit(unit));
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    why += (i == 0 ? "; write \"" : " or \"") + proposals[i].text + '"' +
           (proposals[i].meaning.empty() ? "" : " (" + proposals[i].meaning + ')');
  }
  if (proposals.empty() && why.starts_with(':')) {
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

const Dimension& dimension_of(Bytes) { return kDimensions[0]; }
const Dimension& dimension_of(Seconds) { return kDimensions[1]; }
const Dimension& dimension_of(BytesPerSecond) { return kDimensions[2]; }
const Dimension& dimension_of(Flops) { return kDimensions[3]; }
const Dimension& dimension_of(FlopsPerSecond) { return kDimensions[4]; }
const Dimension& dimension_of(SamplesPerSecond) { return kDimensions[5]; }
const Dimension& dimension_of(LongSeconds) { return kDimensions[6]; }

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
