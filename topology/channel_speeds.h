// NCCL's own numbers for its graph search, which changed from version to version (src/graph/topo.h,
// src/graph/search.cc). version: 100 * major + minor.
#pragma once

#include <vector>

namespace paceline {

inline constexpr float kLocalRate = 5000;  // GB/s inside a device

// GB/s per NVLink.
float nvlink_rate(int compute_capability, int version);

// GB/s that the search tries for one channel, fastest first.
std::vector<float> candidate_speeds(int compute_capability, int version, bool several_nodes);

}  // namespace paceline
