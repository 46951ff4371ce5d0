// What several commands do with their options.
#pragma once

#include <string>

#include "scenarios/profile.h"

namespace paceline {

// A number of threads; empty: as many as the machine has cores.
int thread_count(const std::string& text, const char* option);

// To the standard error: "paceline: " and a line.
void remark(const std::string& text);
// A profile's file; what is to be remarked on it is told.
Profile profile_in(const std::string& path);

// To the standard output, at once, without characters that a terminal takes for commands. Throws InputError
// when it, or what was printed before, can't be written.
void print(const std::string& text);

}  // namespace paceline
