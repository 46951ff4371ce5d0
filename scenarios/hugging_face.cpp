#include "scenarios/hugging_face.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace paceline {
namespace {

struct Architecture {
  std::string_view model_type;
  TransformerSpec stack;  // what its dimensions fill in
};

constexpr TransformerSpec kOfLlama{.gated_feed_forward = true,
                                   .fused_qkv = false,
                                   .bias = false,
                                   .learned_positions = false,
                                   .tied_embeddings = false};

constexpr TransformerSpec with(TransformerSpec stack, std::int64_t TransformerSpec::* member,
                               std::int64_t value) {
  stack.*member = value;
  return stack;
}
constexpr TransformerSpec with(TransformerSpec stack, bool TransformerSpec::* member) {
  stack.*member = true;
  return stack;
}

constexpr Architecture kArchitectures[] = {
    {"gemma", with(with(kOfLlama, &TransformerSpec::head_dim, 256), &TransformerSpec::tied_embeddings)},
    {"gpt2", {}},
    {"llama", kOfLlama},
    {"mistral", kOfLlama},
    {"qwen2", with(kOfLlama, &TransformerSpec::qkv_bias)},
    {"qwen3", with(with(kOfLlama, &TransformerSpec::head_dim, 128), &TransformerSpec::qk_norm)},
};

const Json* given(const Json& config, std::string_view key) {
  const Json* value = config.find(key);
  return value == nullptr || value->as<std::nullptr_t>() != nullptr ? nullptr : value;
}

// At most as much as a transformer may say (description.h).
std::int64_t number_at(const Json& config, std::string_view key, double most, const Spot& spot) {
  const Json* value = given(config, key);
  if (value == nullptr) {
    throw InputError("missing key " + in_quotes(key), spot.place);
  }
  return read_whole(*value, between(1, most), below(spot, key));
}

void take_number(const Json& config, std::string_view key, double most, std::int64_t& number,
                 const Spot& spot) {
  if (given(config, key) != nullptr) {
    number = number_at(config, key, most, spot);
  }
}

void require_false(const Json& config, std::string_view key, const Spot& spot) {
  bool value = false;
  if (const Json* said = given(config, key)) {
    read(*said, value, any(), below(spot, key));
  }
  if (value) {
    fail_at(below(spot, key), "false (paceline.models.from_torch describes what has such biases)", "true");
  }
}

const Architecture& architecture_of(const Json& config, const Spot& spot) {
  std::string type;
  read(*config.find("model_type"), type, text(1000), below(spot, "model_type"));
  const auto* const found = std::ranges::find(kArchitectures, type, &Architecture::model_type);
  if (found == std::end(kArchitectures)) {
    std::vector<std::string> known;
    for (const Architecture& each : kArchitectures) {
      known.emplace_back(each.model_type);
    }
    fail_at(below(spot, "model_type"),
            quoted_list(known, "or") + " (paceline.models.from_torch describes any other)",
            in_quotes(in_short(type)));
  }
  return *found;
}

std::string name_of(const Json& config, std::string_view otherwise) {
  const Json* path = given(config, "_name_or_path");
  const auto* text = path == nullptr ? nullptr : path->as<std::string>();
  const std::string last = text == nullptr ? "" : text->substr(text->find_last_of('/') + 1);
  return last.empty() ? std::string(otherwise) : in_short(last);
}

}  // namespace

bool is_hugging_face_config(const Json& json) { return json.find("model_type") != nullptr; }

Model model_of_config(const Json& config, const Spot& spot) {
  const Architecture& architecture = architecture_of(config, spot);
  TransformerSpec stack = architecture.stack;
  const bool gpt2 = stack.learned_positions;
  const char* const heads = gpt2 ? "n_head" : "num_attention_heads";
  stack.layers = number_at(config, gpt2 ? "n_layer" : "num_hidden_layers", 500, spot);
  stack.hidden = number_at(config, gpt2 ? "n_embd" : "hidden_size", 1e5, spot);
  stack.heads = number_at(config, heads, 1e5, spot);
  stack.vocabulary = number_at(config, "vocab_size", 1e7, spot);
  if (gpt2) {
    stack.sequence = number_at(config, "n_positions", 1e6, spot);
    take_number(config, "n_inner", 1e6, stack.feed_forward, spot);
  } else {
    stack.feed_forward = number_at(config, "intermediate_size", 1e6, spot);
    take_number(config, "num_key_value_heads", 1e5, stack.key_value_heads, spot);
    take_number(config, "head_dim", 1e5, stack.head_dim, spot);
    require_false(config, "attention_bias", spot);
    require_false(config, "mlp_bias", spot);
  }
  if (const Json* tied = given(config, "tie_word_embeddings")) {
    read(*tied, stack.tied_embeddings, any(), below(spot, "tie_word_embeddings"));
  }
  try {
    Model model = transformer(stack);
    model.name = name_of(config, architecture.model_type);
    return model;
  } catch (const InputError& error) {  // heads that don't divide, or are too wide
    const std::string key = error.place() == "/key_value_heads" ? "num_key_value_heads"
                            : error.place() == "/heads"         ? heads
                                                                : "head_dim";
    throw InputError(error.message(), below(spot, key).place);
  }
}

}  // namespace paceline
