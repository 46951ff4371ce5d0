#include "core/text.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <utility>

namespace paceline {
namespace {

// Control characters; the Arabic letter mark, marks, separators, embeddings and isolates of direction.
constexpr std::pair<unsigned, unsigned> kCommands[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0x61c, 0x61c},
                                                       {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};

}  // namespace

Command command_at(const std::string& text, std::size_t at) {
  if (text[at] >= 0x20 && text[at] < 0x7f) {
    return {};
  }
  // A text ends with a zero byte, so a character that is cut off is none of these.
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(text[at + i]));
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  Command command;
  if (byte(0) < 0x80) {
    command = {1, byte(0)};
  } else if ((byte(0) & 0xe0) == 0xc0 && follows(1)) {
    command = {2, (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f)};
  } else if ((byte(0) & 0xf0) == 0xe0 && follows(1) && follows(2)) {
    command = {3, (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f)};
  }
  const bool found = command.bytes > 0 && std::ranges::any_of(kCommands, [&](const auto& range) {
                       return range.first <= command.code && command.code <= range.second;
                     });
  return found ? command : Command{};
}

PlainLocale::PlainLocale() {
  static const locale_t kPlain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  before_ = ::uselocale(kPlain);
}

PlainLocale::~PlainLocale() { ::uselocale(before_); }

std::string joined(std::span<const std::string> parts, std::string_view between) {
  return joined(parts, between, between);
}

std::string joined(std::span<const std::string> parts, std::string_view between,
                   std::string_view before_last) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += i == 0 ? "" : i + 1 == parts.size() ? before_last : between;
    text += parts[i];
  }
  return text;
}

std::string in_capitals(std::string_view text) {
  std::string capitals(text);
  std::ranges::transform(capitals, capitals.begin(), to_upper);
  return capitals;
}

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), to_lower);
  return lower;
}

std::string formatted(const char* format, ...) {
  const PlainLocale plain;
  std::array<char, 512> buffer{};
  va_list values;
  va_start(values, format);
  const int length = std::vsnprintf(buffer.data(), buffer.size(), format, values);
  va_end(values);
  if (length < static_cast<int>(buffer.size())) {
    return buffer.data();
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  va_start(values, format);
  std::vsnprintf(text.data(), text.size() + 1, format, values);
  va_end(values);
  return text;
}

std::string printable(const std::string& text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Command command = command_at(text, i);
    const bool kept = command.bytes == 0 || text[i] == '\n' || text[i] == '\t';
    shown += kept ? text[i] : '?';
    i += std::max<std::size_t>(command.bytes, 1);
  }
  return shown;
}

}  // namespace paceline
