// What a prediction says, as JSON.
#pragma once

#include "scenarios/json.h"
#include "scenarios/predict.h"

namespace paceline {

// The members that say how fast and why, in base units (the unit is the end of each key): result.json has
// them, and so has each line of a sweep.
Json::Object result_summary(const Prediction&);

}  // namespace paceline
