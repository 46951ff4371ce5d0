// What frameworks call what a scenario says: each word leads to a key or a value that there is.
#include "scenarios/other_words.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "scenarios/schema_writer.h"
#include "tests/error_of.h"

namespace paceline {
namespace {

std::string error_with(const std::string& training) {
  return error_of([&] {
    parse_scenario(R"({"cluster": "dgx-a100", "model": "bert_base", "training": {"batch_per_gpu": 32, )" +
                       training + "}}",
                   "x.json");
  });
}

TEST_CASE("a framework's word for a key or a value is told what it is here") {
  CHECK(error_with(R"("seq_len": 512)") ==
        "x.json: /training: unknown key \"seq_len\". The model has it: \"model\": {\"preset\": NAME, "
        "\"sequence\": "
        "TOKENS}.");
  CHECK(error_with(R"("micro-batch-size": 4)") ==
        "x.json: /training: unknown key \"micro-batch-size\". It is \"batch_per_gpu\" here: samples of one "
        "GPU in one "
        "pass.");
  CHECK(error_with(R"("collective": {"NCCL_ALGO": "Ring"})") ==
        "x.json: /training/collective: unknown key \"NCCL_ALGO\". It is \"algorithm\" here.");
  CHECK(error_with(R"("precision": "bfloat16")") ==
        "x.json: /training/precision: unknown value \"bfloat16\". It is \"bf16\" here.");
  CHECK(error_with(R"("strategy": "HSDP")") ==
        "x.json: /training/strategy: unknown value \"HSDP\". It is \"fsdp\" with \"fsdp\": {\"shard_group\": "
        "\"node\"}.");
}

TEST_CASE("no scenario has such a word as a key, and what it leads to are keys and values") {
  const std::vector<KeyPlaces> keys = scenario_keys();
  const auto is_key = [&](const std::string& word) {
    return std::ranges::find(keys, word, &KeyPlaces::key) != keys.end();
  };
  const auto is_value = [](const std::string& word) {
    const std::string schema = scenario_schema();
    return schema.find('"' + word + '"') != std::string::npos;
  };
  for (const std::string_view word : other_words()) {
    INFO(word);
    CHECK_FALSE(is_key(std::string(word)));
    const std::string sentence(other_word(word));
    CHECK(sentence.ends_with('.'));
    const std::regex quoted("\"([^\"]*)\"");
    for (std::sregex_iterator at(sentence.begin(), sentence.end(), quoted), end; at != end; ++at) {
      const std::string name = (*at)[1];
      INFO(name);
      CHECK((is_key(name) || is_value(name)));
    }
  }
  CHECK(other_word("batch_per_gpu").empty());
  CHECK(other_word("").empty());
}

}  // namespace
}  // namespace paceline
