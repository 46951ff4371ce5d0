// Scripts that complete Paceline's commands, options and names in a shell, made of what the command line knows.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "core/names.h"

namespace paceline {

enum class Shell : std::uint8_t { bash, zsh, fish };
template <>
inline constexpr auto kNames<Shell> =
    names<Shell>({{"bash", Shell::bash}, {"zsh", Shell::zsh}, {"fish", Shell::fish}});

// For bash-completion's folder, for a file _paceline in zsh's fpath, or for fish's completions.
std::string completion_script(const CLI::App& app, Shell shell);

}  // namespace paceline
