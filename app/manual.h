// The manual page, made of what the command line knows: what --help says of every command, for man(1).
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace paceline {

std::string manual_page(const CLI::App& app);

}  // namespace paceline
