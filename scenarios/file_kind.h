// What a JSON file is, so that one given to the wrong command is told so.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "scenarios/json.h"

namespace paceline {

enum class FileKind : std::uint8_t {
  scenario,
  result,
  study,
  profile,
  validation_set,
  cluster,
  model,
  trace,
  measurements,
  unknown,
};

// By its keys; a file with mistakes keeps its kind.
FileKind kind_of(const Json&);

// Throws InputError that says what takes such a file, unless the first of `wanted`, another of them, or no known
// kind at all is found.
void require_kind(const Json&, std::initializer_list<FileKind> wanted);

}  // namespace paceline
