// Is a config.json of Hugging Face the model that transformers builds of it? (Beside transformers itself:
// python/tests/test_models.py.)
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "scenarios/scenario.h"
#include "tests/files.h"

namespace paceline {
namespace {

const std::string kLlama =
    R"("model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
       "num_attention_heads": 4, "vocab_size": 100)";

// The scenario's model, or what is said of it.
Model model_of(const std::string& model, const TemporaryFolder& folder) {
  return load_scenario(
             folder.write("s.json", R"({"cluster": "dgx-a100", "training": {"batch_per_gpu": 1}, "model": )" +
                                        model + "}"))
      .model;
}

std::string said_of(const std::string& config, const TemporaryFolder& folder) {
  folder.write("config.json", config);
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
  const std::string of_llama =
      R"("hidden": 64, "feed_forward": 96, "layers": 2, "heads": 4, "vocabulary": 100, "gated_feed_forward": true,
         "fused_qkv": false, "bias": false, "learned_positions": false, "sequence": 32)";
  const std::vector<std::pair<std::string, std::string>> equal{
      {kLlama, R"("name": "llama", "transformer": {"tied_embeddings": false, )" + of_llama + "}"},
      {kLlama + R"(, "_name_or_path": "org/Own-1B", "num_key_value_heads": 2, "head_dim": null,
                    "tie_word_embeddings": true, "rope_theta": 1e6, "mlp_bias": false)",
       R"("name": "Own-1B", "transformer": {"key_value_heads": 2, )" + of_llama + "}"},
      {R"("model_type": "qwen2", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
          "num_attention_heads": 4, "vocab_size": 100)",
       R"("name": "qwen2", "transformer": {"qkv_bias": true, "tied_embeddings": false, )" + of_llama + "}"},
      {R"("model_type": "qwen3", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
          "num_attention_heads": 4, "vocab_size": 100)",
       R"("name": "qwen3", "transformer": {"qk_norm": true, "head_dim": 128, "tied_embeddings": false, )" +
           of_llama + "}"},
      {R"("model_type": "gemma", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
          "num_attention_heads": 4, "vocab_size": 100, "head_dim": 48)",
       R"("name": "gemma", "transformer": {"head_dim": 48, )" + of_llama + "}"}};
  for (const auto& [config, transformer] : equal) {
    folder.write("config.json", '{' + config + '}');
    check_same(model_of(R"({"file": "config.json", "sequence": 32})", folder),
               model_of('{' + transformer + '}', folder));
  }
  // GPT-2 has as many positions as it says, whatever a sample's tokens.
  folder.write("config.json",
               R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
                 "n_inner": null, "vocab_size": 50257})");
  Model gpt2 = model_of(R"({"preset": "gpt2_small", "sequence": 512})", folder);
  gpt2.name = "gpt2";
  check_same(model_of(R"({"file": "config.json", "sequence": 512})", folder), gpt2);
  CHECK_THROWS_WITH(model_of(R"({"file": "config.json", "sequence": 2048})", folder),
                    Catch::Contains("/model/sequence: expected at most 1024, as gpt2 has positions"));
  CHECK_THROWS_WITH(model_of(R"({"file": "config.json"})", folder),
                    Catch::Contains("/model: missing key \"sequence\": a model's configuration doesn't say"));
}

TEST_CASE("what a configuration cannot be read for is said, with its place and a cure") {
  const TemporaryFolder folder;
  CHECK(said_of(R"({"model_type": "mixtral"})", folder) ==
        R"(/model_type: expected "gemma", "gpt2", "llama", "mistral", "qwen2" or "qwen3" )"
        R"((paceline.models.from_torch describes any other), found "mixtral")");
  CHECK(said_of(R"({"model_type": 3})", folder) ==
        "/model_type: expected a text of 1 to 1000 bytes, found 3: put it in quotes (\"...\"; in a shell "
        "'\"...\"')");
  CHECK(said_of(R"({"model_type": "llama"})", folder) == R"(missing key "num_hidden_layers")");
  CHECK(said_of('{' + kLlama + R"(, "attention_bias": true})", folder) ==
        "/attention_bias: expected false (paceline.models.from_torch describes what has such biases), found "
        "true");
  CHECK(said_of('{' + kLlama + R"(, "num_key_value_heads": 3})", folder) ==
        "/num_key_value_heads: expected a divisor of heads (4), found 3");
  CHECK(said_of('{' + kLlama + R"(, "head_dim": 100000, "num_key_value_heads": 0})", folder) ==
        "/num_key_value_heads: expected a whole number from 1 to 100000, found 0");
  CHECK(said_of(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
                    "num_attention_heads": 7, "vocab_size": 100})",
                folder) ==
        "/num_attention_heads: expected a divisor of hidden (64), or head_dim beside it, found 7");
  CHECK(said_of('{' + kLlama + R"(, "head_dim": 1.5})", folder) ==
        "/head_dim: expected a whole number from 1 to 100000, found 1.5");
  CHECK(said_of(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
                    "num_attention_heads": 50000, "head_dim": 100, "vocab_size": 100})",
                folder) == "/head_dim: expected at most 1000000 of all heads together, found 50000 of 100");
  CHECK(said_of('{' + kLlama + R"(, "tie_word_embeddings": "yes"})", folder) ==
        R"(/tie_word_embeddings: expected true or false, found "yes")");
}

}  // namespace paceline
