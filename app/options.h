// What several commands do with their options.
#pragma once

#include <cstdint>
#include <string>

namespace paceline {

// Throws InputError that names the option: CLI11 would take -1 for 2^64 - 1.
std::uint64_t whole_number(const std::string& text, std::uint64_t least, std::uint64_t most,
                           const char* option);

// A number of threads; empty: as many as the machine has cores.
int thread_count(const std::string& text, const char* option);

// To the standard output, at once. Throws InputError when it can't be written to.
void print(const std::string& text);

}  // namespace paceline
