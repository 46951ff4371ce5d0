// The page of `paceline run`.
#pragma once

#include <string>

#include "scenarios/predict.h"

namespace paceline {

std::string headline(const Prediction&);  // the model and the GPUs
std::string terminal_table(const Prediction&);
std::string terminal_footer(const Prediction&);  // iterations, seed, fingerprint, engine

}  // namespace paceline
