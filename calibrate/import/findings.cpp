#include "calibrate/import/findings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/text.h"
#include "scenarios/json.h"

namespace paceline {

void Findings::remark(std::string kind, std::int64_t line, std::string text) {
  Alike& alike = alike_[std::move(kind)];
  alike.last_line = line;
  if (++alike.count <= kMostAlike) {
    data_.remarks.push_back({std::move(text), at(line)});
  }
}

bool Findings::row() {
  if (rows_ == kMostRows) {
    remark("too many rows", 0,
           "more than " + std::to_string(kMostRows) + " rows; what follows them was not read");
    return false;
  }
  ++rows_;
  return true;
}

void Findings::end() {
  for (const auto& [kind, alike] : alike_) {
    if (alike.count > kMostAlike) {
      data_.remarks.push_back(
          {std::to_string(alike.count - kMostAlike) + " more " + kind, at(alike.last_line)});
    }
  }
  alike_.clear();
}

bool read_number(std::string_view text, double& value) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  const std::optional<double> number = number_in<double>(text);
  value = number.value_or(value);
  return number && std::isfinite(*number);
}

bool read_number(const Json* json, double& value) {
  if (json == nullptr) {
    return false;
  }
  if (const auto* whole = json->as<std::int64_t>()) {
    value = static_cast<double>(*whole);
    return true;
  }
  if (const auto* real = json->as<double>()) {
    value = *real;
    return true;
  }
  const auto* text = json->as<std::string>();
  return text != nullptr && read_number(*text, value);
}

bool read_whole(std::string_view text, std::int64_t& value) {
  const std::optional<std::int64_t> number = number_in<std::int64_t>(text);
  value = number.value_or(value);
  return number.has_value();
}

bool read_microseconds(std::string_view text, Seconds& value) {
  const std::size_t exponent_at = text.find_first_of("eE");
  std::int64_t exponent = 0;
  if (exponent_at != std::string_view::npos) {
    std::string_view digits = text.substr(exponent_at + 1);
    if (digits.starts_with('+')) {
      digits.remove_prefix(1);
    }
    if (!read_whole(digits, exponent) || std::abs(exponent) > 1000) {
      return false;
    }
  }
  return read_number(std::string(text.substr(0, exponent_at)) + 'e' + std::to_string(exponent - 6),
                     value.value);
}

std::string microseconds_text(Seconds time) {
  std::array<char, 32> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), time.value, std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  const std::size_t e = text.find('e');
  std::string digits;
  std::ranges::copy_if(text.substr(0, e), std::back_inserter(digits), [](char c) { return c != '.'; });
  std::int64_t exponent = 0;
  const std::size_t plus = text.substr(e + 1).starts_with('+') ? 1 : 0;
  read_whole(text.substr(e + 1 + plus), exponent);
  const std::int64_t before_point = exponent + 6 + 1;  // how many digits stand before the point
  const auto count = static_cast<std::int64_t>(digits.size());
  if (time.value < 0 || before_point < -3 || before_point > 18) {
    return std::string(text.substr(0, e)) + 'e' + std::to_string(exponent + 6);
  }
  if (before_point <= 0) {
    return "0." + std::string(static_cast<std::size_t>(-before_point), '0') + digits;
  }
  if (before_point >= count) {
    return digits + std::string(static_cast<std::size_t>(before_point - count), '0');
  }
  return digits.insert(static_cast<std::size_t>(before_point), ".");
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(kBlank);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string nccl_version_in(std::string_view text) {
  std::string version;
  for (std::size_t at = 0; at < text.size();) {
    if (!is_digit(text[at])) {
      ++at;
      continue;
    }
    const std::size_t start = at;
    while (at < text.size() && (is_digit(text[at]) || text[at] == '.')) {
      ++at;
    }
    const std::string_view number = text.substr(start, at - start);
    const std::size_t dot = number.find('.');
    const std::string found(number.substr(0, number.find('.', dot + 1)));
    const bool is_version = dot != std::string_view::npos && dot + 1 < found.size() && found.size() <= 6;
    if (!is_version) {
      continue;
    }
    if (!version.empty() && version != found) {
      return {};
    }
    version = found;
    if (at < text.size() && text[at] == '+') {  // what follows is CUDA's
      break;
    }
  }
  return version;
}

std::string nccl_version_of_code(std::int64_t code) {
  const bool new_code = code >= 10'000;
  const std::int64_t major = code / (new_code ? 10'000 : 1000);
  const std::int64_t minor = code % (new_code ? 10'000 : 1000) / 100;
  return major >= 1 && major < 100 ? std::to_string(major) + '.' + std::to_string(minor) : std::string();
}

}  // namespace paceline
