#include "scenarios/hugging_face.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "core/unknown_name.h"

namespace paceline {
namespace {

struct Architecture {
  std::string_view model_type;
  TransformerSpec stack;    // what its dimensions fill in
  bool windows = false;     // sliding_window holds where use_sliding_window isn't said
  bool full_heads = false;  // keys and values have as many heads as queries where nothing is said
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
    {.model_type = "llama", .stack = kOfLlama, .full_heads = true},
    {.model_type = "mistral", .stack = kOfLlama, .windows = true},
    {"qwen2", with(kOfLlama, &TransformerSpec::qkv_bias)},
    {"qwen3", with(with(kOfLlama, &TransformerSpec::head_dim, 128), &TransformerSpec::qk_norm)},
};

const Json* given(const Json& config, std::string_view key) {
  const Json* value = config.find(key);
  return value == nullptr || value->as<std::nullptr_t>() != nullptr ? nullptr : value;
}

// At most as much as a transformer may say (model_description.h).
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

constexpr const char* kCure = " (paceline.models.from_torch describes any other)";

bool fact_at(const Json& config, std::string_view key, bool otherwise, const Spot& spot) {
  if (const Json* said = given(config, key)) {
    read(*said, otherwise, any(), below(spot, key));
  }
  return otherwise;
}

// What would make another model of it.
void require_plain(const Json& config, const Spot& spot) {
  for (const char* key : {"attention_bias", "mlp_bias", "add_cross_attention"}) {
    if (fact_at(config, key, false, spot)) {
      fail_at(below(spot, key), std::string("false") + kCure, "true");
    }
  }
  if (given(config, "quantization_config") != nullptr) {
    fail_at(below(spot, "quantization_config"), std::string("none") + kCure, "one");
  }
  const Json* const heads = given(config, "architectures");
  const auto* list = heads == nullptr ? nullptr : heads->as<Json::Array>();
  const auto* head = list == nullptr || list->empty() ? nullptr : list->front().as<std::string>();
  if (head != nullptr && !head->ends_with("ForCausalLM") && !head->ends_with("LMHeadModel")) {
    fail_at(below(spot, "architectures"), std::string("a model ForCausalLM, or LMHeadModel") + kCure,
            in_quotes(in_short(*head)));
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
    fail_at(below(spot, "model_type"), quoted_list(known, "or") + kCure, in_quotes(in_short(type)));
  }
  return *found;
}

// Of models of one type their size tells which it is.
std::string name_of(const Json& config, std::string_view type, const Model& model) {
  const Json* path = given(config, "_name_or_path");
  const auto* text = path == nullptr ? nullptr : path->as<std::string>();
  const std::string last = text == nullptr ? "" : text->substr(text->find_last_of('/') + 1);
  constexpr double kBillion = 1e9;
  return last.empty() ? formatted("%s %.3gB", std::string(type).c_str(),
                                  static_cast<double>(parameter_count(model)) / kBillion)
                      : in_short(last);
}

}  // namespace

bool is_hugging_face_config(const Json& json) { return json.find("model_type") != nullptr; }

Model model_of_config(const Json& config, const Spot& spot) {
  const Architecture& architecture = architecture_of(config, spot);
  require_plain(config, spot);
  TransformerSpec stack = architecture.stack;
  const bool gpt2 = stack.learned_positions;
  const char* const heads = gpt2 ? "n_head" : "num_attention_heads";
  const char* const hidden = gpt2 ? "n_embd" : "hidden_size";
  stack.layers = number_at(config, gpt2 ? "n_layer" : "num_hidden_layers", 500, spot);
  stack.hidden = number_at(config, hidden, 1e5, spot);
  stack.heads = number_at(config, heads, 1e5, spot);
  stack.vocabulary = number_at(config, "vocab_size", 1e7, spot);
  if (gpt2) {
    stack.sequence = number_at(config, "n_positions", 1e6, spot);
    take_number(config, "n_inner", 1e6, stack.feed_forward, spot);
  } else {
    stack.feed_forward = number_at(config, "intermediate_size", 1e6, spot);
    if (!architecture.full_heads || given(config, "num_key_value_heads") != nullptr) {
      stack.key_value_heads = number_at(config, "num_key_value_heads", 1e5, spot);
    }
    take_number(config, "head_dim", 1e5, stack.head_dim, spot);
  }
  stack.tied_embeddings = fact_at(config, "tie_word_embeddings", stack.tied_embeddings, spot);
  if (stack.head_dim == 0 && stack.hidden % stack.heads != 0) {  // in the configuration's words
    fail_at(below(spot, heads),
            "a divisor of " + std::string(hidden) + " (" + std::to_string(stack.hidden) + ")" +
                (gpt2 ? "" : ", or head_dim beside it"),
            std::to_string(stack.heads));
  }
  Model model;
  try {
    model = transformer(stack);
  } catch (const InputError& error) {
    throw InputError(error.message(),
                     below(spot, error.place() == "/head_dim" ? "head_dim" : "num_key_value_heads").place);
  }
  model.name = name_of(config, architecture.model_type, model);
  // Of Qwen's layers those from max_window_layers on.
  const Json* const from = given(config, "max_window_layers");
  const bool none =
      from != nullptr && read_whole(*from, between(0, 1e5), below(spot, "max_window_layers")) >= stack.layers;
  if (!none && fact_at(config, "use_sliding_window", architecture.windows, spot)) {
    take_number(config, "sliding_window", 1e6, model.most_tokens, spot);
  }
  return model;
}

}  // namespace paceline
