#include "scenarios/named_json.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/unknown_name.h"
#include "scenarios/builtin_files.h"
#include "scenarios/file_kind.h"
#include "scenarios/files.h"
#include "scenarios/reader.h"
#include "topology/topology.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

const BuiltinFile* find_builtin(std::string_view kind, std::string_view name) {
  for (const BuiltinFile& file : builtin_files()) {
    if (file.kind == kind && file.name == name) {
      return &file;
    }
  }
  return nullptr;
}

// What stands at a key of `outer`.
NamedJson part_of(const NamedJson& outer, const char* key) {
  return {*outer.json.find(key), outer.file, outer.beside, below(outer.spot, key)};
}

}  // namespace

std::vector<std::string> builtin_names(std::string_view kind) {
  std::vector<std::string> names;
  for (const BuiltinFile& file : builtin_files()) {
    if (file.kind == kind) {
      names.emplace_back(file.name);
    }
  }
  std::ranges::sort(names);
  return names;
}

TextInFile text_in_file(const std::string& name, const Spot& spot) {
  const std::string path = (fs::path(spot.folder) / name).string();
  try {
    return {spot.files != nullptr ? spot.files->text(path) : read_file(path), path};
  } catch (const InputError& error) {
    throw InputError(error.file() + ": " + error.message(), spot.place);
  }
}

NamedJson json_in_file(const std::string& name, const Spot& spot) {
  if (spot.files_above >= kMostFilesAbove) {
    fail_at(spot, "at most " + std::to_string(kMostFilesAbove) + " files that name each other in a row",
            "more: " + in_quotes(name));
  }
  const auto [text, path] = text_in_file(name, spot);
  try {
    return {parse_json(text), path, fs::path(name).parent_path().string(),
            Spot{"", fs::path(path).parent_path().string(), spot.files_above + 1, spot.files}};
  } catch (const InputError& error) {
    throw error.in_file(path);
  }
}

NamedJson cluster_json(const std::string& name, const Spot& spot) {
  const std::vector<std::string> nodes = node_preset_names();
  if (std::ranges::find(nodes, name) != nodes.end()) {
    return {Json::Object{{"node", name}}, {}, {}, {}};
  }
  if (const BuiltinFile* builtin = find_builtin("clusters", name)) {
    return {parse_json(std::string(builtin->text)), {}, {}, {}};
  }
  if (name.ends_with(".xml")) {  // one node, as NCCL wrote it
    // One that can't be read is told at its name's place.
    (void)text_in_file(name, spot);
    const fs::path path(name), folder = fs::path(spot.folder) / path.parent_path();
    return {Json::Object{{"node", Json::Object{{"nccl_topology", path.filename().string()}}}},
            {},
            path.parent_path().string(),
            Spot{"", folder.string(), spot.files_above, spot.files}};
  }
  if (name.find('/') == std::string::npos && !name.ends_with(".json")) {
    if (std::error_code unknown; fs::is_regular_file(fs::path(spot.folder) / name, unknown)) {
      throw InputError(
          "expected a cluster, in a file named .json (or .xml, as NCCL writes it with NCCL_TOPO_DUMP_FILE)",
          "", name);
    }
    std::vector<std::string> known = builtin_names("clusters");
    known.insert(known.end(), nodes.begin(), nodes.end());
    throw InputError(unknown_name("cluster", in_short(name), known) +
                         ", or the path of a file (.json; .xml for one that NCCL wrote)",
                     spot.place);
  }
  NamedJson found = json_in_file(name, spot);
  try {
    require_kind(found.json, {FileKind::cluster, FileKind::scenario, FileKind::result});
  } catch (const InputError& error) {
    throw error.in_file(found.file);
  }
  if (scenario_in_result(found.json) != nullptr) {
    found = part_of(found, "scenario");
  }
  if (found.json.find("cluster") == nullptr) {
    return found;
  }
  found = part_of(found, "cluster");
  const auto* other = found.json.as<std::string>();
  if (other == nullptr) {
    return found;
  }
  try {
    NamedJson further = cluster_json(*other, found.spot);
    further.beside = (fs::path(found.beside) / further.beside).string();
    return further;
  } catch (const InputError& error) {
    throw error.in_file(found.file);
  }
}

Json model_json(const std::string& name, const Spot& spot) {
  const BuiltinFile* builtin = find_builtin("models", name);
  if (builtin == nullptr) {
    throw InputError(unknown_name("model", in_short(name), builtin_names("models")), spot.place);
  }
  return parse_json(std::string(builtin->text));
}

const Json* scenario_in_result(const Json& json) {
  return json.find("fingerprint") != nullptr ? json.find("scenario") : nullptr;
}

}  // namespace paceline
