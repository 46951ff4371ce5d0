// `paceline run --trace`: which ranks and steps, and where to.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/files.h"
#include "scenarios/predict.h"

namespace paceline {

struct TraceOptions {
  std::optional<std::string> path, ranks, steps;

  void add_to(CLI::App*);
};

// Before the simulation. Throws InputError where nothing can be written, or the options don't fit each other.
void check_trace(const TraceOptions&);

// Records what the options ask for into the prediction. Throws InputError for ranks or steps that the run
// lacks.
void record_trace(const TraceOptions&, Prediction&);

// One file, or a folder's; the folder is made. Requires: record_trace.
std::vector<OutputFile> trace_files(const TraceOptions&, const Prediction&);

// Once they are written: a folder holds traces of one run only.
void remove_older_traces(const TraceOptions&, const std::vector<OutputFile>& written);

}  // namespace paceline
