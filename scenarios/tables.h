// Pages for the terminal: plain text, at most 100 columns.
#pragma once

#include <string>

#include "topology/topology.h"

namespace paceline {

// Devices and links by kind, channels, bisection bandwidth (topology_table.cpp).
std::string topology_table(const Topology&);
std::string node_names(const ClusterSpec&);  // "dgx-a100", "dgx-a100 in 2, dgx-h100 in 4"
// Every preset of GPUs, nodes, models and clusters, one line each (presets_table.cpp).
std::string presets_table();
std::string compression_table();  // compression_table.cpp

}  // namespace paceline
