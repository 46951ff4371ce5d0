// What a user asks for beside the scenario, as text: on the command line, and from Python.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/error.h"
#include "sim/training.h"

namespace paceline {

// Throws InputError that names the option.
std::uint64_t whole_number(const std::string& text, std::uint64_t least, std::uint64_t most,
                           const char* option);

// Instead of the scenario's.
struct RunOverrides {
  std::optional<std::string> engine, seed, iterations;
};

// Throws InputError that names --engine, --seed or --iterations.
void apply(const RunOverrides&, RunSpec&);

// What `check` throws without a file or place is about this option.
template <class Check>
void naming_option(const char* option, const Check& check) {
  try {
    check();
  } catch (const InputError& error) {
    throw error.file().empty() && error.place().empty() ? error.at(option) : error;
  }
}

}  // namespace paceline
