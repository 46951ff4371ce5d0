// What a prediction puts on the links of its cluster.
#pragma once

#include "scenarios/json.h"
#include "scenarios/predict.h"
#include "sim/report/link_traffic.h"

namespace paceline {

LinkTraffic link_traffic(const Prediction&);

// result.json's "links": each class of links, and those that are busiest for their bandwidth.
inline constexpr std::size_t kBusiestLinks = 10;
Json link_traffic_json(const Prediction&);

}  // namespace paceline
