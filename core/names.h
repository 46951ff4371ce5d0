// The names of an enum: a table beside it, in its header, that the compiler holds against the enumerators.
//
//   enum class Placement : std::uint8_t { packed, striped };
//   template <>
//   inline constexpr auto kNames<Placement> =
//       names<Placement>({{"packed", Placement::packed}, {"striped", Placement::striped}});
//
// kNames is what files, commands and results call it. Other words for it, a table's or another library's, are
// tables of the same kind under a name of their own: kHeadings[figure].
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/unknown_name.h"

namespace paceline {

template <class E>
struct Named {
  std::string_view name;  // a literal: data() ends with a zero
  E value;
};

// Only how a compiler writes a value tells whether it has an enumerator: "value = Placement::striped", or
// "value = (Placement)2".
template <auto value>
consteval bool is_enumerator() {
  constexpr std::string_view kValue = "value = ";
  const std::string_view signature = __PRETTY_FUNCTION__;
  return signature[signature.find(kValue) + kValue.size()] != '(';
}

// Of enumerators without gaps, from 0 or 1 on.
template <class E>
consteval std::size_t first_enumerator() {
  return is_enumerator<E{}>() ? 0 : 1;
}
template <class E, std::size_t i = first_enumerator<E>()>
consteval std::size_t end_of_enumerators() {
  if constexpr (is_enumerator<static_cast<E>(i)>()) {
    return end_of_enumerators<E, i + 1>();
  } else {
    return i;
  }
}

template <class E, std::size_t count>
class EnumNames {
 public:
  static_assert(count == end_of_enumerators<E>() - first_enumerator<E>(), "one name for each enumerator");

  explicit constexpr EnumNames(const std::array<Named<E>, count>& rows) : rows_(rows) {}

  // Throws std::out_of_range for what is no enumerator.
  constexpr std::string_view operator[](E value) const {
    return rows_.at(static_cast<std::size_t>(value) - first_enumerator<E>()).name;
  }
  constexpr auto begin() const { return rows_.begin(); }
  constexpr auto end() const { return rows_.end(); }
  static constexpr std::size_t size() { return count; }

 private:
  std::array<Named<E>, count> rows_;
};

// Rows stand in the order of the enumerators; no name is empty.
template <class E, std::size_t count>
consteval EnumNames<E, count> names(const Named<E> (&rows)[count]) {
  std::array<Named<E>, count> all{};
  for (std::size_t i = 0; i < count; ++i) {
    if (static_cast<std::size_t>(rows[i].value) != i + first_enumerator<E>() || rows[i].name.empty()) {
      throw "a row out of order, or without a name";
    }
    all[i] = rows[i];
  }
  return EnumNames<E, count>(all);
}

struct NoNames {};
template <class E>
inline constexpr NoNames kNames;

template <class E>
  requires(std::is_enum_v<E>)
constexpr std::string_view name_of(E value) {
  return kNames<E>[value];
}

template <class E>
constexpr std::optional<E> find_named(std::string_view name) {
  for (const Named<E>& each : kNames<E>) {
    if (each.name == name) {
      return each.value;
    }
  }
  return std::nullopt;
}

template <class E>
std::vector<std::string> all_names() {
  std::vector<std::string> all;
  for (const Named<E>& each : kNames<E>) {
    all.emplace_back(each.name);
  }
  return all;
}

// Throws InputError: `unknown engine "evnt"; did you mean "event"? ...`.
template <class E>
E value_named(std::string_view what, std::string_view name, std::string place = {}) {
  if (const std::optional<E> found = find_named<E>(name)) {
    return *found;
  }
  throw InputError(unknown_name(what, name, all_names<E>()), std::move(place));
}

}  // namespace paceline
