// What several commands do with their options.
#pragma once

#include <string>

namespace paceline {

// A number of threads; empty: as many as the machine has cores.
int thread_count(const std::string& text, const char* option);

// To the standard output, at once. Throws InputError when it can't be written to.
void print(const std::string& text);

}  // namespace paceline
