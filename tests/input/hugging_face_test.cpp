// Is a config.json of Hugging Face the model that transformers builds of it? (Beside transformers itself:
// python/tests/test_models.py.)
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "scenarios/scenario.h"
#include "tests/files.h"

namespace paceline {
namespace {

using nlohmann::json;

json config(const std::string& type) {
  return {{"model_type", type},     {"hidden_size", 64},        {"intermediate_size", 96},
          {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"num_key_value_heads", 4},
          {"vocab_size", 100}};
}
json with(json config, const std::string& key, const json& value) {
  config[key] = value;
  return config;
}

// The scenario's model, or what is said of it.
Model model_of(const std::string& model, const TemporaryFolder& folder) {
  return load_scenario(
             folder.write("s.json", R"({"cluster": "dgx-a100", "training": {"batch_per_gpu": 1}, "model": )" +
                                        model + "}"))
      .model;
}

std::string said_of(const json& config, const TemporaryFolder& folder) {
  folder.write("config.json", config.dump());
  try {
    model_of(R"({"file": "config.json", "sequence": 32})", folder);
  } catch (const InputError& error) {
    const std::string what = error.what(), file = "config.json: ";
    return what.substr(what.find(file) + file.size());
  }
  return "";
}

void check_same(const Model& a, const Model& b) {
  CHECK(a.name == b.name);
  CHECK(a.tokens == b.tokens);
  CHECK(a.input == b.input);
  CHECK(a.most_tokens == b.most_tokens);
  REQUIRE(a.layers.size() == b.layers.size());
  for (std::size_t l = 0; l < a.layers.size(); ++l) {
    INFO(a.layers[l].name);
    CHECK(a.layers[l].parameters == b.layers[l].parameters);
    CHECK(a.layers[l].forward_macs == b.layers[l].forward_macs);
    CHECK(a.layers[l].output_elements == b.layers[l].output_elements);
  }
}

}  // namespace

TEST_CASE("a configuration of Hugging Face is the transformer of its dimensions") {
  const TemporaryFolder folder;
  const auto stack = [](const json& more) {
    json transformer = {{"hidden", 64},       {"feed_forward", 96},      {"layers", 2},
                        {"heads", 4},         {"vocabulary", 100},       {"gated_feed_forward", true},
                        {"fused_qkv", false}, {"bias", false},           {"learned_positions", false},
                        {"sequence", 32},     {"tied_embeddings", false}};
    transformer.update(more);
    return json{{"name", "mine"}, {"transformer", transformer}};
  };
  json own = config("llama");
  own.update({{"_name_or_path", "org/Own-1B"},
              {"num_key_value_heads", 2},
              {"head_dim", nullptr},
              {"tie_word_embeddings", true},
              {"rope_theta", 1e6},
              {"mlp_bias", false},
              {"architectures", {"LlamaForCausalLM"}},
              {"quantization_config", nullptr}});
  json alone = config("llama");
  alone.erase("num_key_value_heads");
  const std::vector<std::pair<json, json>> equal{
      {config("llama"), stack(json::object())},
      {alone, stack(json::object())},
      {config("mistral"), stack(json::object())},
      {own, stack({{"key_value_heads", 2}, {"tied_embeddings", true}})},
      {config("qwen2"), stack({{"qkv_bias", true}})},
      {config("qwen3"), stack({{"qk_norm", true}, {"head_dim", 128}})},
      {with(config("gemma"), "head_dim", 48), stack({{"head_dim", 48}, {"tied_embeddings", true}})}};
  for (const auto& [configuration, transformer] : equal) {
    folder.write("config.json", configuration.dump());
    check_same(model_of(R"({"file": "config.json", "name": "mine", "sequence": 32})", folder),
               model_of(transformer.dump(), folder));
  }
  const auto name = [&](const json& configuration) {
    folder.write("config.json", configuration.dump());
    return model_of(R"({"file": "config.json", "sequence": 32})", folder).name;
  };
  CHECK(name(own) == "Own-1B");
  CHECK(name(with(config("llama"), "vocab_size", 10'000'000)) == "llama 1.28B");  // 2 x 64 of them
}

TEST_CASE("a configuration reads no more than it has positions for, or sees at once") {
  const TemporaryFolder folder;
  const auto tokens = [&](const std::string& sequence) {
    return model_of(R"({"file": "config.json", "name": "mine", "sequence": )" + sequence + "}", folder);
  };
  folder.write("config.json",
               R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
                   "n_inner": null, "vocab_size": 50257})");
  Model gpt2 = model_of(R"({"preset": "gpt2_small", "sequence": 512})", folder);
  gpt2.name = "mine";
  check_same(tokens("512"), gpt2);
  CHECK_THROWS_WITH(
      tokens("2048"),
      Catch::Contains("/model/sequence: expected at most 1024, up to which mine has positions"));
  json window = with(config("mistral"), "sliding_window", 64);
  folder.write("config.json", window.dump());
  CHECK(tokens("64").tokens == 64);
  CHECK_THROWS_WITH(tokens("65"), Catch::Contains("expected at most 64"));
  for (const json& without :
       {with(window, "sliding_window", nullptr), with(window, "use_sliding_window", false),
        with(config("qwen2"), "sliding_window", 64),
        with(with(with(config("qwen3"), "sliding_window", 64), "use_sliding_window", true),
             "max_window_layers", 2)}) {
    folder.write("config.json", without.dump());
    CHECK(tokens("65").tokens == 65);
  }
  CHECK_THROWS_WITH(model_of(R"({"file": "config.json"})", folder),
                    Catch::Contains("/model: missing key \"sequence\": a model's configuration doesn't say"));
  CHECK_THROWS_WITH(model_of(window.dump(), folder),
                    Catch::Contains("/model: expected Hugging Face's configuration in a file of its own"));
}

TEST_CASE("a transformer reads no more than it says, and than its positions") {
  const TemporaryFolder folder;
  const std::string small = R"("layers": 2, "hidden": 64, "heads": 4, "sequence": 64)";
  CHECK_THROWS_WITH(model_of(R"({"most_tokens": 32, "transformer": {)" + small + "}}", folder),
                    Catch::Contains("expected at most 32"));
  folder.write("positions.json", R"({"most_tokens": 128, "transformer": {)" + small + "}}");
  CHECK_THROWS_WITH(model_of(R"({"file": "positions.json", "sequence": 65})", folder),
                    Catch::Contains("/model/sequence: expected at most 64"));
  folder.write("free.json",
               R"({"most_tokens": 128, "transformer": {"learned_positions": false, )" + small + "}}");
  CHECK(model_of(R"({"file": "free.json", "sequence": 128})", folder).tokens == 128);
}

TEST_CASE("what a configuration cannot be read for is said, with its place and a cure") {
  const TemporaryFolder folder;
  const std::string cure = " (paceline.models.from_torch describes any other), found ";
  const json llama = config("llama");
  CHECK(said_of({{"model_type", "mixtral"}}, folder) ==
        R"(/model_type: expected "gemma", "gpt2", "llama", "mistral", "qwen2" or "qwen3")" + cure +
            R"("mixtral")");
  CHECK_THAT(said_of({{"model_type", 3}}, folder), Catch::StartsWith("/model_type: expected a text of"));
  CHECK(said_of({{"model_type", "llama"}}, folder) == R"(missing key "num_hidden_layers")");
  json heads = config("mistral");
  heads.erase("num_key_value_heads");
  CHECK(said_of(heads, folder) == R"(missing key "num_key_value_heads")");
  CHECK(said_of(with(llama, "attention_bias", true), folder) ==
        "/attention_bias: expected false" + cure + "true");
  CHECK(said_of(with(llama, "quantization_config", {{"bits", 4}}), folder) ==
        "/quantization_config: expected none" + cure + "one");
  CHECK(said_of(with(llama, "architectures", {"LlamaForSequenceClassification"}), folder) ==
        "/architectures: expected a model ForCausalLM, or LMHeadModel" + cure +
            R"("LlamaForSequenceClassification")");
  CHECK(said_of(with(llama, "num_key_value_heads", 3), folder) ==
        "/num_key_value_heads: expected a divisor of heads (4), found 3");
  CHECK(said_of(with(llama, "num_key_value_heads", 0), folder) ==
        "/num_key_value_heads: expected a whole number from 1 to 100000, found 0");
  CHECK(said_of(with(llama, "num_attention_heads", 7), folder) ==
        "/num_attention_heads: expected a divisor of hidden_size (64), or head_dim beside it, found 7");
  CHECK(said_of({{"model_type", "gpt2"},
                 {"n_embd", 768},
                 {"n_head", 7},
                 {"n_layer", 2},
                 {"n_positions", 64},
                 {"vocab_size", 100}},
                folder) == "/n_head: expected a divisor of n_embd (768), found 7");
  CHECK(said_of(with(llama, "head_dim", 1.5), folder) ==
        "/head_dim: expected a whole number from 1 to 100000, found 1.5");
  CHECK(said_of(with(with(llama, "num_attention_heads", 50'000), "head_dim", 100), folder) ==
        "/head_dim: expected at most 1000000 of all heads together, found 50000 of 100");
  CHECK(said_of(with(llama, "tie_word_embeddings", "yes"), folder) ==
        R"(/tie_word_embeddings: expected true or false, found "yes")");
}

}  // namespace paceline
