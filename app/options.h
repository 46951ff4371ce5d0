// What several commands do with their options.
#pragma once

#include <string>

namespace paceline {

// A number of threads; empty: as many as the machine has cores.
int thread_count(const std::string& text, const char* option);

// To the standard output, at once, without characters that a terminal takes for commands. Throws InputError
// when it, or what was printed before, can't be written.
void print(const std::string& text);

}  // namespace paceline
