// What the names in a scenario stand for, as JSON: one rule for the reader, and for those who change a scenario before
// it is read (studies/edit.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/description.h"
#include "scenarios/json.h"

namespace paceline {

// JSON that stands elsewhere.
struct NamedJson {
  Json json;
  std::string file;    // where it stands; empty: built in
  std::string beside;  // from the folder of who names it to that file's
  Spot spot;           // in the file
};

// Of "models" or "clusters": the files of scenarios/ that are compiled in.
std::vector<std::string> builtin_names(std::string_view kind);

// All of them throw InputError, at `spot`, where the name stands for nothing.

// A file of the user's, relative to the spot's folder; read once for all who have the spot's texts.
struct TextInFile {
  std::string text, path;
};
TextInFile text_in_file(const std::string& name, const Spot& spot);
NamedJson json_in_file(const std::string& name, const Spot& spot);
// A node preset, a built-in cluster, or a file that is a cluster, or a scenario or a result with one: never a name.
NamedJson cluster_json(const std::string& name, const Spot& spot);
Json model_json(const std::string& name, const Spot& spot);

// The scenario that a result.json holds; nullptr in anything else.
const Json* scenario_in_result(const Json&);

// f(json, its spot); errors carry the name of the file.
template <class F>
auto read_named_json(const NamedJson& named, const F& f) {
  try {
    return f(named.json, named.spot);
  } catch (const InputError& error) {
    throw error.in_file(named.file);
  }
}

}  // namespace paceline
