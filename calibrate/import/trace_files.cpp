#include "calibrate/import/trace_files.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <utility>

#include "calibrate/import/gzip.h"
#include "core/error.h"
#include "scenarios/trace.h"

namespace paceline {
namespace {

bool is_file(const std::string& path) { return path.ends_with(".json") || path.ends_with(".json.gz"); }

bool is_trace_of_rank(const std::filesystem::path& file) {
  static const std::regex kNameOfRank(R"(rank_[0-9]+\.json\.gz)");
  return std::regex_match(file.filename().string(), kNameOfRank);
}

bool is_json(const std::filesystem::path& file) {
  return file.extension() == ".json" || file.extension() == ".gz";
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

void check_trace_place(const std::string& path) {
  if (is_file(path)) {
    require_writable(path);
  } else {
    require_folder(path);
  }
}

std::vector<OutputFile> trace_files(const std::string& path, const Prediction& prediction) {
  if (is_file(path)) {
    std::string text = trace_json(prediction);
    return {{path, path.ends_with(".gz") ? gzip(text) : std::move(text)}};
  }
  const std::filesystem::path folder(path);
  std::error_code error;
  std::filesystem::create_directory(folder.has_filename() ? folder : folder.parent_path(), error);
  if (error) {
    throw InputError("can't be made: " + error.message(), {}, path);
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

void remove_older_traces(const std::string& path, const std::vector<OutputFile>& written) {
  if (is_file(path)) {
    return;
  }
  std::vector<std::filesystem::path> older;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
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
