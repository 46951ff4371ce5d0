// Numbers in columns, for who draws them: little-endian, as numpy names their type ("<f4").
#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace paceline {

static_assert(std::endian::native == std::endian::little);

struct Column {
  std::string name, type, bytes;
};

template <class T>
Column column(std::string name, const std::vector<T>& values) {
  std::string type = std::is_floating_point_v<T> ? "<f" : std::is_signed_v<T> ? "<i" : "<u";
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {std::move(name), type + std::to_string(sizeof(T)), std::move(bytes)};
}

}  // namespace paceline
