#include "app/trace.h"

#include "calibrate/import/trace_files.h"
#include "core/error.h"

namespace paceline {

void TraceOptions::add_to(CLI::App* command) {
  command->add_option(
      "--trace", path,
      "Write a timeline: PATH.json or PATH.json.gz is one file for https://ui.perfetto.dev; any other "
      "PATH is a folder with rank_N.json.gz for PyTorch's tools, whose rank_*.json.gz are replaced");
  command->add_option(
      "--trace-ranks", choice.ranks,
      "GPUs in the timeline, such as 0,37,100-107; left out: the first " + std::to_string(kFirstTracedRanks) +
          " and those that made others wait most, at most " + std::to_string(kMostTracedRanks));
  command->add_option("--trace-steps", choice.steps,
                      "Steps in the timeline, such as 1-3; 0 is the warm-up; left out: 0-" +
                          std::to_string(kTracedIterations - 1));
}

void check_trace(const TraceOptions& options) {
  if (options.path == "-") {
    throw InputError("expected PATH.json, PATH.json.gz or a folder, found \"-\"", "--trace");
  }
  if (options.path) {
    check_trace_place(*options.path);
  } else if (options.choice.ranks || options.choice.steps) {
    throw InputError("expected --trace PATH as well",
                     options.choice.ranks ? "--trace-ranks" : "--trace-steps");
  }
}

}  // namespace paceline
