// Measured spreads of step times, as distributions.
#pragma once

#include <string>
#include <vector>

#include "core/random.h"

namespace paceline {

// Single steps over their run's median, 200 quantiles of equal probability, pooled over runs from step 21 on:
// BERT of MLPerf v0.7, NVIDIA, DGX A100 (mlcommons/training_results_v0.7, logs of rank 0; derived from MLPerf logs, not
// verified by MLCommons). bert_8_gpus, bert_16_gpus: sequences as long as they are, exchanged between GPUs, so
// that all share a step's work; bert_256_gpus: padded, constant work. Throws InputError for another name.
Distribution step_spread(const std::string& name);
std::vector<std::string> step_spread_names();

}  // namespace paceline
