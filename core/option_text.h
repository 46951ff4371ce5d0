// What a user types beside a file, as text: on the command line, and from Python.
#pragma once

#include <cstdint>
#include <string>

#include "core/error.h"

namespace paceline {

// Throws InputError that names the option.
std::uint64_t whole_number(const std::string& text, std::uint64_t least, std::uint64_t most,
                           const char* option);

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
