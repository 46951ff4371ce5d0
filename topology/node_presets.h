// The tables that node_preset looks in.
#pragma once

#include <span>

#include "topology/cluster_spec.h"

namespace paceline {

struct NodePreset {
  const char* name;
  NodeSpec (*make)();  // all but the name
};

// By name.
std::span<const NodePreset> machine_presets();  // presets.cpp
std::span<const NodePreset> cloud_presets();    // cloud_presets.cpp

}  // namespace paceline
