#include "calibrate/measure/options.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <sstream>

#include "core/error.h"
#include "core/unknown_name.h"

namespace paceline::measure {
namespace {

double positive_number(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !(value > 0) || !std::isfinite(value)) {
    throw InputError("\"" + text + "\" is not a positive number");
  }
  return value;
}

std::int64_t whole_number(const std::string& text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < least || value > most) {
    throw InputError("\"" + text + "\" is not a whole number from " + std::to_string(least) + " to " +
                     std::to_string(most));
  }
  return value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) {
    parts.push_back(part);
  }
  if (text.empty() || text.back() == separator) {
    parts.emplace_back();
  }
  return parts;
}

constexpr std::int64_t kLargestSize = std::int64_t{8} << 30;

std::int64_t parse_size(const std::string& text) {
  std::string digits = text;
  int shift = 0;
  const std::string suffixes = "KMG";
  if (!text.empty() && suffixes.find(text.back()) != std::string::npos) {
    shift = 10 * static_cast<int>(suffixes.find(text.back()) + 1);
    digits.pop_back();
  }
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc{} || stop != end || value < 1 || value > (kLargestSize >> shift)) {
    throw InputError("\"" + text + "\" is not a size from 1 to 8G (K, M and G are powers of 1024)");
  }
  return value << shift;
}

Straggler parse_straggler(const std::string& text) {
  const std::size_t colon = text.find(':');
  Straggler straggler;
  if (colon != std::string::npos) {
    straggler.rank = static_cast<int>(whole_number(text.substr(0, colon), 0, 1 << 20));
  }
  straggler.seconds = parse_seconds(colon == std::string::npos ? text : text.substr(colon + 1));
  return straggler;
}

bool parse_compute(const std::string& text) {
  if (text != "wait" && text != "real") {
    throw InputError("\"" + text + "\" is neither wait nor real");
  }
  return text == "real";
}

// A list of names; what names there are, the plan knows.
std::vector<std::string> parse_names(const std::string& text) {
  std::vector<std::string> names = split(text, ',');
  for (std::string& name : names) {
    if (name.empty()) {
      throw InputError("a name is missing in \"" + text + "\"");
    }
    name = name == "send_recv" ? "sendrecv" : name;
  }
  return names;
}

using OptionReader = std::function<void(Options&, const std::string&)>;

const std::map<std::string, OptionReader>& options_with_value() {
  static const std::map<std::string, OptionReader> kReaders{
      {"--collectives", [](Options& o, const std::string& v) { o.collectives = parse_names(v); }},
      {"--kernels", [](Options& o, const std::string& v) { o.kernels = parse_names(v); }},
      {"--sizes", [](Options& o, const std::string& v) { o.sizes = parse_sizes(v); }},
      {"--straggler", [](Options& o, const std::string& v) { o.straggler = parse_straggler(v); }},
      {"--train", [](Options& o, const std::string& v) { o.train = v; }},
      {"--iterations",
       [](Options& o, const std::string& v) {
         o.iterations = static_cast<int>(whole_number(v, 1, 1000000));
       }},
      {"--compute", [](Options& o, const std::string& v) { o.real_compute = parse_compute(v); }},
      {"--repeats",
       [](Options& o, const std::string& v) { o.repeats = static_cast<int>(whole_number(v, 5, 1000000)); }},
      {"--budget", [](Options& o, const std::string& v) { o.budget_s = positive_number(v); }},
      {"--timeout", [](Options& o, const std::string& v) { o.timeout_s = positive_number(v); }},
      {"--out", [](Options& o, const std::string& v) { o.out = v; }},
      {"--fault", [](Options& o, const std::string& v) { o.fault = parse_fault(v); }},
  };
  return kReaders;
}

const std::map<std::string, bool Options::*>& options_without_value() {
  static const std::map<std::string, bool Options::*> kFlags{
      {"--overlap", &Options::overlap}, {"--quiet", &Options::quiet}, {"--help", &Options::help}};
  return kFlags;
}

[[noreturn]] void reject(const std::string& argument) {
  std::vector<std::string> known;
  for (const auto& [name, reader] : options_with_value()) {
    known.push_back(name);
  }
  for (const auto& [name, flag] : options_without_value()) {
    known.push_back(name);
  }
  std::erase(known, "--fault");
  throw InputError(unknown_name("option", argument, std::span(known)));
}

}  // namespace

double parse_seconds(const std::string& text) {
  for (const auto& [suffix, unit] : {std::pair("us", 1e-6), std::pair("ms", 1e-3), std::pair("s", 1.0)}) {
    if (text.ends_with(suffix)) {
      return positive_number(text.substr(0, text.size() - std::string(suffix).size())) * unit;
    }
  }
  throw InputError("\"" + text + "\" is not a time such as 500us, 20ms or 1.5s");
}

std::vector<std::int64_t> parse_sizes(const std::string& text) {
  std::vector<std::int64_t> sizes;
  const std::vector<std::string> range = split(text, ':');
  if (range.size() == 1) {
    for (const std::string& size : split(text, ',')) {
      sizes.push_back(parse_size(size));
    }
    return sizes;
  }
  if (range.size() != 3 || !range[2].starts_with('x')) {
    throw InputError("\"" + text + "\" is neither a list (4K,1M) nor a range (1K:64M:x4)");
  }
  const std::int64_t from = parse_size(range[0]), to = parse_size(range[1]);
  const std::int64_t factor = whole_number(range[2].substr(1), 2, 1024);
  if (from > to) {
    throw InputError("the range \"" + text + "\" is empty: it ends below its start");
  }
  for (std::int64_t size = from; size <= to; size *= factor) {
    sizes.push_back(size);
  }
  return sizes;
}

Options parse_options(std::span<const std::string> arguments) {
  Options options;
  options.sizes = parse_sizes("1K:64M:x4");
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i];
    std::optional<std::string> value;
    if (const std::size_t equals = name.find('='); name.starts_with("--") && equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (const auto flag = options_without_value().find(name);
        flag != options_without_value().end() && !value) {
      options.*flag->second = true;
      continue;
    }
    const auto reader = options_with_value().find(name);
    if (reader == options_with_value().end()) {
      reject(arguments[i]);
    }
    if (!value) {
      if (++i == arguments.size()) {
        throw InputError("needs a value", name);
      }
      value = arguments[i];
    }
    try {
      reader->second(options, *value);
    } catch (const InputError& error) {
      throw error.at(name);
    }
  }
  return options;
}

}  // namespace paceline::measure
