// A neural network as the simulator needs it: layers in registration order, each with its gradient tensors,
// its work and what it writes. Forward runs them in this order, backward in reverse: where a framework
// executes in another (Llama's norms, the bias of BERT's MLM decoder) a few small gradients become ready at
// another moment than there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/names.h"
#include "core/units.h"

namespace paceline {

// batch_norm keeps running statistics (buffers, which DDP broadcasts); norm (layer norm, RMSNorm) keeps none.
enum class LayerKind : std::uint8_t { conv, linear, norm, attention, embedding, batch_norm };
template <>
inline constexpr auto kNames<LayerKind> = names<LayerKind>({{"conv", LayerKind::conv},
                                                            {"linear", LayerKind::linear},
                                                            {"norm", LayerKind::norm},
                                                            {"attention", LayerKind::attention},
                                                            {"embedding", LayerKind::embedding},
                                                            {"batch_norm", LayerKind::batch_norm}});

inline constexpr double kFlopsPerMac = 2;

struct Layer {
  std::string name;
  LayerKind kind = LayerKind::linear;
  std::vector<std::int64_t> parameters;  // elements of each parameter tensor, in registration order
  std::int64_t forward_macs = 0;         // multiply-accumulates of one sample's forward pass
  std::int64_t output_elements = 0;      // elements that the layer writes for one sample
};

struct Model {
  std::string name;
  std::string input;  // "224x224 image", "4096 tokens": what one sample is
  std::vector<Layer> layers;
  std::int64_t tokens = 0;       // of one sample, whose work stands in the layers; 0: it has none
  std::int64_t most_tokens = 0;  // that it has positions for, and attends to; 0: no bound
  Bytes input_bytes{};           // of one sample as it is copied to a GPU; 0: not told
};

// The model on samples of another length: attention's work grows with its square, all other work in proportion; layers
// that see one token of a sample (BERT's pooler: as many multiply-accumulates as elements of their matrix) stay, as do
// all parameters. Throws InputError for a model without tokens, and for more than its most_tokens.
Model at_sequence(Model, std::int64_t tokens);

// The first dimension of a parameter tensor as PyTorch has it (a convolution's and a product's outputs, an embedding's
// words); with the rest of its dimensions it makes a matrix. 0: a vector, or not known. From work and outputs: a
// product's matrix is used at each position, and has a row for each of its outputs there.
std::int64_t matrix_rows(const Model&, const Layer&, std::size_t tensor);

std::int64_t parameter_count(const Model&);  // elements
std::int64_t forward_macs(const Model&);     // of one sample
std::size_t parameter_tensors(const Model&);

// A decoder stack by its dimensions: embeddings, `layers` pre-norm blocks, a norm, the output projection to
// the vocabulary (no bias). Counts as in the published architectures: attention 2 * S^2 * h MACs (no causal
// saving). Throws InputError (place: the field) for a dimension below 1 or heads that do not divide.
struct TransformerSpec {
  std::int64_t layers = 12;
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  std::int64_t key_value_heads = 0;  // 0: as many as heads (grouped-query attention: fewer)
  std::int64_t head_dim = 0;         // width of a head; 0: hidden / heads
  std::int64_t feed_forward = 0;     // 0: 4 * hidden
  bool gated_feed_forward = false;   // three matrices (SwiGLU) instead of two
  bool fused_qkv = true;             // one matrix for q, k and v (GPT-2) instead of three (Llama)
  bool bias = true;                  // linear layers and norms carry a bias (a norm without: RMSNorm)
  bool qkv_bias = false;             // q, k and v do where the others don't (Qwen2)
  bool qk_norm = false;              // norms of each head's queries and keys (Qwen3)
  std::int64_t vocabulary = 50257;
  std::int64_t sequence = 1024;
  bool learned_positions = true;
  bool tied_embeddings = true;
};
Model transformer(const TransformerSpec&);

}  // namespace paceline
