// A JSON document as a value: the scenarios room's own, so that one file alone (json.cpp) includes a JSON
// library.
//
// Objects keep the order of their keys. Limits that every document must keep: nesting of kDeepest,
// kMostValues values, no key twice in an object, UTF-8 (a byte order mark before it is ignored).
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
  // Whole numbers that fit are int64 (1.0 too), larger ones uint64, all others double (always finite).
  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value;

  Json();
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();
  // A value is its JSON.
  Json(bool);
  Json(int);
  Json(std::int64_t);
  Json(std::uint64_t);
  Json(double);
  Json(const char*);
  Json(std::string);
  Json(std::string_view);
  Json(Array);
  Json(Object);

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

inline Json::Json() = default;
// Assigned, not constructed: where memory runs out half way, libstdc++ 12 destroys the variant as if it had a
// value.
inline Json::Json(const Json& other) { value = other.value; }
inline Json::Json(Json&&) noexcept = default;
inline Json& Json::operator=(const Json&) = default;
inline Json& Json::operator=(Json&&) noexcept = default;
inline Json::~Json() = default;
inline Json::Json(bool v) : value(v) {}
inline Json::Json(int v) : value(std::int64_t{v}) {}
inline Json::Json(std::int64_t v) : value(v) {}
inline Json::Json(std::uint64_t v) : value(v) {}
inline Json::Json(double v) : value(v) {}
inline Json::Json(const char* v) : value(std::string(v)) {}
inline Json::Json(std::string v) : value(std::move(v)) {}
inline Json::Json(std::string_view v) : value(std::string(v)) {}
inline Json::Json(Array v) : value(std::move(v)) {}
inline Json::Json(Object v) : value(std::move(v)) {}

inline constexpr std::size_t kDeepest = 64;
inline constexpr std::size_t kMostValues = 5'000'000;

// Throws InputError with "line L, column C" or a JSON pointer as its place.
Json parse_json(const std::string& text);

// Indented by two spaces; what fits on a line stands on one. Numbers are the shortest that read back as the
// same.
std::string to_text(const Json&);
std::string to_line(const Json&);  // all on one line, without a line's end
std::string number_text(double);

// As a message shows it: short, one line.
std::string shown(const Json&);
std::string in_quotes(std::string_view text);
std::string in_short(std::string_view text);  // without quotes, at most 60 bytes

// "/a/b" + "c" as a JSON pointer (RFC 6901), with a long key cut and control characters replaced.
std::string pointer(std::string_view place, std::string_view key);
std::string pointer(std::string_view place, std::size_t index);

}  // namespace paceline
