// What could be changed about a scenario, each as edits that anybody can make and run.
#pragma once

#include <string>
#include <vector>

#include "scenarios/predict.h"

namespace paceline {

struct Edit {
  std::string key;  // JSON pointer into the effective scenario (result.json's "scenario")
  Json value;
};

struct Lever {
  std::string change;  // "NIC bandwidth x2 (50 GB/s)"
  std::string advice;  // in a sentence: "with twice the NIC bandwidth (50 GB/s)"
  std::vector<Edit> edits;
  bool can_be_had = true;  // false: it tells where time goes, but nobody sells it
};

// Network, NVLink, latencies, faster GPUs, buckets, precision of gradients, accumulation, jitter, the
// slowness of those that are waited for most, degraded links, other traffic, input: those that apply to this
// scenario.
std::vector<Lever> levers(const Prediction&);

// The scenario with a lever's edits, as independent runs have it.
Scenario edited(const Scenario&, const std::vector<Edit>&);

}  // namespace paceline
