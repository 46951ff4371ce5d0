#include "core/minor_version.h"

#include <algorithm>

#include "core/text.h"

namespace paceline {
namespace {

// A whole number that is all of `text`.
std::optional<int> number(std::string_view text) {
  constexpr unsigned kMost = 1'000'000;
  const std::optional<unsigned> value = number_in<unsigned>(text);
  return value && *value <= kMost ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

}  // namespace

std::optional<int> minor_version(std::string_view text, int major) {
  const std::size_t dot = text.find('.'), second = text.find('.', dot + 1);
  if (dot == text.npos || number(text.substr(0, dot)) != major ||
      (second != text.npos && !number(text.substr(second + 1)))) {
    return std::nullopt;
  }
  return number(text.substr(dot + 1, second - dot - 1));
}

int leading_minor(std::string_view text) {
  const std::string_view behind = text.substr(std::min(text.find('.'), text.size() - 1) + 1);
  return number(behind.substr(0, behind.find_first_not_of("0123456789"))).value_or(0);
}

}  // namespace paceline
