// The command line as a value. Pure: no output, no exit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/measure/fault.h"

namespace paceline::measure {

struct Straggler {
  int rank = -1;  // -1: the last
  double seconds = 0;
};

struct Options {
  // Names, or "all" or "none"; empty: all where there are several ranks (collectives), all (kernels), none
  // of both with --train.
  std::vector<std::string> collectives, kernels;
  std::vector<std::int64_t> sizes;  // bytes
  std::optional<Straggler> straggler;
  bool overlap = false;
  int repeats = 100;      // at most
  double budget_s = 1;    // per row, at most, once the least repeats are done
  double timeout_s = 60;  // without progress: a rank hangs
  std::string out = "measured.csv";
  std::string train;  // STEPS.csv; empty: none
  int iterations = 20;
  bool real_compute = false;
  std::optional<Fault> fault;
  bool quiet = false;
  bool help = false;
};

// Throws InputError naming the option, and the nearest known one for a name that is not known.
Options parse_options(std::span<const std::string> arguments);

// "1K:64M:x4" (all powers from 1 KiB to 64 MiB, last included only when met), or "4,1K,2M". K, M, G are
// powers of 1024.
std::vector<std::int64_t> parse_sizes(const std::string&);
double parse_seconds(const std::string&);  // "500us", "20ms", "1.5s"

}  // namespace paceline::measure
