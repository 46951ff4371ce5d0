// Numbers and letters as text, the same under every locale: a program that runs Python may have any.
#pragma once

#include <locale.h>

#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace paceline {

// This thread's locale is C's while it lives: for what asks the locale how a number is written.
class PlainLocale {
 public:
  PlainLocale();
  PlainLocale(const PlainLocale&) = delete;
  PlainLocale& operator=(const PlainLocale&) = delete;
  ~PlainLocale();

 private:
  locale_t before_;
};

// As printf writes it under the locale C.
std::string formatted(const char* format, ...) __attribute__((format(printf, 1, 2)));

// What is all of the text, as from_chars reads it: without a plus or spaces; "inf" and "nan" are doubles.
template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

// The parts in a row: "a, b or c" with ", " between them and " or " before the last.
std::string joined(std::span<const std::string> parts, std::string_view between);
std::string joined(std::span<const std::string> parts, std::string_view between,
                   std::string_view before_last);

// ASCII alone.
constexpr char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
constexpr char to_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
constexpr bool is_letter(char c) { return to_lower(c) >= 'a' && to_lower(c) <= 'z'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
std::string in_capitals(std::string_view);
std::string in_lower_case(std::string_view);

// A character that a terminal takes for a command: a control character, or one that turns the direction of
// writing. bytes 0: what stands at this byte of the UTF-8 text is none.
struct Command {
  std::size_t bytes = 0;
  unsigned code = 0;
};
Command command_at(const std::string& text, std::size_t at);
// With '?' in place of each but tabs and the ends of lines.
std::string printable(const std::string& text);

}  // namespace paceline
