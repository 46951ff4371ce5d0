// One reader for each format. Each reads the rest of the file into `findings`; import.cpp chooses among them.
#pragma once

#include "calibrate/import/findings.h"
#include "calibrate/import/input.h"

namespace paceline {

// Throws InputError where kMostWithoutARow bytes hold nothing that nccl-tests or NCCL writes.
void read_nccl_text(InputFile&, Findings&);
void read_csv(InputFile&, Findings&);
// nccl-tests -J; a trace of the PyTorch profiler. Which of them it is says `format_of`.
void read_nccl_json(InputFile&, Findings&);
void read_trace(InputFile&, Findings&);

// Whether the text begins as a table that read_csv knows.
bool is_csv(std::string_view beginning);

inline constexpr std::uint64_t kMostWithoutARow = 16u << 20;

}  // namespace paceline
