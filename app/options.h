// What several commands do with their options.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/profile.h"

namespace paceline {

// Exit statuses.
inline constexpr int kOurFault = 1, kToleranceBroken = 1, kInputFault = 2;

// A number of threads; empty: as many as the machine has cores.
int thread_count(const std::string& text, const char* option);

// To the standard error: "paceline: " and a line.
void remark(const std::string& text);
// A profile's file; what is to be remarked on it is told.
Profile profile_in(const std::string& path, bool any_machine = false);

// To the standard output, at once, without characters that a terminal takes for commands. What is written there
// may end early (`| head`): files are written all the same, so a failure is told at the end, unless the reader
// left by himself.
void print(const std::string& text);
bool can_print();
// Throws InputError where something of what was printed was lost.
void require_printed();
// A broken pipe is an error of a write, not the end of the program; but so it is for programs that we start.
void ignore_broken_pipes();
void heed_broken_pipes();

// Where this program lies, and where its examples do: "scenarios" of the current folder, or what was installed.
std::filesystem::path program_folder();
std::string examples_folder();
// The measuring program: beside this one, as built or as installed. With a GPU the one for NCCL. Throws
// InputError where there is none.
std::string measuring_program();

// "KEY=VALUE" of training.collective, as JSON; none: empty. Throws InputError that names --set.
std::string collective_settings(const std::vector<std::string>& settings);

// "-" is the standard input or output.
inline constexpr const char* kStandard = "-";
struct GivenFile {
  std::string name, text;
};
GivenFile read_given(const std::string& path);  // Throws InputError; it names the example that may be meant
std::string path_to_read(const std::string& path);  // for readers that open files themselves
// Throws InputError where it can't be written.
void require_place(const std::string& path);
void write_given(const std::string& path, const std::string& content);

}  // namespace paceline
