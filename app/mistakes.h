// What is wrong with a command line, and the nearest right one.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

#include "core/error.h"

namespace paceline {

// `words` are those of the line, which `app` refused with `refusal`. The place of the error is the command.
InputError mistake_in(const CLI::App& app, std::span<const std::string> words,
                      const CLI::ParseError& refusal);

// The command that these words name ("calibrate", "fit"). Throws InputError with the nearest one.
const CLI::App& command_named(const CLI::App& app, std::span<const std::string> words);

}  // namespace paceline
