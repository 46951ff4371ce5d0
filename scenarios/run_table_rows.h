// Rows of `paceline run`'s page.
#pragma once

#include <string>

#include "scenarios/predict.h"

namespace paceline {

// How it trains, where that is not plain DDP, and options that count for nothing (run_strategy_rows.cpp).
std::string strategy_rows(const Prediction&);

// What the numbers rest on: where the kernels' times come from, delays, input (run_assumption_rows.cpp).
std::string assumption_rows(const Prediction&);

}  // namespace paceline
