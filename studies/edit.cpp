#include "studies/edit.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/error.h"
#include "scenarios/named_json.h"
#include "scenarios/reader.h"
#include "scenarios/writer.h"
#include "topology/topology.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

// The words of a pointer, "~1" and "~0" read.
std::vector<std::string> words_of(std::string_view pointer) {
  if (!pointer.empty() && pointer.front() != '/') {
    throw InputError("expected a JSON pointer such as \"/training/batch_per_gpu\", found " +
                     in_quotes(pointer));
  }
  std::vector<std::string> words;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      words.emplace_back();
    } else if (pointer[i] != '~') {
      words.back() += pointer[i];
    } else if (i + 1 < pointer.size() && (pointer[i + 1] == '0' || pointer[i + 1] == '1')) {
      words.back() += pointer[++i] == '0' ? '~' : '/';
    } else {
      throw InputError("expected ~0 or ~1 after ~ in a JSON pointer, found " + in_quotes(pointer));
    }
  }
  return words;
}

std::optional<std::size_t> index_of(const std::string& word) {
  std::size_t index = 0;
  const char* end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, index);
  const bool plain = word.size() == 1 || !word.starts_with('0');
  return error == std::errc() && at == end && plain ? std::optional(index) : std::nullopt;
}

Json* member(Json& object, std::string_view key) { return const_cast<Json*>(object.find(key)); }

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// The text of a key that names a file, as it must be where another folder is the start.
void move_path(Json* json, const fs::path& folder) {
  if (json != nullptr && json->as<std::string>() != nullptr) {
    *json = (folder / *json->as<std::string>()).string();
  }
}

void drop_key(Json& json, std::string_view key) {
  if (auto* object = std::get_if<Json::Object>(&json.value)) {
    std::erase_if(*object, [&](const JsonMember& m) { return m.key == key; });
  }
}

// The paths in it as they are from the folder of who names it.
Json cluster_of(const std::string& name, const Spot& spot) {
  NamedJson named = cluster_json(name, spot);
  drop_key(named.json, "$schema");
  move_path(member(named.json, "nccl_graph"), named.beside);
  if (Json* node = member(named.json, "node")) {
    move_path(member(*node, "nccl_topology"), named.beside);
  }
  return std::move(named.json);
}

Json model_of(const Json& json, const Spot& spot) {
  if (const auto* name = json.as<std::string>()) {
    return model_json(*name, spot);
  }
  if (json.find("preset") != nullptr || json.find("sequence") != nullptr) {  // its layers, at that length
    Model model;
    read(json, model, any(), spot);
    return write(model);
  }
  const Json* file = json.find("file");
  const auto* name = file == nullptr ? nullptr : file->as<std::string>();
  if (name == nullptr) {
    return json;
  }
  Json model = json_in_file(*name, spot).json;
  drop_key(model, "$schema");
  return model;
}

// The GPU of a cluster, or of a run of its nodes, that doesn't name it is its node's.
void name_gpu(Json& cluster) {
  const Json* node = cluster.find("node");
  if (node == nullptr || cluster.find("gpu") != nullptr) {
    return;
  }
  const Json* given = node->find("gpu");
  const Json* preset = node->as<std::string>() != nullptr ? node : node->find("preset");
  const auto* name = preset == nullptr ? nullptr : preset->as<std::string>();
  if (given != nullptr && given->as<std::string>() != nullptr) {
    std::get<Json::Object>(cluster.value).push_back({"gpu", *given});
  } else if (name != nullptr && is_among(node_preset_names(), *name)) {
    std::get<Json::Object>(cluster.value).push_back({"gpu", node_preset(*name).gpu});
  }
}

// What a name on the way stands for.
void write_out(Json& json, std::string_view place, const std::string& next, const Spot& from) {
  const auto* name = json.as<std::string>();
  if (place == "/model") {
    if (next == "tokens" && json.find("layers") == nullptr) {
      throw InputError("expected /model/sequence, which changes the layers' work as well");
    }
    if (next == "sequence" && name != nullptr) {
      json = Json::Object{{"preset", *name}};
    } else if (next != "file" && next != "preset" && next != "sequence") {
      json = model_of(json, from);
    }
    return;
  }
  constexpr std::string_view kRuns = "/cluster/gpus/";
  const std::string_view in_run = place.starts_with(kRuns) ? place.substr(kRuns.size()) : "";
  if (in_run.find('/') == std::string_view::npos && !in_run.empty() && next == "gpu") {
    name_gpu(json);
    return;
  }
  if (place == "/cluster") {
    if (name != nullptr) {
      json = cluster_of(*name, from);
    }
    if ((next == "node" || next == "gpu") && each_run_says(json, next)) {
      throw InputError("expected /cluster/gpus/0/" + next + ", ...: each run of nodes says its own");
    }
    if (next == "gpu") {
      name_gpu(json);
    }
    return;
  }
  if (name == nullptr) {
    return;
  }
  const bool of_run = in_run.ends_with("/node") || in_run.ends_with("/gpu");
  if (place == "/cluster/node" || place == "/cluster/gpu" || of_run) {
    json = Json::Object{{"preset", *name}};
  }
}

// The place of `word` in `json`, made where it is absent.
Json& step_into(Json& json, const std::string& word, const std::string& place) {
  const std::string where = place.empty() ? "at the top" : "at " + place;
  if (json.as<std::nullptr_t>() != nullptr) {
    json = word == "-" ? Json(Json::Array{}) : Json(Json::Object{});
  }
  if (auto* object = std::get_if<Json::Object>(&json.value)) {
    if (Json* found = member(json, word)) {
      return *found;
    }
    object->push_back({word, {}});
    return object->back().value;
  }
  auto* array = std::get_if<Json::Array>(&json.value);
  if (array == nullptr) {
    throw InputError("expected an object or an array " + where + ", found " + shown(json));
  }
  if (word == "-") {
    array->emplace_back();
    return array->back();
  }
  const std::optional<std::size_t> index = index_of(word);
  if (!index || *index >= array->size()) {
    throw InputError("expected an index below " + std::to_string(array->size()) +
                     ", or \"-\" for one more, " + where + ", found " + in_quotes(word));
  }
  return (*array)[*index];
}

bool equal(const Json& a, const Json& b) { return to_line(a) == to_line(b); }

void add_difference(const Json& before, const Json& after, const std::string& place,
                    std::vector<Edit>& edits);

// False where a key is gone that only the whole object can lose.
bool add_of_object(const Json::Object& before, const Json& after, const std::string& place,
                   std::vector<Edit>& edits) {
  std::vector<Edit> found;
  for (const JsonMember& member : before) {
    const std::string key = paceline::pointer(place, member.key);
    if (const Json* now = after.find(member.key)) {
      add_difference(member.value, *now, key, found);
    } else if (member.value.as<Json::Array>() != nullptr) {
      found.push_back({key, Json::Array{}});
    } else {
      return false;
    }
  }
  for (const JsonMember& member : *after.as<Json::Object>()) {
    const bool added = std::ranges::find(before, member.key, &JsonMember::key) == before.end();
    if (added) {
      found.push_back({paceline::pointer(place, member.key), member.value});
    }
  }
  edits.insert(edits.end(), found.begin(), found.end());
  return true;
}

void add_difference(const Json& before, const Json& after, const std::string& place,
                    std::vector<Edit>& edits) {
  const auto *object = before.as<Json::Object>(), *object_after = after.as<Json::Object>();
  const auto *array = before.as<Json::Array>(), *array_after = after.as<Json::Array>();
  if (array != nullptr && array_after != nullptr && array->size() == array_after->size()) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      add_difference((*array)[i], (*array_after)[i], paceline::pointer(place, i), edits);
    }
    return;
  }
  if (object != nullptr && object_after != nullptr && add_of_object(*object, after, place, edits)) {
    return;
  }
  if (!equal(before, after)) {
    edits.push_back({place, after});
  }
}

}  // namespace

bool operator==(const Edit& a, const Edit& b) { return a.key == b.key && equal(a.value, b.value); }

std::vector<Edit> difference(const Json& before, const Json& after) {
  std::vector<Edit> edits;
  add_difference(before, after, "", edits);
  return edits;
}

bool each_run_says(const Json& cluster, std::string_view key) {
  const Json* runs = cluster.find("gpus");
  const auto* list = runs == nullptr ? nullptr : runs->as<Json::Array>();
  return list != nullptr && !list->empty() && std::ranges::all_of(*list, [&](const Json& run) {
           return run.find(key) != nullptr || (key == "gpu" && run.find("node") != nullptr);
         });
}

Json scenario_of_result(Json json) {
  if (const Json* inner = scenario_in_result(json)) {
    return *inner;
  }
  return json;
}

bool set_at(Json& scenario, std::string_view pointer, Json value, const std::string& folder,
            FileTexts* files) {
  const Spot from{"", folder, 0, files};
  try {
    scenario = scenario_of_result(std::move(scenario));
    const bool leaves_out = value.as<std::nullptr_t>() != nullptr;
    Json *at = &scenario, *around = nullptr;
    std::string place;
    const std::vector<std::string> words = words_of(pointer);
    for (const std::string& word : words) {
      around = at;
      write_out(*at, place, word, from);
      if (leaves_out && value_at(*at, paceline::pointer("", word)) == nullptr) {
        return false;
      }
      at = &step_into(*at, word, place);
      place = paceline::pointer(place, word);
    }
    *at = std::move(value);
    if (leaves_out && around != nullptr && around->as<Json::Object>() != nullptr) {
      drop_key(*around, words.back());
    }
    return true;
  } catch (const InputError& error) {
    throw InputError(error.what(), in_short(pointer));
  }
}

const Json* value_at(const Json& json, std::string_view pointer) {
  const Json* at = &json;
  for (const std::string& word : words_of(pointer)) {
    if (const auto* array = at->as<Json::Array>()) {
      const std::optional<std::size_t> index = index_of(word);
      at = index && *index < array->size() ? &(*array)[*index] : nullptr;
    } else {
      at = at->find(word);
    }
    if (at == nullptr) {
      return nullptr;
    }
  }
  return at;
}

Json value_of_text(const std::string& text) {
  try {
    return parse_json(text);
  } catch (const InputError&) {
    return text;
  }
}

}  // namespace paceline
