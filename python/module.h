// The extension module paceline._core: text in, text out. Its functions are the command line's, without files
// where a text will do; each is called without the interpreter's lock.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>

#include "scenarios/profile.h"
#include "scenarios/scenario.h"

namespace paceline::python {

// One topic each.
void add_run(nanobind::module_&);
void add_collective(nanobind::module_&);
void add_calibrate(nanobind::module_&);
void add_studies(nanobind::module_&);

// A profile as text; `file_name` is for messages.
Profile profile_of(const std::string& text, const std::string& file_name);

// What the command line takes instead of the scenario's, as it takes it.
struct RunOverrides {
  std::optional<std::string> engine, seed, iterations;
};
void apply(const RunOverrides&, RunSpec&);

// A whole number, as the command line reads it; throws InputError with `option` as place.
std::uint64_t whole_number(const std::string& text, std::uint64_t least, std::uint64_t most,
                           const char* option);

}  // namespace paceline::python
