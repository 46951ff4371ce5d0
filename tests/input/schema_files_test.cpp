// Are docs/scenario.md and scenarios/schema/ what the program prints? Does the page hold every key, do its
// links lead anywhere, and may files name their schema?
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "scenarios/json.h"
#include "scenarios/scenario.h"
#include "scenarios/schema_markdown.h"
#include "tests/files.h"
#include "tests/input/scenario_error.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

// "" where both are the same, else the first line that isn't.
std::string first_difference(const std::string& kept, const std::string& printed) {
  std::istringstream a(kept), b(printed);
  std::string of_a, of_b;
  for (int line = 1; kept != printed; ++line) {
    const bool more_a = !std::getline(a, of_a).fail(), more_b = !std::getline(b, of_b).fail();
    if (!more_a || !more_b || of_a != of_b) {
      return "line " + std::to_string(line) + ": kept \"" + (more_a ? of_a : "") + "\", printed \"" +
             (more_b ? of_b : "") + '"';
    }
  }
  return "";
}

std::string page_of(const std::string& schema) { return schema_markdown(parse_json(schema)); }

void collect_keys(const Json& schema, std::set<std::string>& keys) {
  if (const Json* forms = schema.find("anyOf")) {
    for (const Json& form : *forms->as<Json::Array>()) {
      collect_keys(form, keys);
    }
  }
  if (const Json* items = schema.find("items")) {
    collect_keys(*items, keys);
  }
  if (const Json* properties = schema.find("properties")) {
    for (const JsonMember& member : *properties->as<Json::Object>()) {
      keys.insert(member.key);
      collect_keys(member.value, keys);
    }
  }
}

std::vector<std::string> parts_between(const std::string& text, const std::string& begin, char end) {
  std::vector<std::string> parts;
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
    const std::size_t from = at + begin.size();
    parts.push_back(text.substr(from, text.find(end, from) - from));
  }
  return parts;
}

TEST_CASE("docs/scenario.md is what the program prints") {
  INFO("build/release/paceline schema --markdown > docs/scenario.md");
  CHECK(first_difference(text_of(kSource / "docs/scenario.md"), page_of(scenario_schema())) == "");
}

TEST_CASE("the schema that examples name is what the program prints") {
  INFO("build/release/paceline schema > scenarios/schema/scenario.schema.json");
  CHECK(first_difference(text_of(kSource / "scenarios/schema/scenario.schema.json"), scenario_schema()) ==
        "");
}

TEST_CASE("every example names its schema first") {
  std::size_t examples = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kSource / "scenarios")) {
    if (entry.path().extension() == ".json") {
      ++examples;
      CAPTURE(entry.path().filename().string());
      const Json example = parse_json(text_of(entry.path()));
      const JsonMember& first = example.as<Json::Object>()->front();
      CHECK(first.key == "$schema");
      REQUIRE(first.value.as<std::string>() != nullptr);
      CHECK(fs::equivalent(kSource / "scenarios" / *first.value.as<std::string>(),
                           kSource / "scenarios/schema/scenario.schema.json"));
    }
  }
  CHECK(examples >= 15);
}

TEST_CASE("the page has an item for every key, and every link has its heading") {
  const std::string page = page_of(scenario_schema());
  std::set<std::string> keys;
  collect_keys(parse_json(scenario_schema()), keys);
  CHECK(keys.size() > 200);
  for (const std::string& key : keys) {
    CAPTURE(key);
    CHECK_THAT(page, Contains("\n- **`" + key + "`** ("));
  }
  std::set<std::string> anchors;
  for (const char* level : {"\n## `", "\n### `"}) {
    for (std::string heading : parts_between(page, level, '`')) {
      std::erase_if(heading, [](char c) { return c == '.' || c == '[' || c == ']'; });
      CHECK(anchors.insert(heading).second);
    }
  }
  const std::vector<std::string> links = parts_between(page, "](#", ')');
  CHECK(links.size() > 40);
  for (const std::string& link : links) {
    CAPTURE(link);
    CHECK(anchors.count(link) == 1);
  }
}

TEST_CASE("every item of the page says what it is for, in lines of at most 120 characters") {
  std::istringstream page(page_of(scenario_schema()));
  std::string item;
  int items = 0;
  const auto check_item = [&] {
    if (!item.empty()) {
      ++items;
      CAPTURE(item);
      CHECK(item.size() - item.rfind("): ") > 12);
    }
  };
  for (std::string line; std::getline(page, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 120);
    if (line.starts_with("  ") && !item.empty()) {
      item += line.substr(1);
    } else {
      check_item();
      item = line.starts_with("- **`") ? line : "";
    }
  }
  check_item();
  CHECK(items > 200);
}

TEST_CASE("a page shows forms, ranges, defaults, lists and what occurs twice") {
  const std::string page = page_of(R"({"title": "Small", "description": "All kinds.", "type": "object",
    "required": ["size"], "properties": {
      "size": {"type": "string", "title": "a size, 1 B to 4194304 TiB", "pattern": "^[0-9]+ (MB|B)$", "examples": ["1 B"],
               "description": "How large: a|b."},
      "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "default": 0.5, "description": "A <share>."},
      "count": {"type": "integer", "minimum": 3, "description": "How many."},
      "free": {"description": "Whatever."},
      "parts": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "boolean"}}},
                "minItems": 1, "maxItems": 3, "description": "Its parts."},
      "again": {"type": "object", "properties": {"a": {"type": "boolean"}}, "description": "One of them."},
      "either": {"anyOf": [{"title": "a name", "type": "string", "enum": ["x", "y"]},
                           {"title": "its keys", "type": "object", "properties": {"b": {"type": "string"}}}],
                 "default": "x", "description": "Two forms."}}})");
  for (const char* line :
       {"# Small\n\nAll kinds.\n", "\n| a size | MB B | `\"1 B\"` |\n",
        "\n- **`size`** (required; a size, 1 B to 4194304 TiB): How large: a|b.\n",
        "\n- **`share`** (number, above 0, at most 1; default `0.5`): A &lt;share>.\n",
        "\n- **`count`** (whole number, from 3): How many.\n", "\n- **`free`** (any value): Whatever.\n",
        "\n- **`parts`** (list, 1 to 3: [object](#parts)): Its parts.\n",
        "\n- **`again`** ([object](#parts)): One of them.\n",
        "\n- **`either`** ([a name](#either); or [its keys](#either); default `x`): Two forms.\n",
        "\n## `parts[]`\n\n- **`a`** (true or false):",
        "\n## `either`\n\nAs a name: `x`, `y`.\n\nAs its keys:\n\n- **`b`** (text):"}) {
    CAPTURE(line);
    CHECK_THAT(page, Contains(line));
  }
  CHECK_THAT(page, !Contains("## `again`"));
}

// ---- "$schema" in files ----

const std::string kRest = R"("cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 1}})";

TEST_CASE("a scenario may name its schema, which changes nothing") {
  const Scenario with = parse_scenario(R"({"$schema": "any/where.json", )" + kRest, "x.json");
  const std::string written = to_json(with);
  CHECK(written == to_json(parse_scenario("{" + kRest, "x.json")));
  CHECK_THAT(written, !Contains("$schema"));
}

TEST_CASE("a schema's name is a text at the top of a file") {
  CHECK_THAT(scenario_error(R"({"$schema": 7, )" + kRest),
             Contains("/$schema: expected a text of 0 to 4000 bytes"));
  CHECK_THAT(scenario_error(R"({"run": {"$schema": "x"}, )" + kRest),
             Contains("/run: unknown key \"$schema\""));
  CHECK_THAT(scenario_error(R"({"$shema": "x", )" + kRest),
             Contains("unknown key \"$shema\". Known: description, cluster,"));
}

TEST_CASE("files of clusters and models may name a schema too") {
  const TemporaryFolder folder;
  folder.write("cluster.json", R"({"$schema": "c.json", "node": "dgx-a100", "nodes": 3})");
  folder.write("model.json", R"({"$schema": "m.json", "name": "m", "layers": [
      {"name": "l", "parameters": [10], "forward_macs": 1, "output_elements": 1}]})");
  const Scenario scenario = parse_scenario(
      R"({"cluster": "./cluster.json", "model": {"file": "model.json"}, "training": {"batch_per_gpu": 1}})",
      folder.file("s.json"));
  CHECK(scenario.cluster.nodes == 3);
  CHECK(scenario.model.layers.size() == 1);
}

}  // namespace
}  // namespace paceline
