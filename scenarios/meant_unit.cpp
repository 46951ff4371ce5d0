#include "scenarios/meant_unit.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <span>
#include <utility>

#include "core/text.h"
#include "scenarios/json.h"

namespace paceline {
namespace {

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
  const bool rate = wanted.kind == Dimension::Kind::bandwidth;
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
  const char* const ours = wanted.kind == Dimension::Kind::compute_rate ? "FLOP/s" : "FLOP";
  const std::string name = prefix == nullptr ? "" : std::string(prefix->ours) + ours;
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
constexpr Spelling kSampleSpellings[] = {
    {"samples", "samples/s"},  {"sample", "samples/s"},  {"images", "samples/s"},
    {"image", "samples/s"},    {"imgs", "samples/s"},    {"img", "samples/s"},
    {"examples", "samples/s"}, {"example", "samples/s"}, {"sequences", "samples/s"},
    {"sequence", "samples/s"}, {"seqs", "samples/s"},    {"seq", "samples/s"},
    {"tokens", "tokens/s"},    {"token", "tokens/s"},    {"toks", "tokens/s"},
    {"tok", "tokens/s"}};

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

// "tok/s", "12.5k tokens/s".
std::vector<Proposal> meant_samples(const Dimension& wanted, std::string_view number, std::string unit) {
  drop_per_second(unit);
  std::vector<Spelling> spellings;
  for (const Spelling& each : kSampleSpellings) {
    if (find_unit(wanted, each.ours) != nullptr) {
      spellings.push_back(each);
    }
  }
  constexpr double kThousand = 1000;
  std::vector<Proposal> found = meant_spelling(spellings, number, unit);
  if (found.empty() && (unit.starts_with('k') || unit.starts_with('K'))) {
    std::ranges::for_each(spellings, [](Spelling& each) { each.factor = kThousand; });
    found = meant_spelling(spellings, number, unit.substr(1));
  }
  return found;
}

}  // namespace

std::vector<Proposal> meant_quantities(const Dimension& wanted, std::string_view number,
                                       std::string_view written) {
  std::string unit = plain_unit(written);
  if (find_unit(wanted, unit) != nullptr) {  // too many spaces
    return {{std::string(number) + ' ' + unit, {}}};
  }
  switch (wanted.kind) {
    case Dimension::Kind::size:
    case Dimension::Kind::bandwidth:
      return meant_data(wanted, number, std::move(unit));
    case Dimension::Kind::time: {
      // M is mega, and P peta: no such times, and no slip for milli and pico either.
      const bool large = unit.size() == 2 && (unit[0] == 'M' || unit[0] == 'P');
      return large ? std::vector<Proposal>{} : meant_spelling(kTimeSpellings, number, unit);
    }
    case Dimension::Kind::long_time:
      return meant_spelling(kLongSpellings, number, unit);
    case Dimension::Kind::work:
    case Dimension::Kind::compute_rate:
      return meant_work(wanted, number, std::move(unit));
    case Dimension::Kind::sample_rate:
      return meant_samples(wanted, number, std::move(unit));
  }
  return {};
}

}  // namespace paceline
