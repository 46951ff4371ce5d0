#include "app/trace.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <regex>
#include <string_view>
#include <utility>

#include "calibrate/import/gzip.h"
#include "core/error.h"
#include "scenarios/trace.h"

namespace paceline {
namespace {

constexpr std::uint32_t kTracedIterations = 4;  // the warm-up and three steps

bool is_file(const std::string& path) { return path.ends_with(".json") || path.ends_with(".json.gz"); }

bool is_trace_of_rank(const std::filesystem::path& file) {
  static const std::regex kName(R"(rank_[0-9]+\.json\.gz)");
  return std::regex_match(file.filename().string(), kName);
}

bool is_json(const std::filesystem::path& file) {
  return file.extension() == ".json" || file.extension() == ".gz";
}

struct Range {
  std::uint32_t first = 0, last = 0;
};

// "100-107" or "37".
Range range_of(std::string_view text, std::uint32_t most, const char* option, const std::string& what) {
  Range range;
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, range.first);
  range.last = range.first;
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') {
    read = std::from_chars(read.ptr + 1, end, range.last);
  }
  if (read.ec != std::errc() || read.ptr != end || range.last < range.first) {
    throw InputError("expected " + what + ", found \"" + std::string(text) + '"', option);
  }
  if (range.last > most) {
    throw InputError(
        "expected numbers up to " + std::to_string(most) + ", found " + std::to_string(range.last), option);
  }
  return range;
}

std::vector<Rank> ranks_of(std::string_view text, std::uint32_t most) {
  std::vector<Rank> ranks;
  for (;;) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const Range range = range_of(text.substr(0, comma), most, "--trace-ranks", "ranks such as 0,37,100-107");
    for (std::uint32_t r = range.first; r <= range.last; ++r) {
      ranks.emplace_back(r);
    }
    if (comma == text.size()) {
      break;
    }
    text.remove_prefix(comma + 1);
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

void require_folder(const std::string& path) {
  const std::filesystem::path folder(path);
  if (!std::filesystem::exists(folder)) {
    require_writable((folder.has_filename() ? folder : folder.parent_path()).string());
    return;
  }
  if (!std::filesystem::is_directory(folder)) {
    throw InputError("expected a name that ends in .json or .json.gz, or a folder; found another file",
                     "--trace", path);
  }
  require_writable((folder / "rank_0.json.gz").string());
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (is_json(entry.path()) && !is_trace_of_rank(entry.path())) {
      throw InputError(
          "expected a folder without other traces, as tools read all of its .json and .gz files; found " +
              entry.path().filename().string() + "; name another folder",
          "--trace", path);
    }
  }
}

}  // namespace

void TraceOptions::add_to(CLI::App* command) {
  command->add_option(
      "--trace", path,
      "Write a timeline: PATH.json or PATH.json.gz is one file for https://ui.perfetto.dev; any other "
      "PATH is a folder with rank_N.json.gz for PyTorch's tools, whose rank_*.json.gz are replaced");
  command->add_option(
      "--trace-ranks", ranks,
      "GPUs in the timeline, such as 0,37,100-107; left out: the first " + std::to_string(kFirstTracedRanks) +
          " and those that made others wait most, at most " + std::to_string(kMostTracedRanks));
  command->add_option("--trace-steps", steps,
                      "Steps in the timeline, such as 1-3; 0 is the warm-up; left out: 0-" +
                          std::to_string(kTracedIterations - 1));
}

void check_trace(const TraceOptions& options) {
  if (!options.path) {
    if (options.ranks || options.steps) {
      throw InputError("expected --trace PATH as well", options.ranks ? "--trace-ranks" : "--trace-steps");
    }
    return;
  }
  if (is_file(*options.path)) {
    require_writable(*options.path);
  } else {
    require_folder(*options.path);
  }
}

void record_trace(const TraceOptions& options, Prediction& prediction) {
  if (!options.path) {
    return;
  }
  const auto last = static_cast<std::uint32_t>(prediction.scenario.run.iterations);
  Range steps{0, std::min(kTracedIterations - 1, last)};
  if (options.steps) {
    steps = range_of(*options.steps, last, "--trace-steps", "steps such as 1-3");
  }
  std::vector<Rank> ranks =
      options.ranks ? ranks_of(*options.ranks, static_cast<std::uint32_t>(prediction.job.ranks() - 1))
                    : ranks_worth_tracing(prediction.result);
  record_trace(prediction, {std::move(ranks), steps.first, steps.last - steps.first + 1});
}

std::vector<OutputFile> trace_files(const TraceOptions& options, const Prediction& prediction) {
  if (!options.path) {
    return {};
  }
  if (is_file(*options.path)) {
    std::string text = trace_json(prediction);
    return {{*options.path, options.path->ends_with(".gz") ? gzip(text) : std::move(text)}};
  }
  const std::filesystem::path folder(*options.path);
  std::error_code error;
  std::filesystem::create_directory(folder.has_filename() ? folder : folder.parent_path(), error);
  if (error) {
    throw InputError("can't be made: " + error.message(), {}, *options.path);
  }
  std::vector<Rank> ranks;
  for (const TracedIteration& traced : prediction.result.trace) {
    ranks.push_back(traced.rank);
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::vector<OutputFile> files;
  for (const Rank rank : ranks) {
    files.push_back({(folder / ("rank_" + std::to_string(rank.value) + ".json.gz")).string(),
                     gzip(trace_json(prediction, rank))});
  }
  return files;
}

void remove_older_traces(const TraceOptions& options, const std::vector<OutputFile>& written) {
  if (!options.path || is_file(*options.path)) {
    return;
  }
  std::vector<std::filesystem::path> older;
  for (const auto& entry : std::filesystem::directory_iterator(*options.path)) {
    const auto same = [&](const OutputFile& file) {
      return std::filesystem::path(file.path).filename() == entry.path().filename();
    };
    if (is_trace_of_rank(entry.path()) && std::ranges::none_of(written, same)) {
      older.push_back(entry.path());
    }
  }
  for (const std::filesystem::path& file : older) {
    std::error_code error;
    if (!std::filesystem::remove(file, error)) {
      throw InputError("can't remove an older trace: " + error.message(), {}, file.string());
    }
  }
}

}  // namespace paceline
