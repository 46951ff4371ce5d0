// A model by the config.json that Hugging Face's transformers writes beside its weights.
#pragma once

#include "kernels/model.h"
#include "scenarios/json.h"
#include "scenarios/reader.h"

namespace paceline {

bool is_hugging_face_config(const Json&);

// The decoder stack that transformers builds of it, tensor for tensor. How long samples are a configuration
// doesn't say: at_sequence does, up to a sliding window, within which attention is whole. Throws InputError, with
// the place in the configuration, for another architecture, a dimension that is missing or out of range, and what
// makes another model of it: a head that isn't the vocabulary's, quantised weights, cross attention, biases that
// these stacks have none of. Architectures: transformers, models/*/modeling_*.py of gemma, gpt2, llama, mistral,
// qwen2, qwen3.
Model model_of_config(const Json&, const Spot&);

}  // namespace paceline
