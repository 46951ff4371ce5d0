#include "core/error.h"
#include "kernels/model.h"

namespace paceline {
namespace {

constexpr std::int64_t kMostWidth = 1'000'000;  // of attention: work stays countable

void require_positive(std::int64_t value, const char* what) {
  if (value < 1) {
    throw InputError("expected at least 1, found " + std::to_string(value), std::string("/") + what);
  }
}

// Fills the fields whose 0 means "derive it", and checks the rest.
TransformerSpec checked(TransformerSpec s) {
  require_positive(s.layers, "layers");
  require_positive(s.hidden, "hidden");
  require_positive(s.heads, "heads");
  require_positive(s.vocabulary, "vocabulary");
  require_positive(s.sequence, "sequence");
  s.key_value_heads = s.key_value_heads == 0 ? s.heads : s.key_value_heads;
  s.feed_forward = s.feed_forward == 0 ? 4 * s.hidden : s.feed_forward;
  require_positive(s.key_value_heads, "key_value_heads");
  require_positive(s.feed_forward, "feed_forward");
  if (s.head_dim == 0 && s.hidden % s.heads != 0) {
    throw InputError("expected a divisor of hidden (" + std::to_string(s.hidden) +
                         "), or head_dim beside it, found " + std::to_string(s.heads),
                     "/heads");
  }
  s.head_dim = s.head_dim == 0 ? s.hidden / s.heads : s.head_dim;
  require_positive(s.head_dim, "head_dim");
  if (s.head_dim > kMostWidth / s.heads) {
    throw InputError("expected at most " + std::to_string(kMostWidth) + " of all heads together, found " +
                         std::to_string(s.heads) + " of " + std::to_string(s.head_dim),
                     "/head_dim");
  }
  if (s.heads % s.key_value_heads != 0) {
    throw InputError("expected a divisor of heads (" + std::to_string(s.heads) + "), found " +
                         std::to_string(s.key_value_heads),
                     "/key_value_heads");
  }
  return s;
}

// Appends layers in the order in which their parameters are registered.
class Stack {
 public:
  explicit Stack(const TransformerSpec& spec) : s_(spec) {}

  void embedding(std::string name, std::int64_t rows) {
    layers_.push_back(
        {std::move(name), LayerKind::embedding, {rows * s_.hidden}, 0, s_.sequence * s_.hidden});
  }
  void norm(std::string name) {
    std::vector<std::int64_t> parameters(s_.bias ? 2 : 1, s_.hidden);
    layers_.push_back({std::move(name), LayerKind::norm, std::move(parameters), 0, s_.sequence * s_.hidden});
  }
  void linear(std::string name, std::int64_t in, std::int64_t out, bool bias) {
    std::vector<std::int64_t> parameters{in * out};
    if (bias) {
      parameters.push_back(out);
    }
    push_linear(std::move(name), std::move(parameters), in, out);
  }
  void attention_core(std::string name) {
    const std::int64_t width = s_.heads * s_.head_dim, macs = 2 * s_.sequence * s_.sequence * width;
    layers_.push_back({std::move(name), LayerKind::attention, {}, macs, s_.sequence * width});
  }
  void norm_of_heads(std::string name, std::int64_t heads) {
    layers_.push_back(
        {std::move(name), LayerKind::norm, {s_.head_dim}, 0, s_.sequence * heads * s_.head_dim});
  }
  // No bias, whatever the stack: GPT-2 and Llama have none. A tied one owns no tensor.
  void output_head(std::string name) {
    std::vector<std::int64_t> parameters;
    if (!s_.tied_embeddings) {
      parameters.push_back(s_.hidden * s_.vocabulary);
    }
    push_linear(std::move(name), std::move(parameters), s_.hidden, s_.vocabulary);
  }
  std::vector<Layer> take() { return std::move(layers_); }

 private:
  void push_linear(std::string name, std::vector<std::int64_t> parameters, std::int64_t in,
                   std::int64_t out) {
    const std::int64_t macs = s_.sequence * in * out;
    layers_.push_back({std::move(name), LayerKind::linear, std::move(parameters), macs, s_.sequence * out});
  }

  const TransformerSpec& s_;
  std::vector<Layer> layers_;
};

void append_attention(Stack& stack, const TransformerSpec& s, const std::string& block) {
  const std::int64_t width = s.heads * s.head_dim, key_value = s.key_value_heads * s.head_dim;
  const bool bias = s.bias || s.qkv_bias;
  if (s.fused_qkv) {
    stack.linear(block + "qkv", s.hidden, width + 2 * key_value, bias);
  } else {
    stack.linear(block + "q", s.hidden, width, bias);
    stack.linear(block + "k", s.hidden, key_value, bias);
    stack.linear(block + "v", s.hidden, key_value, bias);
  }
  stack.attention_core(block + "attention");
  stack.linear(block + "attention_out", width, s.hidden, s.bias);
  if (s.qk_norm) {
    stack.norm_of_heads(block + "q_norm", s.heads);
    stack.norm_of_heads(block + "k_norm", s.key_value_heads);
  }
}

void append_feed_forward(Stack& stack, const TransformerSpec& s, const std::string& block) {
  if (s.gated_feed_forward) {
    stack.linear(block + "gate", s.hidden, s.feed_forward, s.bias);
  }
  stack.linear(block + "up", s.hidden, s.feed_forward, s.bias);
  stack.linear(block + "down", s.feed_forward, s.hidden, s.bias);
}

// GPT-2 registers a norm where it runs; Llama and its kin, who gate their feed-forward, at the end of the block.
void append_block(Stack& stack, const TransformerSpec& s, const std::string& block) {
  if (s.gated_feed_forward) {
    append_attention(stack, s, block);
    append_feed_forward(stack, s, block);
    stack.norm(block + "norm_1");
    stack.norm(block + "norm_2");
  } else {
    stack.norm(block + "norm_1");
    append_attention(stack, s, block);
    stack.norm(block + "norm_2");
    append_feed_forward(stack, s, block);
  }
}

}  // namespace

Model transformer(const TransformerSpec& spec) {
  const TransformerSpec s = checked(spec);
  Stack stack(s);
  stack.embedding("token_embedding", s.vocabulary);
  if (s.learned_positions) {
    stack.embedding("position_embedding", s.sequence);
  }
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    append_block(stack, s, "layers." + std::to_string(layer) + ".");
  }
  stack.norm("norm");
  stack.output_head("output");
  return {.name = "transformer",
          .input = std::to_string(s.sequence) + " tokens",
          .layers = stack.take(),
          .tokens = s.sequence,
          .most_tokens = s.learned_positions ? s.sequence : 0};
}

}  // namespace paceline
