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

using Catch::Contains;

std::string error_with(const std::string& training) {
  return error_of([&] {
    parse_scenario(R"({"cluster": "dgx-a100", "model": "bert_base", "training": {"batch_per_gpu": 32, )" +
                       training + "}}",
                   "x.json");
  });
}

TEST_CASE("a framework's word for a key or a value is told what it is here, and where") {
  CHECK(error_with(R"("seq_len": 512)") ==
        "x.json: /training: unknown key \"seq_len\". A model has it: {\"preset\": NAME, \"sequence\": "
        "TOKENS}.");
  CHECK(error_with(R"("micro-batch-size": 4)") ==
        "x.json: /training: unknown key \"micro-batch-size\". It is \"batch_per_gpu\" in /training or "
        "/training/measured. It counts samples of one GPU in one pass.");
  CHECK(error_with(R"("NCCL_ALGO": "Ring")") ==
        "x.json: /training: unknown key \"NCCL_ALGO\". It is \"algorithm\" in /training/collective.");
  CHECK(error_with(R"("precision": "bfloat16")") ==
        "x.json: /training/precision: unknown value \"bfloat16\". It is \"bf16\" here.");
  CHECK(error_with(R"("strategy": "HSDP")") ==
        "x.json: /training/strategy: unknown value \"HSDP\". It is \"fsdp\" here. Its \"shard_group\" in "
        "\"fsdp\" is "
        "\"node\".");
}

TEST_CASE("a word for a value is told only where that value may stand") {
  CHECK_THAT(error_with(R"("optimizer": "bfloat16")"), Contains("Known: sgd"));
  CHECK_THAT(error_with(R"("collective": {"library": "deepspeed"})"), Contains("Known: nccl"));
  CHECK_THAT(error_with(R"("precision": "seq_len")"), Contains("Known: fp32"));
}

TEST_CASE("no scenario has such a word as a key, and what it leads to are keys and values") {
  const std::vector<KeyPlaces> keys = scenario_keys();
  const std::string schema = scenario_schema();
  const auto is_key = [&](std::string_view word) {
    return std::ranges::find(keys, word, &KeyPlaces::key) != keys.end();
  };
  const auto is_value = [&](std::string_view word) {
    return schema.find('"' + std::string(word) + '"') != std::string::npos;
  };
  const auto check = [&](const OtherWord& other, bool known) {
    INFO(other.word);
    CHECK_FALSE(is_key(other.word));
    CHECK(known);
    CHECK((!other.name.empty() || !other.more.empty()));
    const std::string sentence(other.more);
    CHECK((sentence.empty() || sentence.ends_with('.')));
    const std::regex quoted("\"([^\"]*)\"");
    for (std::sregex_iterator at(sentence.begin(), sentence.end(), quoted), end; at != end; ++at) {
      const std::string name = (*at)[1];
      INFO(name);
      CHECK((is_key(name) || is_value(name)));
    }
  };
  for (const OtherWord& other : other_keys()) {
    check(other, other.name.empty() || is_key(other.name));
  }
  for (const OtherWord& other : other_values()) {
    check(other, is_value(other.name));
  }
  CHECK(find_other(other_keys(), "batch_per_gpu") == nullptr);
  CHECK(find_other(other_keys(), "") == nullptr);
}

}  // namespace
}  // namespace paceline
