// Changing a scenario as it is written, before it is read: one value at one JSON pointer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/json.h"

namespace paceline {

class FileTexts;  // scenarios/files.h

// Sets the value at a JSON pointer (RFC 6901) of a scenario. Objects on the way that are absent are made, "-"
// appends to an array; null leaves a key out, as if the scenario didn't say it (false: it
// didn't). Where the pointer goes into something that the scenario names, the name is written out
// first: a cluster or model becomes the JSON of its file (relative to `folder`), a node or GPU preset
// {"preset": name}. Whether the result makes sense is for the scenario's reader to say. Throws InputError
// with the pointer as place: a malformed pointer, an index beyond an array, a way through a number or a text.
// With texts: files are read once for all scenarios that are given these.
bool set_at(Json& scenario, std::string_view pointer, Json value, const std::string& folder,
            FileTexts* = nullptr);

// What a user typed for a value: JSON, or a text as it is.
Json value_of_text(const std::string&);

// A value at a JSON pointer.
struct Edit {
  std::string key;
  Json value;
  friend bool operator==(const Edit&, const Edit&);
};

// The edits of `before` that make it `after`, each as deep as it can be: an array of another length is
// replaced as a whole, one that is gone is empty, and an object that has lost another key is replaced.
std::vector<Edit> difference(const Json& before, const Json& after);

// Whether each run of nodes of a cluster (its "gpus") says its own "node" or "gpu", so that the cluster's counts
// for none.
bool each_run_says(const Json& cluster, std::string_view key);

// The scenario that a result.json holds; anything else as it is.
Json scenario_of_result(Json);

// The value at a pointer; nullptr where there is none.
const Json* value_at(const Json&, std::string_view pointer);

}  // namespace paceline
