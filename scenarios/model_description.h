// What "model" of a scenario may say; see description.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/units.h"
#include "kernels/model.h"
#include "scenarios/limits.h"

namespace paceline {

inline constexpr std::int64_t kMostParameters = 1'000'000'000'000'000;
inline constexpr std::size_t kMostTensors = 100'000;

// Other ways to say a model. sequence: tokens of a sample; 0: the model's own.
struct ModelPreset {
  std::string preset;
  std::int64_t sequence = 0;
  Bytes input_bytes{};
};
struct ModelFile {
  std::string file, name;
  std::int64_t sequence = 0;
};
struct ModelOfTransformer {
  std::string name;
  TransformerSpec transformer;
  std::int64_t most_tokens = 0;
};

template <class V>
void describe(V& v, Layer& s) {
  v.key("name", s.name, text(200), "The layer's name.", required());
  v.key("kind", s.kind, any(), "What the layer does; it decides its memory traffic and launches.");
  v.key("parameters", s.parameters, between(1, 1e14).length(0, 1000),
        "Elements of each parameter tensor, in registration order.", required());
  v.key("forward_macs", s.forward_macs, between(0, 1e18),
        "Multiply-accumulates of one sample's forward pass.", required());
  v.key("output_elements", s.output_elements, between(0, 1e14),
        "Elements that the layer writes for one sample.", required());
}

inline constexpr Limits kTokens = between(1, 1e6);

template <class V, class T>
void describe_input_bytes(V& v, T& s) {
  v.key("input_bytes", s.input_bytes, kSize.absent_at_zero(),
        "Bytes of one sample that are copied from the host to its GPU, \"602112 B\" for a 224x224 image in "
        "fp32; left out: none. Only data_parallel asks for them.");
}
template <class V>
void describe_source(V& v) {
  std::string source;
  v.key("source", source, text(10'000, 0), "Where the numbers come from; not used.");
}
template <class V>
void describe(V& v, Model& s) {
  v.key("name", s.name, text(200), "What to call the model.", required());
  v.key("input", s.input, text(200, 0), "What one sample is: \"224x224 image\"; for pages alone.");
  describe_source(v);
  v.key("layers", s.layers, list(1, 10'000),
        "In the order in which the framework registers their parameters.", required());
  v.key("tokens", s.tokens, kTokens.absent_at_zero(),
        "Tokens of a sample, for which the layers' work holds: where it is said, a scenario may ask for "
        "another `sequence`.");
  v.key("most_tokens", s.most_tokens, kTokens.absent_at_zero(),
        "The longest sequence that it has positions for, or that its attention sees all of.");
  describe_input_bytes(v, s);
}

template <class V>
void describe(V& v, TransformerSpec& s) {
  const auto size = [](double most) { return between(1, most); };
  v.key("layers", s.layers, size(500), "Blocks of attention and feed-forward.");
  v.key("hidden", s.hidden, size(100'000), "Width of the residual stream.");
  v.key("heads", s.heads, size(100'000), "Attention heads.");
  v.key("key_value_heads", s.key_value_heads, size(100'000).absent_at_zero(),
        "Heads of keys and values (grouped-query attention); left out: as many as heads.");
  v.key("head_dim", s.head_dim, size(100'000).absent_at_zero(), "Width of a head; left out: hidden / heads.");
  v.key("feed_forward", s.feed_forward, size(1e6).absent_at_zero(),
        "Inner width of the feed-forward; left out: 4 * hidden.");
  v.key("gated_feed_forward", s.gated_feed_forward, any(), "Three matrices (SwiGLU) instead of two.");
  v.key("fused_qkv", s.fused_qkv, any(), "One matrix for queries, keys and values instead of three.");
  v.key("bias", s.bias, any(), "Linear layers and norms carry a bias.");
  v.key("qkv_bias", s.qkv_bias, any(), "Queries, keys and values carry one where `bias` is false (Qwen2).");
  v.key("qk_norm", s.qk_norm, any(), "A norm of each head's queries, and one of its keys (Qwen3).");
  v.key("vocabulary", s.vocabulary, size(1e7), "Tokens of the vocabulary.");
  v.key("sequence", s.sequence, kTokens, "Tokens of a sample.");
  v.key("learned_positions", s.learned_positions, any(), "A table of position embeddings.");
  v.key("tied_embeddings", s.tied_embeddings, any(), "The output projection shares the token embedding.");
}

template <class V, class T>
void describe_sequence(V& v, T& s) {
  v.key("sequence", s.sequence, kTokens.absent_at_zero(),
        "Tokens of a sample; left out: the model's own number.");
}
template <class V>
void describe(V& v, ModelPreset& s) {
  v.key("preset", s.preset, text(100), "A built-in model's name.", required());
  describe_sequence(v, s);
  describe_input_bytes(v, s);
}
template <class V>
void describe(V& v, ModelFile& s) {
  v.key("file", s.file, text(4000),
        "A JSON file, relative to this one: a model as it may stand here, with layers or a transformer; or a "
        "config.json of Hugging Face (gemma, gpt2, llama, mistral, qwen2, qwen3), with `sequence` beside it.",
        required());
  v.key("name", s.name, text(200), "What to call the model; left out: as the file has it.");
  describe_sequence(v, s);
}
template <class V>
void describe(V& v, ModelOfTransformer& s) {
  v.key("name", s.name, text(200), "What to call the model; left out: transformer.");
  describe_source(v);
  v.key("transformer", s.transformer, any(), "A decoder stack by its dimensions.", required());
  v.key("most_tokens", s.most_tokens, kTokens.absent_at_zero(),
        "The longest sequence that it has positions for, or that its attention sees all of.");
}

}  // namespace paceline
