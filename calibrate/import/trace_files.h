// Traces as files: what import reads of a profiler, written for a simulated run.
#pragma once

#include <string>
#include <vector>

#include "scenarios/files.h"
#include "scenarios/predict.h"

namespace paceline {

// A name that ends in .json or .json.gz is one file; any other is a folder with rank_N.json.gz, as tools made
// for PyTorch's traces want it. Throws InputError where nothing can be written, and for a folder that holds
// other traces.
void check_trace_place(const std::string& path);

// One file, or a folder's; the folder is made. Requires: record_trace.
std::vector<OutputFile> trace_files(const std::string& path, const Prediction&);

// Once they are written: a folder holds traces of one run only.
void remove_older_traces(const std::string& path, const std::vector<OutputFile>& written);

}  // namespace paceline
