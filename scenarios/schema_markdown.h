// A JSON Schema as a page for people.
#pragma once

#include <string>

#include "scenarios/json.h"

namespace paceline {

// `schema`: as scenario_schema() and its like give it, read with parse_json. A table of keys for every
// object; an object that occurs again is linked to its first table. Links are those that GitHub gives
// headings.
std::string schema_markdown(const Json& schema);

}  // namespace paceline
