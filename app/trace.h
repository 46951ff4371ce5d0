// `paceline run --trace`: which ranks and steps, and where to.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "scenarios/trace.h"

namespace paceline {

struct TraceOptions {
  std::optional<std::string> path;
  TraceChoice choice;

  void add_to(CLI::App*);
};

// Before the simulation. Throws InputError where nothing can be written, or the options don't fit each other.
void check_trace(const TraceOptions&);

}  // namespace paceline
