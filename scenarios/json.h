// A JSON document as a value: the scenarios room's own, so that one file alone (json.cpp) includes a JSON library.
//
// Objects keep the order of their keys. Limits that every document must keep: nesting of kDeepest, kMostValues values,
// no key twice in an object, UTF-8, no byte order mark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace paceline {

struct JsonMember;

struct Json {
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;
  // Whole numbers that fit are int64, larger ones uint64, all others double (always finite).
  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value;

  Json() : value(nullptr) {}
  template <class T>
    requires(!std::is_same_v<std::remove_cvref_t<T>, Json>)
  Json(T&& v) : value(std::forward<T>(v)) {}  // NOLINT(google-explicit-constructor): a value is its JSON
  Json(const char* text) : value(std::string(text)) {}
  Json(std::string_view text) : value(std::string(text)) {}
  Json(int v) : value(std::int64_t{v}) {}

  template <class T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
  const Json* find(std::string_view key) const;  // of an object; nullptr where there is none
};

struct JsonMember {
  std::string key;
  Json value;
};

inline constexpr std::size_t kDeepest = 64;
inline constexpr std::size_t kMostValues = 5'000'000;

// Throws InputError with "line L, column C" or a JSON pointer as its place.
Json parse_json(const std::string& text);

// Indented by two spaces; what fits on a line stands on one. Numbers are the shortest that read back as the same.
std::string to_text(const Json&);
std::string number_text(double);

// As a message shows it: short, one line.
std::string shown(const Json&);
std::string shown(std::string_view text);

// "/a/b" + "c" as a JSON pointer (RFC 6901), with a long key cut and control characters replaced.
std::string pointer(std::string_view place, std::string_view key);
std::string pointer(std::string_view place, std::size_t index);

}  // namespace paceline
