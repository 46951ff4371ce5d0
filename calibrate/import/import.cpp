#include "calibrate/import/import.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "calibrate/import/readers.h"
#include "core/error.h"
#include "core/names.h"
#include "scenarios/file_kind.h"
#include "scenarios/files.h"
#include "scenarios/json.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

enum class Format : std::uint8_t { nccl_text, nccl_json, csv, trace };
constexpr auto kFormats = names<Format>({{"nccl-tests", Format::nccl_text},
                                         {"nccl-tests JSON", Format::nccl_json},
                                         {"CSV", Format::csv},
                                         {"Kineto trace", Format::trace}});

bool begins_as_json(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with('{') && !text.starts_with('[')) {
    return false;
  }
  // "[1,0]<stdout>:" and "[2026-01-01 ..." are prefixes of text.
  const std::string_view rest = trimmed(text.substr(1));
  return text[0] == '{' ? rest.starts_with('"') || rest.starts_with('}')
                        : rest.starts_with('{') || rest.starts_with(']');
}

Format format_of(const InputFile& file) {
  const std::string_view text = file.beginning();
  if (begins_as_json(text)) {
    const auto has = [&](std::string_view name) { return text.find(name) != std::string_view::npos; };
    const bool trace = has("\"traceEvents\"") || has("\"schemaVersion\"") || has("\"ph\"") ||
                       has("\"deviceProperties\"") || !(has("nccl_version") || has("\"results\""));
    return trace ? Format::trace : Format::nccl_json;
  }
  const bool named_csv = file.name().ends_with(".csv");
  return is_csv(text) || (named_csv && text.find("busbw") == std::string_view::npos) ? Format::csv
                                                                                     : Format::nccl_text;
}

std::size_t size_of(const MeasuredData& data) {
  return data.collectives.size() + data.kernels.size() + data.layers.size() + data.training.size() +
         data.steps.size() + data.buckets.size() + data.conditioned.size() + data.conditioned_kernels.size();
}

// Throws for a file that is Paceline's own and holds no measurement.
void refuse_own_file(const std::string& path) {
  Json json;
  try {
    json = parse_json(read_file(path));
  } catch (const InputError&) {  // what else it is, its reader says
    return;
  }
  try {
    require_kind(json, {FileKind::measurements, FileKind::trace});
  } catch (const InputError& error) {
    throw error.in_file(path);
  }
}

void import_into(MeasuredData& data, const std::string& path) {
  InputFile file(path);
  Findings findings(path, data);
  if (file.beginning().empty()) {
    throw InputError(file.trouble().empty() ? "is empty" : file.trouble(), {}, path);
  }
  const std::size_t before = size_of(data);
  const Format format = format_of(file);
  try {
    switch (format) {
      case Format::nccl_text:
        read_nccl_text(file, findings);
        break;
      case Format::nccl_json:
        read_nccl_json(file, findings);
        break;
      case Format::csv:
        read_csv(file, findings);
        break;
      case Format::trace:
        read_trace(file, findings);
        break;
    }
  } catch (const InputError& error) {
    refuse_own_file(path);
    throw error.in_file(path);
  }
  if (!file.trouble().empty()) {
    findings.remark("ends", 0, file.trouble() + ": read up to there");
  }
  findings.end();
  const std::size_t rows = size_of(data) - before;
  if (rows == 0) {
    refuse_own_file(path);
    std::string last;
    if (!data.remarks.empty() && data.remarks.back().origin.file == path) {
      const auto& [text, origin] = data.remarks.back();
      last = "; last remark" + (origin.line > 0 ? ", line " + std::to_string(origin.line) : "") + ": " + text;
    }
    throw InputError(
        "read as " + std::string(kFormats[format]) + ", but there is no measurement in it" + last, {}, path);
  }
  data.files.push_back({path, std::string(kFormats[format]), file.hash(), static_cast<std::int64_t>(rows)});
}

// Adds a file, or leaves `data` as it was.
void import_whole(MeasuredData& data, const std::string& path) {
  MeasuredData one;
  import_into(one, path);
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(data.collectives, one.collectives);
  append(data.kernels, one.kernels);
  append(data.layers, one.layers);
  append(data.training, one.training);
  append(data.steps, one.steps);
  append(data.buckets, one.buckets);
  append(data.conditioned, one.conditioned);
  append(data.conditioned_kernels, one.conditioned_kernels);
  append(data.remarks, one.remarks);
  append(data.files, one.files);
}

std::vector<std::string> files_of(const std::string& folder) {
  constexpr std::array<std::string_view, 6> kEndings{".txt", ".log", ".out", ".err", ".csv", ".json"};
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    const std::string_view unpacked =
        std::string_view(path).substr(0, path.size() - (path.ends_with(".gz") ? 3 : 0));
    std::error_code ignored;
    if (at->is_regular_file(ignored) &&
        std::ranges::any_of(kEndings, [&](auto ending) { return unpacked.ends_with(ending); })) {
      files.push_back(path);
    }
  }
  if (error) {
    throw InputError("can't be read: " + error.message(), {}, folder);
  }
  std::ranges::sort(files);
  return files;
}

void import_folder(MeasuredData& data, const std::string& folder) {
  const std::size_t before = data.files.size();
  const std::vector<std::string> files = files_of(folder);
  for (const std::string& path : files) {
    try {
      import_whole(data, path);
    } catch (const InputError& error) {
      data.remarks.push_back(
          {"left out: " + (error.place().empty() ? "" : error.place() + ": ") + error.message(), {path, 0}});
    }
  }
  if (data.files.size() == before) {
    throw InputError("no measurement in this folder's " + std::to_string(files.size()) +
                         " files (*.txt, *.log, *.out, *.err, *.csv, *.json, all also as *.gz)",
                     {}, folder);
  }
}

std::string place_of(const Origin& origin) {
  return origin.line > 0 ? origin.file + ':' + std::to_string(origin.line) : origin.file;
}

// "8" or "8, 16" or "8, 16, ... and 90 more"; "not stated" where there is none.
template <class Set>
std::string list_of(const Set& values) {
  constexpr std::size_t kShown = 12;
  std::string text;
  std::size_t shown = 0;
  for (const auto& value : values) {
    if (shown++ == kShown) {
      return text + ", ... and " + std::to_string(values.size() - kShown) + " more";
    }
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, int>) {
      text += (text.empty() ? "" : ", ") + (value > 0 ? std::to_string(value) : std::string("not stated"));
    } else {
      text += (text.empty() ? "" : ", ") + (value.empty() ? std::string("not stated") : value);
    }
  }
  return text;
}

}  // namespace

MeasuredData import_file(const std::string& path) {
  MeasuredData data;
  import_into(data, path);
  return data;
}

MeasuredData import_files(std::span<const std::string> paths) {
  MeasuredData data;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      import_folder(data, path);
    } else {
      import_whole(data, path);
    }
  }
  return data;
}

std::string import_summary(const MeasuredData& data) {
  struct Stated {
    std::set<int> ranks, nodes;
    std::set<std::string> versions;
  };
  std::map<std::string, Stated> by_file;
  for (const CollectiveMeasurement& one : data.collectives) {
    Stated& stated = by_file[one.origin.file];
    stated.ranks.insert(one.ranks);
    stated.nodes.insert(one.nodes);
    stated.versions.insert(one.nccl);
  }
  std::string text;
  for (const DataFile& file : data.files) {
    const auto& [ranks, nodes, versions] = by_file[file.path];
    text += file.path + ": " + file.format + ", " + std::to_string(file.rows) +
            (file.rows == 1 ? " measurement" : " measurements");
    if (!ranks.empty()) {
      text += ", ranks " + list_of(ranks) + ", nodes " + list_of(nodes) + ", NCCL " + list_of(versions);
    }
    text += '\n';
  }
  for (const Remark& remark : data.remarks) {
    text += remark_line(remark) + '\n';
  }
  return text;
}

std::string remark_line(const Remark& remark) { return place_of(remark.origin) + ": " + remark.text; }

}  // namespace paceline
