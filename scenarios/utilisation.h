// How much of the GPUs' peak a training uses, and where its time comes from.
#pragma once

#include <string>

#include "scenarios/predict.h"

namespace paceline {

// Model FLOP/s utilisation (Chowdhery et al. 2022, PaLM): what forward and backward of the samples take, without
// recomputation, over the dense peak in the kernels' precision. A layer's backward counts twice its forward.
struct Utilisation {
  double tokens_per_second = 0;  // 0: samples aren't tokens
  double of_layers = 0;          // layers with parameters: of a transformer 6 FLOP per parameter and token
  double with_attention = 0;     // and attention's scores and values, without causal saving
};
Utilisation utilisation(const Prediction&);

// Where the layers' times come from: "measured", "given" (layer_times) or "roofline", which nobody measured.
std::string compute_source(const Scenario&);

// GPUs of the largest run that predictions were compared with (scenarios/validation).
inline constexpr std::int64_t kMostCompared = 4320;

// Images/s of one node: the fewest that a published run seems to have waited for, and the most that one trained with
// (DLPerf's MXNet on 8 V100, MLPerf on 8 H100: docs/accuracy.md, "Training throughput").
inline constexpr double kFewestWaitedFor = 2909, kMostRead = 56639;

}  // namespace paceline
