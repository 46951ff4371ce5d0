// Pages for the terminal: plain text, at most 100 columns.
#pragma once

#include <string>

#include "topology/topology.h"

namespace paceline {

// Devices and links by kind, channels, bisection bandwidth.
std::string topology_table(const Topology&);
// Every preset of GPUs, nodes, models and clusters, one line each.
std::string presets_table();
std::string compression_table();  // compression_table.cpp

}  // namespace paceline
